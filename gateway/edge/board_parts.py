"""The parts that an edge has for a board, made at their first use and let go when the board is not used."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from gateway.edge.reads.board_reader import BoardReader
from gateway.edge.reads.distribution_reader import DistributionReader
from gateway.index import keys
from gateway.index.board_indexes import Index
from gateway.index.groups.circle_memory import CircleMemory
from gateway.index.groups.friends import CIRCLE_MS, Circles
from gateway.index.groups.segments import SegmentBoards
from gateway.index.limits.admission import LocalLimits, SubmissionLimits
from gateway.index.limits.charging import KeyedLimit
from gateway.index.limits.open_runs import OpenRuns
from gateway.index.windows.exact_distribution import ExactDistributions
from gateway.index.windows.heads import Heads
from gateway.index.windows.sketches import Sketches
from gateway.index.windows.subsets import PlayerLookup
from gateway.ledger.ledger import Ledger
from gateway.runtime.bounded_cache import BoundedCache
from policies.loader import Board

LIMITER_KEYS: Final = 262_144
"""Most players and addresses, each on one board, that an edge limits by itself while Redis is away."""


@dataclass(slots=True)
class SharedParts:
    """What the parts of all boards of an edge share."""

    ledger: Ledger
    index: Index
    circles: CircleMemory = field(default_factory=lambda: CircleMemory(CIRCLE_MS / 1000))
    # Shared, so that nobody's limits begin anew with the parts of a board that was let go.
    limits: LocalLimits = field(default_factory=lambda: LocalLimits(LIMITER_KEYS))


class BoardParts:
    """The parts of one board under one policy, each made when it is first used."""

    def __init__(self, board: Board, shared: SharedParts) -> None:
        self.digest = board.digest
        self._board = board
        self._shared = shared
        self._index = shared.index.of(board)

    @cached_property
    def reader(self) -> BoardReader:
        """The reader of its entries."""
        return BoardReader(self._index, self._shared.ledger)

    @cached_property
    def distributions(self) -> DistributionReader:
        """The reader of its score distributions."""
        index = self._index
        sketches = Sketches(index.client, index.board, index.ranking.policy.order)
        return DistributionReader(self.reader, ExactDistributions(index), Heads(index), sketches)

    @cached_property
    def circles(self) -> Circles:
        """The boards among friends."""
        return Circles(self._index, self._shared.circles)

    @cached_property
    def segments(self) -> SegmentBoards:
        """The boards of its groups. It has none unless its policy declares segments."""
        return SegmentBoards(self._index, self._board.policy.segments)

    @cached_property
    def player_lookup(self) -> PlayerLookup:
        """The entries by player."""
        return PlayerLookup(self._index)

    @cached_property
    def submission_limits(self) -> SubmissionLimits:
        """The limits on submissions."""
        limits = self._board.policy.limits
        return SubmissionLimits(self._index.client, self._board.name, limits, local=self._shared.limits)

    @cached_property
    def run_limit(self) -> KeyedLimit:
        """The limit on opening runs, which equals the one on submissions."""
        name, rate = self._board.name, self._board.policy.limits.player
        return KeyedLimit(
            self._index.client,
            rate,
            lambda who: keys.limit(name, "runs", who),
            local=self._shared.limits.charges,
        )

    @cached_property
    def open_runs(self) -> OpenRuns:
        """The open runs of its players."""
        return OpenRuns(self._index.client, self._board.name, self._board.policy.limits.open_runs)


class BoardPartsCache:
    """The parts of the boards that an edge used last."""

    def __init__(self, shared: SharedParts, *, limit: int) -> None:
        self.cache: BoundedCache[BoardParts] = BoundedCache("edge", limit=limit)
        self._shared = shared

    def of(self, board: Board) -> BoardParts:
        """Return the parts of a board, made anew if its policy is another now."""
        parts = self.cache.get(board.name)
        if parts is None or parts.digest != board.digest:
            self.cache.put(board.name, parts := BoardParts(board, self._shared))
        return parts
