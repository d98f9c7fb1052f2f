"""The counts of each board: submissions received, submissions that count, and players ever seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from redis.asyncio import Redis

from gateway.index.windows.distinct_players import DistinctPlayers
from gateway.ledger.derived import log
from gateway.ledger.derived.counts import BoardCounts, add_counts, forget_counts
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Transaction
from gateway.runtime.telemetry import DERIVED_REBUILDS
from policies.vocabulary import State

PAGE: Final = 2_000


class Statistics:
    """The consumer that counts submissions exactly, in the ledger, and estimates players, in Redis."""

    name = "statistics"

    def __init__(self, ledger: Ledger, client: Redis, boards: Mapping[str, object]) -> None:
        self._ledger = ledger
        self._players = {name: DistinctPlayers(client, name) for name in boards}

    async def begin(self, tx: Transaction, _newest: int) -> int:
        """Begin at the first event."""
        await forget_counts(tx)
        return 0

    async def prepare(self, events: Sequence[LoggedEvent]) -> None:
        """Add the players."""
        # This comes before the counts: a player who is added twice counts once, one who is skipped never
        # would.
        players_of: dict[str, set[str]] = defaultdict(set)
        for event in events:
            players_of[event.board].add(event.player)
        for board, players in players_of.items():
            if board in self._players and not await self._players[board].add(sorted(players)):
                await self.recount(board)

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """Add to the counts."""
        attempts = Counter(event.board for event in events if event.from_state is State.RECEIVED)
        promoted: Counter[str] = Counter()
        for event in events:
            promoted[event.board] += event.difference
        for board in sorted(attempts.keys() | promoted.keys()):
            await add_counts(tx, board, BoardCounts(attempts[board], promoted[board]))

    async def repair(self) -> int:
        """Rebuild the estimates that were lost, and return how many."""
        lost = [name for name, players in self._players.items() if await players.count() is None]
        for board in lost:
            await self.recount(board)
        return len(lost)

    async def recount(self, board: str) -> None:
        """Count every player of a board again, from the ledger."""
        recount, after = self._players[board].recount(), 0
        await recount.add([])
        while page := await self._ledger.read(log.players_after(after, count=PAGE)):
            await recount.add([player for _, played_board, player in page if played_board == board])
            after = page[-1][0]
        await recount.put()
        DERIVED_REBUILDS.labels(self.name).inc()
