"""The consumers that queue deliveries: changes of standings from the streams, decisions from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from gateway.derived.followers import standings_since
from gateway.derived.webhooks.event_types import events_of, rank_changed, standing_changed
from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.log import LoggedEvent, messages_of
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Transaction
from gateway.runtime.clock import Clock
from policies.loader import Board


class StandingEvents:
    """Queues changes of standings and ranks. A repeated event is queued once."""

    name = "webhooks"

    def __init__(self, ledger: Ledger, *, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """Queue the events that webhooks subscribe to."""
        if not mutations or not await self._ledger.read(webhooks.all_webhooks):
            return
        events = [standing_changed(board.name, change) for change in mutations]
        events += [rank_changed(board.name, change) for change in mutations if change.rank != change.was_rank]
        now_ms = self._clock()

        async def work(tx: Transaction) -> int:
            return await webhooks.queue(tx, events, now_ms=now_ms)

        await self._ledger.write(work)

    async def recover(self, boards: Sequence[Board], since: Mapping[str, int]) -> None:
        """Queue the standings that changed on each board after its event, without ranks."""
        if not await self._ledger.read(webhooks.all_webhooks):
            return
        for board in boards:
            after, now_ms = since[board.name], self._clock()
            await self.take(board, await standings_since(self._ledger, board.name, after, now_ms=now_ms))


class DecisionEvents:
    """Queues decisions on submissions and appeals against them, from the log."""

    name = "decisions"

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    async def begin(self, _tx: Transaction, newest: int) -> int:
        """Begin now: webhooks get no news of the past."""
        return newest

    async def prepare(self, events: Sequence[LoggedEvent]) -> None:
        """Do nothing: all of it is in the ledger."""

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """Queue the events that webhooks subscribe to."""
        messages = await messages_of(events)(tx)
        news = chain.from_iterable(events_of(event, messages.get(event.seq)) for event in events)
        await webhooks.queue(tx, news, now_ms=self._clock())
