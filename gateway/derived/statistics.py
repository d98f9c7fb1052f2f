"""Counts of each board: submissions received, how many count, and how many players there ever were."""

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
    """Counts in the ledger, exactly; players in Redis, as an estimate that is made anew when it is lost."""

    name = "statistics"

    def __init__(self, ledger: Ledger, client: Redis, boards: Mapping[str, object]) -> None:
        self._ledger = ledger
        self._players = {name: DistinctPlayers(client, name) for name in boards}

    async def begin(self, tx: Transaction, _newest: int) -> int:
        """From the first event on."""
        await forget_counts(tx)
        return 0

    async def prepare(self, events: Sequence[LoggedEvent]) -> None:
        """Adds the players. Before the counts: who was added twice counts once, who was forgotten never would."""
        of_board: dict[str, set[str]] = defaultdict(set)
        for each in events:
            of_board[each.board].add(each.player)
        for board, players in of_board.items():
            if board in self._players and not await self._players[board].add(sorted(players)):
                await self.recount(board)

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """Adds to the counts."""
        attempts = Counter(each.board for each in events if each.from_state is State.RECEIVED)
        promoted: Counter[str] = Counter()
        for each in events:
            promoted[each.board] += each.difference
        for board in sorted(attempts.keys() | promoted.keys()):
            await add_counts(tx, board, BoardCounts(attempts[board], promoted[board]))

    async def repair(self) -> int:
        """How many estimates were lost, and are there again."""
        lost = [name for name, players in self._players.items() if await players.count() is None]
        for board in lost:
            await self.recount(board)
        return len(lost)

    async def recount(self, board: str) -> None:
        """Counts every player of a board anew, from the ledger."""
        recount, after = self._players[board].recount(), 0
        await recount.add([])
        while page := await self._ledger.read(log.players_after(after, count=PAGE)):
            await recount.add([player for _, whose, player in page if whose == board])
            after = page[-1][0]
        await recount.put()
        DERIVED_REBUILDS.labels(self.name).inc()
