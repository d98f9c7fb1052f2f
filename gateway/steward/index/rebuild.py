"""Rebuilds a board's index from the ledger while readers read and writers write.

Why no reader sees half a board, and no change is lost:

- Pages go into keys of a generation of its own. Readers and writers know the live keys alone, so a crash before the
  swap changes nothing for them; `swap_generation.lua` puts all keys in place in one step, so nobody reads two
  generations at once.
- Sequence numbers are given in the order of commits. `newest` is read first, so whatever is in the ledger up to it is
  in pages read later. Then events after `newest` are read, each slice in one snapshot with what they touched, and that
  is built again, until a slice is the last: the generation is then the board of the moment when that slice was read, S.
- What is committed later than S and shown before the swap was shown on keys that the swap takes away. So after the swap
  the events from S to the newest of that moment are read again and shown on the live keys. What is committed later still
  is shown by its own settlement after the swap. Showing is guarded by sequence numbers, so twice does no more.
- A crash between the swap and the end of that leaves the board without its sentinel, and the steward rebuilds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from gateway.index.board_index import BoardIndex, CommittedRun
from gateway.index.generation import Generation, ShardedGeneration, generation_of
from gateway.index.groups.segments import SegmentBoards
from gateway.ledger import index_pages, queries
from gateway.ledger.index_pages import BoardChanges, BoardEvent
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.memberships import memberships_after
from gateway.records import Change, Standing
from gateway.runtime.clock import Clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.failpoints import Point, reach
from gateway.steward.index.readable_windows import readable_window_names
from policies.errors import RebuildLost
from policies.model import Policy
from policies.vocabulary import State
from validators.baseline import is_population

PAGE: Final = 2_000
"""Rows read and written at once: a few megabytes here, and a few milliseconds of Redis' one thread."""

EVENTS: Final = 500
"""Events caught up with at once."""

CATCH_UPS: Final = 1_000
"""Slices of events caught up with at most. Under a load that this is not enough for, readers may see a board, for the
moment between the swap and the end, that has some changes and lacks others from just before it."""

REGROUPED: Final = 200
"""Players whose memberships are read at once."""

REGROUPED_AT_ONCE: Final = 16
"""Players whose groups are made at once: each takes a connection, and others need some too."""

ATTEMPTS: Final = 3
"""How often a rebuild begins again when Redis is emptied under it."""

SETTLED_MS: Final = 3_600_000
SETTLED_EVENTS: Final = 100_000
"""Events looked at to fill the settled set: an hour of them, or as many as this. A resend of an older one is no harm."""

Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild put in place."""

    standings: int
    baselines: int
    pending: int

    @property
    def entries(self) -> int:
        """All of it."""
        return self.standings + self.baselines + self.pending


class Rebuilder:
    """Rebuilds one board. Raises RebuildRefused, IndexUnavailable and LedgerUnavailable; the live board is then as it was.

    `tell` hears of every page: how many standings were built in it.
    """

    def __init__(
        self,
        ledger: Ledger,
        index: BoardIndex,
        policy: Policy,
        *,
        clock: Clock,
        tell: Tell = lambda _count: None,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._policy = policy
        self._board = policy.board
        self._clock = clock
        self._tell = tell

    async def rebuild(self) -> Rebuilt:
        """What is in place when all is, and the board is whole."""
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._attempt()
            except RebuildLost:
                continue
        return await self._attempt()

    async def total(self) -> int:
        """How many standings there are to build."""
        windows = await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock()))
        return await self._ledger.read(index_pages.count_standings(self._board, list(windows)))

    async def _attempt(self) -> Rebuilt:
        built = generation_of(self._index)
        await built.begin()
        try:
            newest = await self._ledger.read(queries.newest_seq())
            rebuilt = await self._build(built)
            reached = await self._catch_up(built, newest)
            await built.trim(
                await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock()))
            )
            reach(Point.BEFORE_SWAP)
            await built.swap(readable_window_names(self._policy, self._clock()))
            reach(Point.AFTER_SWAP)
            await self._replay(built, reached)
            await self._regroup(built)
            await built.finish()
        except BaseException:
            await asyncio.shield(built.give_up())
            raise
        return rebuilt

    async def _build(self, built: Generation | ShardedGeneration) -> Rebuilt:
        baselines = await self._build_baselines(built)
        pending = await self._build_pending(built)
        await self._build_settled(built)
        standings = 0
        for window in await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock())):
            async with aclosing(self._pages(window)) as pages:
                async for page in pages:
                    await built.put_standings(page)
                    standings += len(page)
                    self._tell(len(page))
                    reach(Point.INSIDE_REBUILD)
        return Rebuilt(standings, baselines, pending)

    async def _pages(self, window: str) -> AsyncGenerator[list[Standing], None]:
        """The standings of a window. The next page is read while the one before is written."""

        def after(player: str) -> asyncio.Task[list[Standing]]:
            page = index_pages.standings_after(self._board, window, player, count=PAGE)
            return asyncio.ensure_future(self._ledger.read(page))

        reading = after("")
        try:
            while page := await reading:
                reading = after(page[-1].player)
                yield page
        finally:
            reading.cancel()

    async def _build_baselines(self, built: Generation | ShardedGeneration) -> int:
        count, after = 0, None
        while page := await self._ledger.read(queries.baselines_page(self._board, after=after, count=PAGE)):
            await built.put_baselines(page)
            count, after = count + len(page), page[-1].player
        return count

    async def _build_pending(self, built: Generation | ShardedGeneration) -> int:
        count, after = 0, 0
        while page := await self._ledger.read(
            queries.pending_submissions(self._board, after=after, count=PAGE)
        ):
            await built.put_pending((submission_id, at_ms) for _, submission_id, _, at_ms in page)
            count, after = count + len(page), page[-1][0]
        return count

    async def _build_settled(self, built: Generation | ShardedGeneration) -> None:
        """Puts what was decided within the last hour on the settled set, the newest first."""
        before, since_ms = await self._ledger.read(queries.newest_seq()) + 1, self._clock() - SETTLED_MS
        for _ in range(0, SETTLED_EVENTS, PAGE):
            page = await self._ledger.read(index_pages.events_before(before, count=PAGE))
            ours = [each for each in page if each.board == self._board and each.at_ms > since_ms]
            await built.put_settled((e.submission_id, e.at_ms) for e in ours if not _waits(e))
            if len(page) < PAGE or page[-1].at_ms <= since_ms:
                return
            before = page[-1].seq

    async def _catch_up(self, built: Generation | ShardedGeneration, after: int) -> int:
        """Builds again what events after `after` touched; the number up to which nothing is missing, and nothing is newer."""
        for _ in range(CATCH_UPS):
            found = await self._touched(after)
            await built.replace_standings(found.standings)
            await built.put_baselines(found.baselines)
            await built.put_pending((e.submission_id, e.at_ms) for e in found.events if _waits(e))
            await built.put_settled((e.submission_id, e.at_ms) for e in found.events if not _waits(e))
            after = found.upto
            if found.is_newest:
                break
        return after

    async def _replay(self, built: Generation | ShardedGeneration, after: int) -> None:
        """Shows on the live keys what was committed after `after` and may have been shown on keys that are gone."""
        newest = await self._ledger.read(queries.newest_seq())
        while after < newest:
            found = await self._touched(after)
            await self._show(found)
            await built.renew()
            after = found.upto

    async def _regroup(self, built: Generation | ShardedGeneration) -> None:
        """Has the players of groups stand on the groups' boards: those follow from what is live now, as they always do."""
        if not self._policy.segments:
            return
        segments = SegmentBoards(self._index, self._policy.segments)
        windows = list(await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock())))
        after = ""
        while page := await self._ledger.read(memberships_after(self._board, after, count=REGROUPED)):
            await in_turns((segments.keep(each, windows) for each in page), at_once=REGROUPED_AT_ONCE)
            await built.renew()
            after = page[-1].player

    async def _show(self, found: BoardChanges) -> None:
        runs = [CommittedRun(e.submission_id, e.player, e.at_ms) for e in found.events if _waits(e)]
        if runs:
            await self._index.close_runs(runs)
        for each in (e for e in found.events if not _waits(e)):
            stands = tuple(standing for standing in found.standings if standing.player == each.player)
            learnt = tuple(
                one for one in found.baselines if one.player == each.player or is_population(one.player)
            )
            await self._index.project(
                Change(each.seq, each.submission_id, self._board, each.player, each.to_state, stands, learnt)
            )

    async def _touched(self, after: int) -> BoardChanges:
        found = index_pages.changes_after(self._board, after, now_ms=self._clock(), count=EVENTS)
        return await self._ledger.read(found)


def _waits(event: BoardEvent) -> bool:
    return event.to_state is State.PENDING
