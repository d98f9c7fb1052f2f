"""Consumers, and what feeds them: the log of events, each once, and the streams of changes, each at least once.

Any number of stewards may run the same consumer. On the log they take turns: position and effect are one transaction,
which does nothing if another was faster. On a stream each entry is given to one of them, and again to another if it was
not acknowledged, so effects there must be the same when they come twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from redis.asyncio import Redis

from gateway.index.feed.consumer_group import LEFT_MS, ConsumerGroup, Mutation
from gateway.ledger import index_pages, queries
from gateway.ledger.derived import log
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.index_pages import SubmissionSummary
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.telemetry import DERIVED_LAG, DERIVED_REBUILDS, Event, logger
from policies.loader import Board
from policies.vocabulary import State

LOG_SLICE: Final = 256
"""Events in one step. Their effect is one transaction, and other writes wait for it."""

STREAM_SLICE: Final = 100
"""Entries of one board's stream in one step."""

FOLLOWED_AT_ONCE: Final = 8
"""Boards whose streams are read at once."""

TOUCHED_SLICE: Final = 500

QUIET_MS: Final = 5_000
"""How often a position on a stream is written down: how much is told again after the stream was lost."""

_log = logger()


class LogConsumer(Protocol):
    """What is done with each event of the log, once, in the order of the log."""

    name: str

    async def begin(self, tx: Transaction, newest: int) -> int:
        """After which event it begins, the newest being `newest`; what it made before is taken away."""
        ...

    async def prepare(self, events: Sequence[LoggedEvent]) -> None:
        """What is to be done outside of the ledger before the effect; it may be done again."""
        ...

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """The effect, in the transaction that also moves the position."""
        ...


class LogFollower:
    """One consumer of the log."""

    def __init__(self, ledger: Ledger, consumer: LogConsumer) -> None:
        self._ledger = ledger
        self._consumer = consumer
        self.name = consumer.name

    async def step(self) -> int:
        """How many events had their effect. Raises LedgerUnavailable, and what the consumer raises."""
        position = await self._ledger.read(log.position(self.name))
        if position is None:
            await self.rebuild()
            return 1
        events = await self._ledger.read(log.events_after(position, count=LOG_SLICE))
        DERIVED_LAG.labels(self.name).set(await self._ledger.read(queries.newest_seq()) - position)
        if not events:
            return 0
        await self._consumer.prepare(events)
        return await self._ledger.write(self._apply(position, events))

    async def rebuild(self) -> None:
        """Has the consumer begin again; its next steps fold the log from there."""

        async def begin(tx: Transaction) -> None:
            newest = await queries.newest_seq()(tx)
            await log.move(self.name, await self._consumer.begin(tx, newest))(tx)

        await self._ledger.write(begin)

    def _apply(self, position: int, events: Sequence[LoggedEvent]) -> Operation[int]:
        async def work(tx: Transaction) -> int:
            if await log.position(self.name)(tx) != position:
                return 0  # another steward was faster
            await self._consumer.apply(tx, events)
            await log.move(self.name, events[-1].seq)(tx)
            return len(events)

        return work


class ChangeConsumer(Protocol):
    """What is done with each change of a standing, at least once; the second time nothing more comes of it."""

    name: str

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """The effect of some changes."""
        ...

    async def recover(self, board: Board, since: int) -> None:
        """The effect of what the stream has lost: of all that the ledger decided after event `since`."""
        ...


class ChangeFollower:
    """One consumer of the streams of all boards: a group on each. `steward` names this process among its like."""

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
        """How many changes had their effect. Raises what one board's raised, once all have been seen to."""
        shown = await self._ledger.read(log.projected_seq())
        following = (self._follow(each, shown) for each in self._groups)
        try:
            return sum(await in_turns(following, at_once=FOLLOWED_AT_ONCE))
        finally:
            DERIVED_LAG.labels(self.name).set(sum(self._lags.values()))

    async def rebuild(self) -> None:
        """Has every group begin from the ledger again, from its first event."""
        for name, group in self._groups.items():
            await self._ledger.write(log.move(self.name, 0, name))
            await group.unmark()

    async def _follow(self, name: str, shown: int) -> int:
        """`shown`: all events up to this one were on the streams before this began."""
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
            await self._note_quiet(name, shown)
        return len(taken.ids)

    async def _confirmed(self, board: Board, mutations: Sequence[Mutation]) -> list[Mutation]:
        """Those that speak of a submission which counts, or did, for their player: the ledger's word and not the stream's.

        What is derived may stay for ever or be told to others, and whoever can write to Redis can add to the stream.
        """
        named = [each.submission_id for each in mutations if each.submission_id]
        known = await self._ledger.read(index_pages.summaries_of(named))
        found = [each for each in mutations if _is_confirmed(board, each, known.get(each.submission_id))]
        if len(found) < len(mutations):
            count = len(mutations) - len(found)
            _log.warning(Event.CHANGES_FORGED, consumer=self.name, board=board.name, count=count)
        return found

    async def _recover(self, board: Board) -> None:
        """Catches up from the ledger. The group was there before the ledger is read, so nothing falls in between."""
        newest = await self._ledger.read(queries.newest_seq())
        since = await self._ledger.read(log.position(self.name, board.name))
        await self._consumer.recover(board, newest if since is None else since)
        await self._ledger.write(log.move(self.name, newest, board.name))
        await self._groups[board.name].mark_whole()
        if since is None:
            return  # it has only begun
        DERIVED_REBUILDS.labels(self.name).inc()
        _log.warning(Event.CHANGES_MISSED, consumer=self.name, board=board.name, since=since)

    async def _note_quiet(self, name: str, shown: int) -> None:
        """Writes down, now and then, that all events up to `shown` had their effect."""
        now_ms = self._clock()
        if now_ms - self._quiet_at_ms.get(name, 0) < QUIET_MS:
            return
        self._quiet_at_ms[name] = now_ms
        if shown > (await self._ledger.read(log.position(self.name, name)) or 0):
            await self._ledger.write(log.move(self.name, shown, name))


def _is_confirmed(board: Board, mutation: Mutation, known: SubmissionSummary | None) -> bool:
    if not mutation.submission_id:
        return mutation.score is None
    if known is None or known.state not in {State.PROMOTED, State.REVOKED}:
        return False
    return (known.board, known.player) == (board.name, mutation.player)


async def standings_since(ledger: Ledger, board: str, since: int, *, now_ms: int) -> list[Mutation]:
    """The standings that changed after event `since`, as they are now: what a lost stream would have told, the newest of each."""
    found: dict[tuple[str, str], Mutation] = {}
    upto, is_newest = since, False
    while not is_newest:
        asked = index_pages.changes_after(board, upto, now_ms=now_ms, count=TOUCHED_SLICE)
        touched = await ledger.read(asked)
        upto, is_newest = touched.upto, touched.is_newest
        for each in touched.standings:
            if each.seq > since:
                found[each.window, each.player] = Mutation(
                    now_ms,
                    each.seq,
                    each.window,
                    each.player,
                    each.name,
                    each.submission_id,
                    each.score,
                    None,
                    None,
                    None,
                )
    return sorted(found.values(), key=lambda each: each.seq)
