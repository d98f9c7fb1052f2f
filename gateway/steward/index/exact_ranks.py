"""Keeps the heads of windows, and sketches of all their scores, on boards with `exact_ranks`.

A sketch is read from the ledger in slices, by player. A standing that moves meanwhile is counted as before or
as after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.index.board_index import BoardIndex
from gateway.index.windows.heads import Head, Heads
from gateway.index.windows.sketches import ScoreSketch, Sketches, StoredSketch, missing_changes
from gateway.ledger import index_pages, queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.beyond_head import scores_after, standings_behind
from gateway.ledger.standings.ranks import FIRST
from gateway.runtime.clock import Clock
from policies.errors import SketchUnreadable
from policies.model import Policy
from policies.windows import FOREVER_MS

MOVED: Final = 500
"""Standings moved into or out of a head in one step."""

SLICE: Final = 5_000
"""Scores read into a window's sketch in one step."""

CHANGED: Final = 0.01
"""The share of a sketch's standings that may change before it is made anew after PAUSE_MS."""

PAUSE_MS: Final = 10_000
"""Shortest age at which a sketch is made anew."""

RENEWED_MS: Final = 600_000
"""Age at which a sketch is made anew after any change."""


class HeadKeeper:
    """Fills up and trims the heads of one board. Raises IndexUnavailable and LedgerUnavailable."""

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._heads = Heads(index)
        self._index = index
        self._clock = clock

    async def step(self) -> int:
        """Tend every head and return how many entries moved."""
        windows = await self._ledger.read(index_pages.live_windows(self._policy.board, now_ms=self._clock()))
        return sum([await self.keep(window) for window in windows])

    async def keep(self, window: str) -> int:
        """Refill a head that is too short, or trim one that is too long; return how many entries moved."""
        head, most_entries = await self._heads.of(window), self._index.most_entries or 0
        if head.entries > most_entries:
            return await self._heads.trim(window, MOVED)
        if head.entries >= (self._policy.exact_ranks or 0) or not head.below:
            return 0
        last = head.last or FIRST
        # A head filled half-way between its bounds can lose or gain the most before it needs work again.
        room = (most_entries + (self._policy.exact_ranks or 0)) // 2 - head.entries
        standings = await self._ledger.read(
            standings_behind(self._policy.board, window, last, count=min(MOVED, room))
        )
        return await self._heads.refill(window, head.version, standings)


class ExactRankKeeper:
    """Keeps the heads and the sketches of one board. Raises IndexUnavailable and LedgerUnavailable."""

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._heads = HeadKeeper(ledger, index, policy, clock=clock)
        self._sketches = SketchKeeper(ledger, index, policy, clock=clock)

    @property
    def is_building(self) -> bool:
        """Whether a sketch is unfinished, of which only this keeper knows."""
        return self._sketches.is_building

    @property
    def lacks_changes(self) -> bool:
        """Whether a sketch lacked changes in the last step, and is too young to be made anew."""
        return self._sketches.lacks_changes

    async def step(self) -> int:
        """Return how many entries moved into or out of heads, plus how many slices went into sketches."""
        return await self._heads.step() + await self._sketches.step()


@dataclass(slots=True)
class _SketchBuild:
    """An unfinished sketch and the last player in it."""

    sketch: StoredSketch
    after: str = ""


class SketchKeeper:
    """Makes the sketches of one board's windows.

    Raises IndexUnavailable and LedgerUnavailable; the next step continues unfinished sketches.
    """

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._heads = Heads(index)
        self._sketches = Sketches(index.client, policy.board, policy.order)
        self._clock = clock
        self._builds: dict[str, _SketchBuild] = {}
        self.lacks_changes = False

    @property
    def is_building(self) -> bool:
        """Whether a sketch is unfinished."""
        return bool(self._builds)

    async def step(self) -> int:
        """Read a slice for each sketch that needs one and return how many were read."""
        self.lacks_changes, now_ms = False, self._clock()
        windows = await self._ledger.read(index_pages.live_windows(self._policy.board, now_ms=now_ms))
        self._builds = {window: build for window, build in self._builds.items() if window in windows}
        return sum([await self._extend(window, expires_at_ms) for window, expires_at_ms in windows.items()])

    async def _extend(self, window: str, expires_at_ms: int) -> bool:
        build = self._builds.get(window) or await self._begin(window)
        if build is None:
            return False
        page = await self._ledger.read(scores_after(self._policy.board, window, build.after, count=SLICE))
        build.sketch.sketch.add(score for _, score in page if score is not None)
        if len(page) == SLICE:
            build.after = page[-1][0]
            return True
        await self._sketches.keep(
            window, build.sketch, None if expires_at_ms == FOREVER_MS else expires_at_ms
        )
        del self._builds[window]
        return True

    async def _begin(self, window: str) -> _SketchBuild | None:
        """Begin a sketch if the window needs a new one."""
        head, stored = await self._heads.of(window), await self._stored(window)
        if not head.below or (stored and not self._is_due(stored, head)):
            return None
        # Taken before the first slice: changes from here on count as changes that the sketch lacks.
        seq = await self._ledger.read(queries.newest_seq())
        sketch = ScoreSketch(self._policy.order)
        build = _SketchBuild(StoredSketch(sketch, seq, self._clock(), int(head.version)))
        self._builds[window] = build
        return build

    async def _stored(self, window: str) -> StoredSketch | None:
        """Return the window's sketch; an unreadable one counts as none, so that it is made anew."""
        try:
            return await self._sketches.of(window)
        except SketchUnreadable:
            return None

    def _is_due(self, stored: StoredSketch, head: Head) -> bool:
        changes = missing_changes(stored, version=int(head.version), total=head.total)
        age_ms = self._clock() - stored.begun_at_ms
        self.lacks_changes |= bool(changes)
        is_much = changes >= CHANGED * stored.sketch.count
        return bool(changes) and age_ms >= (PAUSE_MS if is_much else RENEWED_MS)
