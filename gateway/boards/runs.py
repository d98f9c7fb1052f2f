"""How many runs a player has open on a board. Fails open: the rate of opening is limited elsewhere."""

from __future__ import annotations

from redis.asyncio import Redis

from gateway.boards import keys
from gateway.boards.scripts import Script
from policies.errors import IndexUnavailable


class OpenRuns:
    """The open runs of one board's players."""

    def __init__(self, client: Redis, board: str, most: int) -> None:
        self._script = Script(client, "open_run")
        self._board = board
        self._most = most

    async def note(self, player: str, run: str, *, now_ms: int, expires_at_ms: int) -> bool:
        """True if the run may be opened; it then counts until it is submitted or its ticket expires."""
        try:
            noted = await self._script(
                [keys.open_runs(self._board, player)], [run, now_ms, expires_at_ms, self._most]
            )
        except IndexUnavailable:
            return True
        return bool(noted)
