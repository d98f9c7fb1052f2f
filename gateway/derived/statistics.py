"""The counts of each board: submissions received, submissions that count, and players ever seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from redis.asyncio import Redis

from gateway.index.windows.distinct_players import DistinctPlayers, EstimateMarks
from gateway.ledger.derived import log
from gateway.ledger.derived.counts import BoardCounts, add_counts, forget_counts
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Transaction
from gateway.runtime.lanes import lane_of
from gateway.runtime.telemetry import DERIVED_REBUILDS
from policies.vocabulary import State

PAGE: Final = 2_000


class Statistics:
    """The consumer that counts submissions exactly, in the ledger, and estimates players, in Redis."""

    name = "statistics"

    def __init__(self, ledger: Ledger, client: Redis, boards: Collection[str]) -> None:
        self._ledger = ledger
        self._client = client
        self._boards = boards
        self._marks = EstimateMarks(client)

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
        missing = [
            board
            for board, players in players_of.items()
            if board in self._boards and not await self._players(board).add(sorted(players))
        ]
        if missing:
            await self.recount(missing)

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """Add to the counts."""
        attempts = Counter(event.board for event in events if event.from_state is State.RECEIVED)
        promoted: Counter[str] = Counter()
        for event in events:
            promoted[event.board] += event.difference
        boards = sorted(attempts.keys() | promoted.keys())
        await add_counts(tx, {board: BoardCounts(attempts[board], promoted[board]) for board in boards})

    async def repair(self) -> int:
        """Rebuild the estimates of lanes that lost theirs, all in one walk, and return how many.

        One call asks all lanes, and no board.
        """
        lanes = sorted(set(map(lane_of, self._boards)))
        lost = set(await self._marks.lost(lanes))
        boards = [board for board in self._boards if lane_of(board) in lost]
        if boards:
            await self._marks.begin(sorted(lost))
            await self.recount(boards)
            await self._marks.end(sorted(lost))
        return len(boards)

    async def recount(self, boards: Collection[str]) -> None:
        """Count every player of some boards again, in one walk through the ledger."""
        recounts, after = {board: self._players(board).recount() for board in boards}, 0
        while page := await self._ledger.read(log.players_after(after, count=PAGE)):
            players_of: dict[str, list[str]] = defaultdict(list)
            for _, board, player in page:
                players_of[board].append(player)
            for board in players_of.keys() & recounts.keys():
                await recounts[board].add(players_of[board])
            after = page[-1][0]
        for recount in recounts.values():
            await recount.put()
        DERIVED_REBUILDS.labels(self.name).inc()

    def _players(self, board: str) -> DistinctPlayers:
        return DistinctPlayers(self._client, board)
