"""A board with the policy in force for it, and the simulators of its builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from policies.choices import Writes
from policies.model import Policy
from policies.opened_board import NO_CONTENT, BoardState, OpenedBoard
from policies.ranking import Ranking
from policies.seeds import SeedOf, board_seed


@dataclass(frozen=True, slots=True)
class Simulator:
    """A simulator on disk and the files it reads, identified by one digest of all (`policies.digests`)."""

    digest: str
    path: Path
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """A policy in force: the model, its digest, and the simulator of every build.

    A board of a family also has the family's name, what the ledger has of it, and the family's rollups.
    """

    policy: Policy
    digest: str
    simulators: Mapping[str, Simulator]
    family: str | None = None
    opened: OpenedBoard | None = None
    rollups: tuple[Board, ...] = field(default=(), repr=False, compare=False)
    ranking: Ranking = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the board's ranking once."""
        object.__setattr__(self, "ranking", Ranking(self.policy))

    @property
    def kind(self) -> str:
        """Return the key that names it in its file."""
        return "board"

    @property
    def name(self) -> str:
        """Return the board's name, as in URLs and keys."""
        return self.policy.board

    @property
    def opened_seq(self) -> int:
        """Return the ledger's event that opened it; 0 for a board of a file, which is always there."""
        return self.opened.opened_seq if self.opened else 0

    @property
    def content_digest(self) -> bytes:
        """Return the SHA-256 of the parameters and asset that its simulator gets; `NO_CONTENT` of nothing."""
        return self.opened.content_digest if self.opened else NO_CONTENT

    @property
    def final_from_ms(self) -> int | None:
        """Return when a closed board can get no more runs (Unix ms): its last ticket has expired then.

        None for a board that is not closed, and for a board of a file.
        """
        opened = self.opened
        if opened is None or opened.state is not BoardState.CLOSED or opened.closes_at_ms is None:
            return None
        has_tickets = self.policy.writes is not Writes.TRUSTED
        return opened.closes_at_ms + (self.policy.run_lifetime_s * 1000 if has_tickets else 0)

    @property
    def seed(self) -> int | None:
        """Return the seed of all its runs; None if each run has its own."""
        if self.policy.seed is SeedOf.RUN:
            return None
        return board_seed(self.family or "", self.name, self.content_digest)
