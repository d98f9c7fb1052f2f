"""Feeds consumers with the events of the log, exactly once.

Any number of stewards may run the same consumer. They take turns: position and effect are one transaction,
which does nothing if another was faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from gateway.index.feed.consumer_group import Mutation
from gateway.ledger import index_pages, queries
from gateway.ledger.derived import log
from gateway.ledger.derived.log import LoggedEvent, LogSlice
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.telemetry import DERIVED_LAG

LOG_SLICE: Final = 256
"""Events in one step. Their effect is one transaction, for which other writes wait."""

CHANGED_SLICE: Final = 500


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
        look = await self._ledger.read(self._look)
        if look is None:
            await self.rebuild()
            return 1
        position, passed, newest = look
        DERIVED_LAG.labels(self.name).set(newest - position)
        if passed.upto == position:
            return 0
        if passed.events:
            await self._consumer.prepare(passed.events)
        return await self._ledger.write(self._apply(position, passed))

    async def _look(self, tx: Transaction) -> tuple[int, LogSlice, int] | None:
        """Return the consumer's position, the events after it and the newest one; None for a new consumer."""
        position = await log.position(self.name)(tx)
        if position is None:
            return None
        passed = await log.events_after(position, count=LOG_SLICE)(tx)
        return position, passed, await queries.newest_seq()(tx)

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
