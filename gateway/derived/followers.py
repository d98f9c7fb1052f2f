"""Feeds consumers with the events of the log, exactly once, and the changes on the streams, at least once.

Any number of stewards may run the same consumer. On the log they take turns: position and effect are one
transaction, which does nothing if another was faster. On a stream each entry is given to one of them, and
again to another unless it was acknowledged, so an effect there must be the same when it comes twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from redis.asyncio import Redis

from gateway.index.feed.consumer_group import LEFT_MS, ConsumerGroup, Mutation
from gateway.ledger import index_pages, queries
from gateway.ledger.derived import log
from gateway.ledger.derived.log import LoggedEvent, LogSlice
from gateway.ledger.index_pages import SubmissionSummary
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.telemetry import DERIVED_LAG, DERIVED_REBUILDS, Event, logger
from policies.loader import Board
from policies.vocabulary import State

LOG_SLICE: Final = 256
"""Events in one step. Their effect is one transaction, for which other writes wait."""

STREAM_SLICE: Final = 100
"""Entries of one board's stream in one step."""

FOLLOWED_AT_ONCE: Final = 8
"""Boards whose streams are read at once."""

CHANGED_SLICE: Final = 500

QUIET_MS: Final = 5_000
"""The interval at which the position on a stream is stored.

After a loss of the stream, changes since then are told again.
"""

_log = logger()


class LogConsumer(Protocol):
    """Handles each event of the log once, in the order of the log."""

    name: str

    async def begin(self, tx: Transaction, newest: int) -> int:
        """Delete earlier results, and return the event to begin after; `newest` is the newest one."""
        ...

    async def prepare(self, events: Sequence[LoggedEvent]) -> None:
        """Do what has to happen outside the ledger before the effect. It may happen again."""
        ...

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """Store the effect, in the transaction that also moves the position."""
        ...


class LogFollower:
    """Feeds one consumer from the log."""

    def __init__(self, ledger: Ledger, consumer: LogConsumer) -> None:
        self._ledger = ledger
        self._consumer = consumer
        self.name = consumer.name

    async def step(self) -> int:
        """Feed the next events, and return how many, or 1 if those passed are of no submission.

        Raises LedgerUnavailable, and what the consumer raises.
        """
        position = await self._ledger.read(log.position(self.name))
        if position is None:
            await self.rebuild()
            return 1
        passed = await self._ledger.read(log.events_after(position, count=LOG_SLICE))
        DERIVED_LAG.labels(self.name).set(await self._ledger.read(queries.newest_seq()) - position)
        if passed.upto == position:
            return 0
        if passed.events:
            await self._consumer.prepare(passed.events)
        return await self._ledger.write(self._apply(position, passed))

    async def rebuild(self) -> None:
        """Make the consumer begin again; its next steps read the log from there."""

        async def begin(tx: Transaction) -> None:
            newest = await queries.newest_seq()(tx)
            await log.move(self.name, await self._consumer.begin(tx, newest))(tx)

        await self._ledger.write(begin)

    def _apply(self, position: int, passed: LogSlice) -> Operation[int]:
        async def work(tx: Transaction) -> int:
            if await log.position(self.name)(tx) != position:
                return 0  # another steward was faster
            await self._consumer.apply(tx, passed.events)
            await log.move(self.name, passed.upto)(tx)
            return len(passed.events) or 1

        return work


class ChangeConsumer(Protocol):
    """Handles each change of a standing at least once. The second time has no further effect."""

    name: str

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """Handle some changes."""
        ...

    async def recover(self, board: Board, since: int) -> None:
        """Handle what the stream has lost: everything that the ledger decided after event `since`."""
        ...


class ChangeFollower:
    """Feeds one consumer from the streams of all boards, as a group on each.

    `steward` is a unique name of this process.
    """

    def __init__(
        self,
        ledger: Ledger,
        client: Redis,
        boards: Mapping[str, Board],
        consumer: ChangeConsumer,
        *,
        steward: str,
        clock: Clock,
        left_ms: int = LEFT_MS,
    ) -> None:
        self._ledger = ledger
        self._boards = boards
        self._consumer = consumer
        self._clock = clock
        self._left_ms = left_ms
        self._quiet_at_ms: dict[str, int] = {}
        self._lags: dict[str, int] = {}
        self.name = consumer.name
        self._groups = {
            name: ConsumerGroup(client, board.ranking, self.name, steward) for name, board in boards.items()
        }

    async def step(self) -> int:
        """Feed the next changes, and return how many.

        Raises a board's error after all boards had their turn.
        """
        projected = await self._ledger.read(log.projected_seq())
        following = (self._follow(board, projected) for board in self._groups)
        try:
            return sum(await in_turns(following, at_once=FOLLOWED_AT_ONCE))
        finally:
            DERIVED_LAG.labels(self.name).set(sum(self._lags.values()))

    async def rebuild(self) -> None:
        """Make every group begin again, from the first event of the ledger."""
        for name, group in self._groups.items():
            await self._ledger.write(log.move(self.name, 0, name))
            await group.unmark()

    async def _follow(self, name: str, projected: int) -> int:
        """Feed one board's next changes.

        All events up to `projected` were on the streams before this began.
        """
        board, group = self._boards[name], self._groups[name]
        taken = await group.take(STREAM_SLICE, left_ms=self._left_ms)
        self._lags[name] = taken.lag
        if not taken.is_whole:
            await self._recover(board)
            return 1
        if taken.ids:
            await self._consumer.take(board, await self._confirmed(board, taken.mutations))
            await group.acknowledge(taken.ids)
        elif not taken.pending and not taken.lag:
            await self._note_quiet(name, projected)
        return len(taken.ids)

    async def _confirmed(self, board: Board, mutations: Sequence[Mutation]) -> list[Mutation]:
        """Return the changes whose submission counts, or did, for their player according to the ledger."""
        # Anybody who can write to Redis can add to the stream. Derived data may stay for ever or be sent.
        ids = [change.submission_id for change in mutations if change.submission_id]
        summaries = await self._ledger.read(index_pages.summaries_of(ids))
        confirmed = [
            change
            for change in mutations
            if _is_confirmed(board, change, summaries.get(change.submission_id))
        ]
        if len(confirmed) < len(mutations):
            count = len(mutations) - len(confirmed)
            _log.warning(Event.CHANGES_FORGED, consumer=self.name, board=board.name, count=count)
        return confirmed

    async def _recover(self, board: Board) -> None:
        """Catch up from the ledger.

        The group exists before the ledger is read, so no change is missed in between.
        """
        newest = await self._ledger.read(queries.newest_seq())
        since = await self._ledger.read(log.position(self.name, board.name))
        await self._consumer.recover(board, newest if since is None else since)
        await self._ledger.write(log.move(self.name, newest, board.name))
        await self._groups[board.name].mark_whole()
        if since is None:
            return  # the group is new: nothing was lost
        DERIVED_REBUILDS.labels(self.name).inc()
        _log.warning(Event.CHANGES_MISSED, consumer=self.name, board=board.name, since=since)

    async def _note_quiet(self, name: str, projected: int) -> None:
        """Store, now and then, that all events up to `projected` had their effect."""
        now_ms = self._clock()
        if now_ms - self._quiet_at_ms.get(name, 0) < QUIET_MS:
            return
        self._quiet_at_ms[name] = now_ms
        if projected > (await self._ledger.read(log.position(self.name, name)) or 0):
            await self._ledger.write(log.move(self.name, projected, name))


def _is_confirmed(board: Board, mutation: Mutation, summary: SubmissionSummary | None) -> bool:
    if not mutation.submission_id:
        return mutation.score is None
    if summary is None or summary.state not in {State.PROMOTED, State.REVOKED}:
        return False
    return (summary.board, summary.player) == (board.name, mutation.player)


async def standings_since(ledger: Ledger, board: str, since: int, *, now_ms: int) -> list[Mutation]:
    """Return the standings that changed after event `since`, as they are now: the newest change of each."""
    newest: dict[tuple[str, str], Mutation] = {}
    upto, is_newest = since, False
    while not is_newest:
        changes = await ledger.read(
            index_pages.changes_after(board, upto, now_ms=now_ms, count=CHANGED_SLICE)
        )
        upto, is_newest = changes.upto, changes.is_newest
        for standing in changes.standings:
            if standing.seq > since:
                newest[standing.window, standing.player] = Mutation(
                    now_ms,
                    standing.seq,
                    standing.window,
                    standing.player,
                    standing.name,
                    standing.submission_id,
                    standing.score,
                    None,
                    None,
                    None,
                )
    return sorted(newest.values(), key=lambda change: change.seq)
