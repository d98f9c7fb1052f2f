"""Feeds consumers with the changes of standings on the streams of the lanes, at least once.

Any number of stewards may run the same consumer. Each entry is given to one of them, and again to another
unless it was acknowledged, so an effect must be the same when it comes twice. An idle lane costs no more than
its part in one read of all lanes, and a consumer's group in a lane is made with the lane's first change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from redis.asyncio import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.index.feed.consumer_group import LEFT_MS, ConsumerGroup, GroupEntry, GroupMarks, Mutation
from gateway.index.feed.lane_watch import LOOK_S, LaneWatch
from gateway.ledger import index_pages, queries
from gateway.ledger.derived import lane_positions, log
from gateway.ledger.index_pages import SubmissionSummary
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import Clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.lanes import LANES, lane_of
from gateway.runtime.telemetry import DERIVED_LAG, DERIVED_REBUILDS, Event, logger
from policies.loader import Board
from policies.opened_board import family_named_by

STREAM_SLICE: Final = 100
"""Entries of one lane in one step."""

FOLLOWED_AT_ONCE: Final = 8
"""Lanes that are read at once."""

RECOVERED_SLICE: Final = 10_000
"""Events of the log that are searched at once for boards that changed."""

RECOVERED_AT_ONCE: Final = 1_000
"""Boards of which a consumer catches up at once."""

QUIET_MS: Final = 5_000
"""The interval at which the positions in lanes are stored.

After a loss of a stream, changes since then are told again.
"""

_log = logger()


class ChangeConsumer(Protocol):
    """Handles each change of a standing at least once. The second time has no further effect."""

    name: str

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """Handle some changes."""
        ...

    async def recover(self, boards: Sequence[Board], since: Mapping[str, int]) -> None:
        """Handle what the stream has lost: all that the ledger decided on each board after its event."""
        ...


class ChangeFollower:
    """Feeds one consumer from all lanes, as a group on each lane that is in use.

    `steward` is a unique name of this process.
    """

    def __init__(
        self,
        ledger: Ledger,
        client: Redis,
        catalogue: Catalogue,
        consumer: ChangeConsumer,
        *,
        steward: str,
        clock: Clock,
        left_ms: int = LEFT_MS,
        look_s: float = LOOK_S,
    ) -> None:
        self._ledger = ledger
        self._client = client
        self._catalogue = catalogue
        self._consumer = consumer
        self._steward = steward
        self._clock = clock
        self._left_ms = left_ms
        self._noted_at_ms = 0
        self._noted: dict[int, int] = {}
        self._lags: dict[int, int] = {}
        self._has_all: set[int] = set()
        self.name = consumer.name
        self._marks = GroupMarks(client, self.name)
        self._watch = LaneWatch(client, self.name, look_s=look_s)
        self._outdated = OutdatedBoards(ledger, catalogue, ReadKind.DUTIES)

    async def step(self) -> int:
        """Feed the next changes, and return how many.

        Raises a lane's error after all lanes had their turn.
        """
        projected = await self._ledger.read(log.projected())
        self._has_all.clear()
        await self._watch.look(projected.newest if projected.is_whole else None)
        following = [self._follow(lane) for lane in sorted(self._watch.busy - self._watch.unmarked)]
        try:
            done = sum(await in_turns(following, at_once=FOLLOWED_AT_ONCE))
        finally:
            DERIVED_LAG.labels(self.name).set(sum(self._lags.values()))
        done += await self._recover()
        await self._note_quiet(projected.upto)
        return done

    async def rebuild(self) -> None:
        """Make every group begin again, from the first event of the ledger."""
        lanes = range(LANES)
        await self._ledger.write(lane_positions.put(self.name, dict.fromkeys(lanes, 0)))
        await self._marks.remove(lanes)

    def group(self, lane: int) -> ConsumerGroup:
        """Return the consumer's group in a lane."""
        return ConsumerGroup(self._client, lane, self.name, self._steward)

    async def _follow(self, lane: int) -> int:
        """Feed one lane's next changes, board by board."""
        group = self.group(lane)
        taken = await group.take(STREAM_SLICE, left_ms=self._left_ms)
        self._lags[lane] = taken.lag
        if not taken.is_whole:
            self._watch.unmarked.add(lane)
        elif taken.is_at_rest:
            self._watch.rest(lane, taken.last_id)
        by_board: dict[str, list[GroupEntry]] = defaultdict(list)
        for entry in taken.entries:
            by_board[entry.board if lane_of(entry.board) == lane else ""].append(entry)
        boards = await self._catalogue.boards(name for name in by_board if name)
        mutations = {name: _mutations_of(board, by_board[name]) for name, board in boards.items()}
        ids = {change.submission_id for some in mutations.values() for change in some} - {""}
        summaries = await self._ledger.read(index_pages.summaries_of(sorted(ids))) if ids else {}
        done = [entry.stream_id for name in by_board.keys() - boards.keys() for entry in by_board[name]]
        feeding = (
            self._feed(board, by_board[name], mutations[name], summaries, done)
            for name, board in boards.items()
        )
        try:
            await in_turns(feeding, at_once=1)
        finally:
            if done:
                await group.acknowledge(done)
        if taken.is_last:
            self._has_all.add(lane)
        return len(taken.entries)

    async def _feed(
        self,
        board: Board,
        entries: Sequence[GroupEntry],
        mutations: Sequence[Mutation],
        summaries: Mapping[str, SubmissionSummary],
        done: list[str],
    ) -> None:
        """Feed changes of one board, and add their entries to those that are `done`."""
        confirmed = self._confirmed(board, mutations, summaries)
        if await self._outdated.has(board.name):
            confirmed = [_without_ranks(mutation) for mutation in confirmed]
        await self._consumer.take(board, confirmed)
        done += [entry.stream_id for entry in entries]

    def _confirmed(
        self, board: Board, mutations: Sequence[Mutation], summaries: Mapping[str, SubmissionSummary]
    ) -> list[Mutation]:
        """Return the changes whose submission counts, or did, for their player according to the ledger."""
        # Anybody who can write to Redis can add to the stream. Derived data may stay for ever or be sent.
        confirmed = [
            change
            for change in mutations
            if _is_confirmed(board, change, summaries.get(change.submission_id))
        ]
        if len(confirmed) < len(mutations):
            count = len(mutations) - len(confirmed)
            _log.warning(Event.CHANGES_FORGED, consumer=self.name, board=board.name, count=count)
        return confirmed

    async def _recover(self) -> int:
        """Catch up from the ledger in all lanes that may have missed changes. Return 1, or 0 for none."""
        lanes = sorted(self._watch.unmarked)
        if not lanes:
            return 0
        # The groups exist before the ledger is read, so no change is missed in between.
        await self._marks.begin(lanes)
        newest = await self._ledger.read(queries.newest_seq())
        since = await self._ledger.read(lane_positions.of_lanes(self.name, lanes))
        async for names in self._changed_boards(since, lanes, newest):
            boards = await self._catalogue.boards(names)
            positions = {name: since.get(lane_of(name), newest) for name in boards}
            await self._consumer.recover(list(boards.values()), positions)
        await self._ledger.write(lane_positions.put(self.name, dict.fromkeys(lanes, newest)))
        self._noted |= dict.fromkeys(lanes, newest)
        self._watch.begin_again(await self._marks.mark_whole(lanes))
        if since:  # otherwise the consumer is new, and nothing was lost
            DERIVED_REBUILDS.labels(self.name).inc()
            first = min(since.values())
            _log.warning(Event.CHANGES_MISSED, consumer=self.name, lanes=len(since), since=first)
        return 1

    async def _changed_boards(
        self, since: Mapping[int, int], lanes: Collection[int], newest: int
    ) -> AsyncIterator[list[str]]:
        """Yield the boards of these lanes with events after their lane's position, or any events for none."""

        def is_missed(name: str, last: int) -> bool:
            lane = lane_of(name)
            return lane in lanes and last > since.get(lane, 0)

        yielded: set[str] = set()
        upto = min(since.get(lane, 0) for lane in lanes)
        while upto < newest:
            after, upto = upto, min(newest, upto + RECOVERED_SLICE)
            changed = await self._ledger.read(log.boards_between(after, upto))
            missed = {name for name, last in changed.items() if is_missed(name, last)}
            found = sorted(missed - yielded)
            for begin in range(0, len(found), RECOVERED_AT_ONCE):
                yield found[begin : begin + RECOVERED_AT_ONCE]
            yielded |= missed

    async def _note_quiet(self, projected: int) -> None:
        """Store, now and then, that all events up to `projected` had their effect in lanes without a backlog.

        They were on the streams before this step looked at them. A lane with steady changes is never at rest.
        """
        now_ms = self._clock()
        if now_ms - self._noted_at_ms < QUIET_MS:
            return
        at_rest = set(range(LANES)) - self._watch.busy
        lanes = [lane for lane in at_rest | self._has_all if self._noted.get(lane, -1) < projected]
        if lanes:
            await self._ledger.write(lane_positions.advance(self.name, lanes, projected))
            self._noted |= dict.fromkeys(lanes, projected)
            self._noted_at_ms = now_ms


def _mutations_of(board: Board, entries: Sequence[GroupEntry]) -> list[Mutation]:
    """Return the changes in entries of a board, but for forged ones, which have no effect."""
    mutations = (entry.mutation(board.ranking) for entry in entries)
    return [mutation for mutation in mutations if mutation]


def _without_ranks(mutation: Mutation) -> Mutation:
    """Return a change as from the ledger: ranks among standings of two rules say nothing."""
    return replace(mutation, rank=None, was_rank=None, was_score=None)


def _is_confirmed(board: Board, mutation: Mutation, summary: SubmissionSummary | None) -> bool:
    if not mutation.submission_id:
        return mutation.score is None
    if summary is None or not summary.has_counted:
        return False
    return summary.player == mutation.player and _counts_on(board, summary.board)


def _counts_on(board: Board, played_on: str) -> bool:
    """Return whether a submission to a board can be what a standing of `board` was reached with."""
    rollup = board.policy.rollup
    return family_named_by(played_on) == rollup.family if rollup else played_on == board.name
