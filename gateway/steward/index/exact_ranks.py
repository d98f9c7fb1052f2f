"""Keeps what the index has of boards with `exact_ranks`: the head of each window, and a sketch of all its scores.

A sketch is read from the ledger a slice at a time, by player; who moves meanwhile is in it as before or as after. It is
made anew when it lacks CHANGED of the standings, after no less than PAUSE_MS, or any after RENEWED_MS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.index.board_index import BoardIndex
from gateway.index.windows.heads import Head, Heads
from gateway.index.windows.sketches import KeptSketch, ScoreSketch, Sketches, lacking
from gateway.ledger import index_pages, queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.beyond_head import scores_after, standings_behind
from gateway.ledger.standings.ranks import FIRST
from gateway.runtime.clock import Clock
from policies.errors import SketchUnreadable
from policies.model import Policy
from policies.windows import FOREVER_MS

MOVED: Final = 500
"""Standings moved into a head, or out of it, in one step."""

SLICE: Final = 5_000
"""Scores read in one step of a window's sketch."""

CHANGED: Final = 0.01
PAUSE_MS: Final = 10_000
RENEWED_MS: Final = 600_000


class HeadKeeper:
    """Fills up the heads of one board, and cuts them. Raises IndexUnavailable and LedgerUnavailable."""

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._heads = Heads(index)
        self._index = index
        self._clock = clock

    async def step(self) -> int:
        """How many entries came into heads, or went."""
        windows = await self._ledger.read(index_pages.live_windows(self._policy.board, now_ms=self._clock()))
        return sum([await self.keep(window) for window in windows])

    async def keep(self, window: str) -> int:
        """How many entries came into the head of a window, or went: the one for too few, the other for too many."""
        head, most = await self._heads.of(window), self._index.most_entries or 0
        if head.entries > most:
            return await self._heads.trim(window, MOVED)
        if head.entries >= (self._policy.exact_ranks or 0) or not head.below:
            return 0
        behind = head.last or FIRST
        # Up to the middle of what may be lost and gained before anything has to be done again.
        room = (most + (self._policy.exact_ranks or 0)) // 2 - head.entries
        found = await self._ledger.read(
            standings_behind(self._policy.board, window, behind, count=min(MOVED, room))
        )
        return await self._heads.refill(window, head.version, found)


class ExactRankKeeper:
    """Keeps both for one board. Raises IndexUnavailable and LedgerUnavailable."""

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._keepers = [keeper(ledger, index, policy, clock=clock) for keeper in (HeadKeeper, SketchKeeper)]

    async def step(self) -> int:
        """How many entries came into heads or went, and slices into sketches."""
        return sum([await each.step() for each in self._keepers])


@dataclass(slots=True)
class _SketchBuild:
    """A sketch that is being made, and the last player that is in it."""

    kept: KeptSketch
    after: str = ""


class SketchKeeper:
    """Keeps the sketches of one board's windows. Raises IndexUnavailable and LedgerUnavailable; what was begun goes on."""

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._heads = Heads(index)
        self._sketches = Sketches(index.client, policy.board, policy.order)
        self._clock = clock
        self._begun: dict[str, _SketchBuild] = {}

    async def step(self) -> int:
        """How many slices went into sketches."""
        now_ms = self._clock()
        windows = await self._ledger.read(index_pages.live_windows(self._policy.board, now_ms=now_ms))
        self._begun = {window: begun for window, begun in self._begun.items() if window in windows}
        return sum([await self._keep(window, expires_at_ms) for window, expires_at_ms in windows.items()])

    async def _keep(self, window: str, expires_at_ms: int) -> bool:
        begun = self._begun.get(window) or await self._begin(window)
        if begun is None:
            return False
        page = await self._ledger.read(scores_after(self._policy.board, window, begun.after, count=SLICE))
        begun.kept.sketch.add(score for _, score in page if score is not None)
        if len(page) == SLICE:
            begun.after = page[-1][0]
            return True
        await self._sketches.keep(window, begun.kept, None if expires_at_ms == FOREVER_MS else expires_at_ms)
        del self._begun[window]
        return True

    async def _begin(self, window: str) -> _SketchBuild | None:
        """A new sketch if there is need of one."""
        head, held = await self._heads.of(window), await self._held(window)
        if not head.below or (held and not self._is_due(held, head)):
            return None
        seq = await self._ledger.read(queries.newest_seq())
        sketch = ScoreSketch(self._policy.order)
        begun = _SketchBuild(KeptSketch(sketch, seq, self._clock(), int(head.version)))
        self._begun[window] = begun
        return begun

    async def _held(self, window: str) -> KeptSketch | None:
        """The sketch there is; one that cannot be read is made anew."""
        try:
            return await self._sketches.of(window)
        except SketchUnreadable:
            return None

    def _is_due(self, held: KeptSketch, head: Head) -> bool:
        lacks = lacking(held, version=int(head.version), total=head.total)
        age_ms = self._clock() - held.begun_at_ms
        is_much = lacks >= CHANGED * held.sketch.count
        return bool(lacks) and age_ms >= (PAUSE_MS if is_much else RENEWED_MS)
