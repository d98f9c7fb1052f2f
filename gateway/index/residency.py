"""Whether a board is in Redis: in use, whole but idle, or cold, which is in the ledger alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.scripts import Script, index_boundary
from policies.model import Policy

NOTED_PER_TIME: Final = 50
"""How often use is noted in the time after which a board is cold: by so much that may begin too early."""

_HOUR_MS: Final = 3_600_000


class ResidencyState(NamedTuple):
    """What Redis has of a board: all of it; the mark that it is cold; a reader or a writer of late."""

    is_whole: bool
    is_cold: bool
    is_used: bool


class Residency:
    """The stay of one board in Redis. Every method raises IndexUnavailable.

    The mark of the cold is a hash: `*` to when it began (Unix ms), and for each standing that changed since,
    `<window> <player>` to its sequence number, so that the stream tells each change once.
    """

    def __init__(self, client: Redis, policy: Policy) -> None:
        self._board = policy.board
        self._client = client
        self._life_ms = (policy.cold_after_h or 0) * _HOUR_MS
        self._evict = Script(client, "evict_board")
        self._noted_s = float("-inf")

    @property
    def is_limited(self) -> bool:
        """True for a board that leaves Redis when it is not used."""
        return self._life_ms > 0

    async def note_use(self, *, is_missed: bool = False) -> None:
        """Keeps the board in Redis from now on for its time; one that was missed there is asked for at once."""
        now_s = time.monotonic()
        is_noted = now_s < self._noted_s + self._life_ms / NOTED_PER_TIME / 1000
        if not self._life_ms or (is_noted and not is_missed):
            return
        with index_boundary():
            await self._client.set(keys.used(self._board), "1", px=self._life_ms)
        self._noted_s = now_s

    async def state(self) -> ResidencyState:
        """How the board is now."""
        board = self._board
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for key in (keys.sentinel(board), keys.cold(board), keys.used(board)):
                    pipe.exists(key)
                return ResidencyState(*map(bool, await pipe.execute()))

    async def evict(self, found: Sequence[str], *, now_ms: int) -> bool:
        """True if these keys of the board were taken away, since nobody used it; it is cold then."""
        board = self._board
        marks = [keys.used(board), keys.sentinel(board), keys.cold(board), keys.lease(board)]
        return bool(await self._evict([*marks, *found], [now_ms]))
