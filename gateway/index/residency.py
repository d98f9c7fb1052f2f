"""The residency of boards in Redis: in use, whole but idle, or cold, which means only in the ledger."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.scripts import Script, index_boundary
from policies.model import Policy

NOTED_PER_TIME: Final = 50
"""Notes of use per time to going cold. A board may go cold early by 1/50 of that time."""

_HOUR_MS: Final = 3_600_000


class ResidencyState(NamedTuple):
    """Whether Redis has the whole board, its mark of being cold, and a sign of recent use."""

    is_whole: bool
    is_cold: bool
    is_used: bool


class Residency:
    """The residency of one board. Every method raises IndexUnavailable.

    The mark of a cold board is a hash: `*` to when it began (Unix ms), and `<window> <player>` of each
    standing changed since to its sequence number, so that the stream has each change once.
    """

    def __init__(self, client: Redis, policy: Policy) -> None:
        self._board = policy.board
        self._client = client
        self._life_ms = (policy.cold_after_h or 0) * _HOUR_MS
        self._evict = Script(client, "evict_board")
        self._noted_s = float("-inf")

    @property
    def is_limited(self) -> bool:
        """Whether the board leaves Redis when it is not used."""
        return self._life_ms > 0

    async def note_use(self, *, is_missed: bool = False) -> None:
        """Keep the board in Redis for its time from now on. `is_missed` asks for a cold board at once."""
        now_s = time.monotonic()
        is_noted = now_s < self._noted_s + self._life_ms / NOTED_PER_TIME / 1000
        if not self._life_ms or (is_noted and not is_missed):
            return
        with index_boundary():
            await self._client.set(keys.used(self._board), "1", px=self._life_ms)
        self._noted_s = now_s

    async def state(self) -> ResidencyState:
        """Return the current state."""
        board = self._board
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for key in (keys.sentinel(board), keys.cold(board), keys.used(board)):
                    pipe.exists(key)
                return ResidencyState(*map(bool, await pipe.execute()))

    async def evict(self, board_keys: Sequence[str], *, now_ms: int) -> bool:
        """Remove these keys of an unused board, which is cold then. Return whether it was unused."""
        board = self._board
        marks = [keys.used(board), keys.sentinel(board), keys.cold(board), keys.lease(board)]
        return bool(await self._evict([*marks, *board_keys], [now_ms]))
