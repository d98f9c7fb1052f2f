"""Rebuilds a board's index from the ledger while readers read and writers write.

No reader sees half a board, and no change is lost:

- A board that fits into a page of each kind is read in one snapshot and written in one step. Of others, pages
  are read and written one after the other.
- All of it goes into the keys of a separate generation. Readers and writers only know the live keys, so a
  crash before the swap changes nothing for them. `swap_generation.lua` puts all keys in place in one step, so
  nobody reads two generations at once.
- Sequence numbers follow the order of commits. Before pages, `newest` is read, so they contain all changes up
  to it. Then the events after `newest` are read in slices, each in one snapshot with the rows they changed,
  and those rows are built again. After the last slice, the generation is the board at the moment S of that
  slice.
- Showing a standing that is in place already puts nothing on the stream. So the changes up to S that nobody
  has shown yet are shown before the swap, on the live keys, which know what the stream has had.
- A change committed after S and shown before the swap went to keys that the swap removes. So after the swap
  the events from S to the newest of that moment are read again and shown on the live keys. Later commits are
  shown by their own settlements. Sequence numbers guard every write, so showing a change twice does no harm.
- A crash between the swap and the end leaves the board without its sentinel, and the steward rebuilds it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar

from redis.exceptions import ResponseError

from gateway.index.board_index import BoardIndex, CommittedRun
from gateway.index.generation import BuiltBoard, Generation, ShardedGeneration, generation_of
from gateway.index.groups.segments import SegmentBoards
from gateway.ledger import index_pages, queries
from gateway.ledger.built_rows import BaselinesRead, StandingsRead, baseline_pages, standing_pages
from gateway.ledger.derived import log
from gateway.ledger.index_pages import BoardChanges, BoardEvent
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.memberships import memberships_after
from gateway.ledger.transaction import Operation
from gateway.ledger.whole_boards import whole_board
from gateway.runtime.clock import Clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.failpoints import Point, reach
from gateway.shared_records import Change, Standing
from policies.errors import IndexUnavailable, RebuildLost
from policies.model import Policy
from policies.readable_windows import readable_window_names
from policies.vocabulary import State
from validators.baseline import is_population

PAGE: Final = 2_000
"""Rows read and written at once: a few megabytes here, and a few milliseconds of Redis' one thread."""

WRITTEN_BEHIND: Final = 2
"""Pages of a kind that Redis takes while the next is read: it has one to do while another is made ready."""

EVENTS: Final = 500
"""Events in one slice of catching up."""

CATCH_UPS: Final = 1_000
"""Most slices of catching up. Under a load that needs more, readers may see a board that lacks some changes
from just before the swap, until the rebuild ends."""

REGROUPED: Final = 200
"""Players whose memberships are read in one page."""

REGROUPED_AT_ONCE: Final = 16
"""Players whose groups are written concurrently: each takes a connection, and others need some too."""

ATTEMPTS: Final = 3
"""Attempts of a rebuild when Redis is emptied under it."""

SETTLED_MS: Final = 3_600_000
SETTLED_EVENTS: Final = 100_000
"""Bounds of the settled set: an hour of events, or this many. Resending an older one does no harm."""

R = TypeVar("R", BaselinesRead, StandingsRead)

Tell = Callable[[int], None]
"""A callback that hears of progress: how many rows the last page or slice had."""


@dataclass(frozen=True, slots=True)
class RebuildCounts:
    """The numbers of rows that a rebuild put in place."""

    standings: int
    baselines: int
    pending: int

    @property
    def entries(self) -> int:
        """The sum of all rows."""
        return self.standings + self.baselines + self.pending


class Rebuilder:
    """Rebuilds one board. `tell` hears the number of standings in every page.

    Raises RebuildRefused, IndexUnavailable and LedgerUnavailable; the live board then stays as it was.
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

    async def rebuild(self) -> RebuildCounts:
        """Rebuild the board and return what it has now."""
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._attempt()
            except RebuildLost:
                continue
        return await self._attempt()

    async def total(self) -> int:
        """Return how many standings there are to build."""
        windows = await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock()))
        return await self._ledger.read(index_pages.count_standings(self._board, list(windows)))

    async def _attempt(self) -> RebuildCounts:
        generation = generation_of(self._index)
        await generation.begin()
        try:
            built = await self._build_at_once(generation) or await self._build_in_pages(generation)
            rebuilt, shown_upto, reached_seq = built
            if self._policy.exact_ranks:
                await generation.trim(
                    await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock()))
                )
            await self._show_unshown(generation, shown_upto, reached_seq)
            reach(Point.BEFORE_SWAP)
            await generation.swap(readable_window_names(self._policy, self._clock()))
            reach(Point.AFTER_SWAP)
            await self._replay(generation, reached_seq)
            await self._regroup(generation)
            await generation.finish()
        except BaseException:
            await asyncio.shield(generation.give_up())
            raise
        return rebuilt

    async def _build_at_once(
        self, generation: Generation | ShardedGeneration
    ) -> tuple[RebuildCounts, int, int] | None:
        """Build a small board; return what it has now, or None if it is large.

        With it, return the event up to which the index was told of all, and the newest in the generation.
        """
        now_ms = self._clock()
        since_ms = now_ms - SETTLED_MS
        whole = await self._ledger.read(
            whole_board(self._board, now_ms=now_ms, since_ms=since_ms, count=PAGE)
        )
        if whole is None:
            return None
        pending = [(submission_id, at_ms) for _, submission_id, _, at_ms in whole.pending]
        settled = [(event.submission_id, event.at_ms) for event in whole.events if _settles(event)]
        await generation.put_board(BuiltBoard(whole.standings, whole.baselines, pending, settled))
        self._tell(len(whole.standings))
        reach(Point.INSIDE_REBUILD)
        counts = RebuildCounts(len(whole.standings), len(whole.baselines), len(pending))
        return counts, whole.shown_upto, whole.upto

    async def _build_in_pages(
        self, generation: Generation | ShardedGeneration
    ) -> tuple[RebuildCounts, int, int]:
        newest = await self._ledger.read(queries.newest_seq())
        rebuilt = await self._build_parts(generation)
        reached_seq = await self._catch_up(generation, newest)
        return rebuilt, (await self._ledger.read(log.projected())).upto, reached_seq

    async def _build_parts(self, generation: Generation | ShardedGeneration) -> RebuildCounts:
        pending = await self._build_pending(generation)
        await self._build_settled(generation)
        building = (self._build_standings(generation), self._build_baselines(generation))
        standings, baselines = await in_turns(building, at_once=len(building))
        return RebuildCounts(standings, baselines, pending)

    async def _build_standings(self, generation: Generation | ShardedGeneration) -> int:
        windows = await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock()))
        return sum(
            [
                await self._build_window(generation, window, expires_at_ms)
                for window, expires_at_ms in windows.items()
            ]
        )

    async def _build_window(
        self, generation: Generation | ShardedGeneration, window: str, expires_at_ms: int
    ) -> int:
        def read(last: str | None) -> Operation[StandingsRead]:
            return standing_pages(self._board, window, last or "", count=PAGE)

        async def write(read: StandingsRead) -> int:
            count = len(read.page.players)
            await generation.put_page(window, expires_at_ms, read.page)
            self._tell(count)
            reach(Point.INSIDE_REBUILD)
            return count

        return await self._copy(read, write)

    async def _build_baselines(self, generation: Generation | ShardedGeneration) -> int:
        def read(last: str | None) -> Operation[BaselinesRead]:
            return baseline_pages(self._board, last, count=PAGE)

        async def write(read: BaselinesRead) -> int:
            await generation.put_baseline_page(read.page)
            return len(read.page.subjects)

        return await self._copy(read, write)

    async def _copy(
        self,
        read: Callable[[str | None], Operation[R]],
        write: Callable[[R], Coroutine[Any, Any, int]],
    ) -> int:
        """Copy pages of rows, each read after the last row of the one before, and return the number of rows.

        Up to WRITTEN_BEHIND pages are written while the next is read.
        """
        count = 0
        page = await self._ledger.read(read(None))
        writing: deque[asyncio.Task[int]] = deque()
        try:
            while page.last is not None:
                if len(writing) == WRITTEN_BEHIND:
                    count += await writing[0]
                    writing.popleft()
                writing.append(asyncio.create_task(write(page)))
                page = await self._ledger.read(read(page.last))
        finally:
            # Nothing is written to what was given up.
            count += sum(await in_turns(writing, at_once=WRITTEN_BEHIND))
        return count

    async def _build_pending(self, generation: Generation | ShardedGeneration) -> int:
        count, after = 0, 0
        while page := await self._ledger.read(
            queries.pending_submissions(self._board, after=after, count=PAGE)
        ):
            await generation.put_pending((submission_id, at_ms) for _, submission_id, _, at_ms in page)
            count, after = count + len(page), page[-1][0]
        return count

    async def _build_settled(self, generation: Generation | ShardedGeneration) -> None:
        """Fill the settled set with the decisions of the last hour, newest first."""
        before, since_ms = await self._ledger.read(queries.newest_seq()) + 1, self._clock() - SETTLED_MS
        for _ in range(0, SETTLED_EVENTS, PAGE):
            page = await self._ledger.read(index_pages.events_before(self._board, before, count=PAGE))
            recent = [event for event in page if event.at_ms > since_ms]
            settled = [event for event in recent if _settles(event)]
            await generation.put_settled((event.submission_id, event.at_ms) for event in settled)
            if len(recent) < PAGE:
                return
            before = page[-1].seq

    async def _catch_up(self, generation: Generation | ShardedGeneration, after: int) -> int:
        """Build again what changed after `after`; return the sequence number of the generation's state."""
        for _ in range(CATCH_UPS):
            changes = await self._changes_after(after)
            await generation.replace_standings(changes.standings)
            await generation.put_baselines(changes.baselines)
            waiting = [event for event in changes.events if _waits(event)]
            settled = [event for event in changes.events if _settles(event)]
            await generation.put_pending((event.submission_id, event.at_ms) for event in waiting)
            await generation.put_settled((event.submission_id, event.at_ms) for event in settled)
            after = changes.upto
            if changes.is_newest:
                break
        return after

    async def _show_unshown(self, generation: Generation | ShardedGeneration, after: int, upto: int) -> None:
        """Show the built standings that nobody has shown yet on the live keys, and so on the stream."""
        while after < upto:
            page = await self._ledger.read(
                index_pages.unshown_standings(
                    self._board, after, upto=upto, now_ms=self._clock(), count=EVENTS
                )
            )
            for _, changed in groupby(page.standings, key=lambda standing: standing.seq):
                await self._put_on_stream(list(changed))
            after = page.upto
            if after < upto:  # otherwise the swap follows at once
                await generation.renew()

    async def _put_on_stream(self, changed: Sequence[Standing]) -> None:
        """Show what one event changed, of one player."""
        try:
            await self._index.restore(changed[0].player, changed, [])
        except IndexUnavailable as error:
            # Live keys that somebody damaged must not keep the board from being built: the swap removes them.
            if not isinstance(error.__cause__, ResponseError | ValueError):
                raise

    async def _replay(self, generation: Generation | ShardedGeneration, after: int) -> None:
        """Show changes after `after` on the live keys: they may have been shown on removed keys."""
        changes = await self._changes_after(after)
        newest = after if changes.is_newest else await self._ledger.read(queries.newest_seq())
        while changes.events:
            await self._show(changes)
            await generation.renew()
            if changes.is_newest or changes.upto >= newest:
                return
            changes = await self._changes_after(changes.upto)

    async def _regroup(self, generation: Generation | ShardedGeneration) -> None:
        """Put the players of groups on the groups' boards, which follow from the live keys."""
        if not self._policy.segments:
            return
        segments = SegmentBoards(self._index, self._policy.segments)
        windows = list(await self._ledger.read(index_pages.live_windows(self._board, now_ms=self._clock())))
        after = ""
        while page := await self._ledger.read(memberships_after(self._board, after, count=REGROUPED)):
            keeping = (segments.keep(membership, windows) for membership in page)
            await in_turns(keeping, at_once=REGROUPED_AT_ONCE)
            await generation.renew()
            after = page[-1].player

    async def _show(self, changes: BoardChanges) -> None:
        waiting = [event for event in changes.events if _waits(event)]
        if waiting:
            await self._index.close_runs(
                [CommittedRun(event.submission_id, event.player, event.at_ms) for event in waiting]
            )
        for event in (event for event in changes.events if not _waits(event)):
            await self._index.project(self._change_of(event, changes))

    def _change_of(self, event: BoardEvent, changes: BoardChanges) -> Change:
        player = event.player
        standings = tuple(standing for standing in changes.standings if standing.player == player)
        baselines = tuple(
            baseline
            for baseline in changes.baselines
            if baseline.player == player or is_population(baseline.player)
        )
        return Change(
            event.seq, event.submission_id, self._board, player, event.to_state, standings, baselines
        )

    async def _changes_after(self, after: int) -> BoardChanges:
        page = index_pages.changes_after(self._board, after, now_ms=self._clock(), count=EVENTS)
        return await self._ledger.read(page)


def _waits(event: BoardEvent) -> bool:
    return event.to_state is State.PENDING


def _settles(event: BoardEvent) -> bool:
    """Return whether the event decided on a submission; those of a rollup have none."""
    return bool(event.submission_id) and not _waits(event)
