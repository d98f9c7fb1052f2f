"""The indexes of all boards that a process uses, on one Redis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index.batcher import Batcher
from gateway.index.board_index import SENT_AT_ONCE, BoardIndex, CommittedRun
from gateway.runtime.bounded_cache import BOARDS_LIMIT, BoundedCache
from gateway.runtime.concurrency import in_turns
from gateway.shared_records import Change
from policies.errors import IndexUnavailable
from policies.loader import Board

CLOSE_LINGER_S: Final = 0.005
"""Time that committed runs gather before they are sent; nobody waits for them."""


class _Closure(NamedTuple):
    board: BoardIndex
    run: CommittedRun


class Index:
    """The indexes of boards on one Redis, each made at its first use and let go when it is not used."""

    def __init__(
        self, client: Redis, make: Callable[[Redis, Board], BoardIndex], *, limit: int = BOARDS_LIMIT
    ) -> None:
        self.client = client
        self.cache: BoundedCache[BoardIndex] = BoundedCache("index", limit=limit)
        self.on_unprojected: Callable[[Board, Sequence[Change]], None] | None = None
        self._make = make
        # All boards share it: a batch on its way must not go with the index of a board that is let go.
        self._closures: Batcher[_Closure, bool] = Batcher(self._send_closures, linger_s=CLOSE_LINGER_S)

    def of(self, board: Board) -> BoardIndex:
        """Return the index of a board. It is read only while all of the board is in Redis."""
        return self.cache.of(board.name, lambda: self._made(board))

    async def project(self, board: Board, changes: Sequence[Change]) -> None:
        """Show every change of a board. Raises IndexUnavailable if one fails; the others may be shown.

        All of them then go to `on_unprojected`, if it is set.
        """
        try:
            await self.of(board).project_all(changes)
        except IndexUnavailable:
            if self.on_unprojected:
                self.on_unprojected(board, changes)
            raise

    def close_runs(self, board: Board, runs: Sequence[CommittedRun]) -> None:
        """Close runs with the next batch. If that fails, the reconciler makes the submissions pending.

        Raises IndexUnavailable if too many wait.
        """
        index = self.of(board)
        self._closures.tell_all([_Closure(index, run) for run in runs])

    async def drained(self) -> None:
        """Wait until no batch is left."""
        await self._closures.drained()

    def _made(self, board: Board) -> BoardIndex:
        index = self._make(self.client, board)
        index.guard()
        return index

    async def _send_closures(self, closures: Sequence[_Closure]) -> Sequence[bool]:
        runs: dict[BoardIndex, list[CommittedRun]] = defaultdict(list)
        for closure in closures:
            runs[closure.board].append(closure.run)
        sending = [board.close_runs(of_board) for board, of_board in runs.items()]
        await in_turns(sending, at_once=SENT_AT_ONCE)
        return [True] * len(closures)
