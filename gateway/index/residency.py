"""The residency of boards in Redis: in use, whole but idle, or cold, which means only in the ledger."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.gathered_commands import Command, GatheredCommands
from gateway.index.scripts import Script, index_boundary
from gateway.runtime.lanes import lane_of
from policies.model import Policy

NOTED_PER_TIME: Final = 50
"""Notes of use per time to going cold. A board may go cold early by 1/50 of that time."""

_HOUR_MS: Final = 3_600_000


FAMILY_COLD_AFTER_H: Final = 24
"""Hours without use after which a board of a family leaves Redis, unless its policy says otherwise."""

WANTED_LIMIT: Final = 100
"""Most boards of a lane that wait to be built. A flood of reads of random boards must not fill Redis."""


def is_of_family(board: str) -> bool:
    """Return whether a board's name is that of a family's board: only those have a full stop."""
    return "." in board


def life_ms(policy: Policy) -> int:
    """Return the time without use after which a board leaves Redis (ms), 0 for never."""
    default_h = FAMILY_COLD_AFTER_H if is_of_family(policy.board) else 0
    return (policy.cold_after_h or default_h) * _HOUR_MS


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
        self._life_ms = life_ms(policy)
        self._evict = Script(client, "evict_board")
        self._note = Script(client, "note_use")
        self._noted_s = float("-inf")

    @property
    def is_limited(self) -> bool:
        """Whether the board leaves Redis when it is not used."""
        return self._life_ms > 0

    @property
    def is_noted(self) -> bool:
        """Whether its use needs no note now."""
        return not self._life_ms or time.monotonic() < self._noted_s + self._life_ms / NOTED_PER_TIME / 1000

    async def note_use(self, *, is_missed: bool = False) -> None:
        """Keep the board in Redis for its time from now on. `is_missed` asks for one that is not whole."""
        now_s, before_s = time.monotonic(), self._noted_s
        if not is_missed and self.is_noted:
            return
        marks = [keys.used(self._board), keys.wanted(lane_of(self._board))]
        self._noted_s = now_s  # at once, or all who use a board at the same time note it
        try:
            await self._note(marks, [self._board, self._life_ms or "", int(is_missed), WANTED_LIMIT])
        except BaseException:
            self._noted_s = before_s
            raise

    async def state(self, commands: GatheredCommands | None = None) -> ResidencyState:
        """Return the current state, asked together with other `commands`."""
        board = self._board
        marks = (keys.sentinel(board), keys.cold(board), keys.used(board))
        with index_boundary():
            asked = [Command(("EXISTS", key)) for key in marks]
            answers = await (commands or GatheredCommands(self._client)).answers(asked)
        return ResidencyState(*map(bool, answers))

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing stays of the board once it is evicted, as if it had never been used."""
        return is_of_family(self._board)

    async def idle_until(self, *, now_ms: int) -> int | None:
        """Return when the board goes cold unless it is used (Unix ms), None if nobody used it."""
        with index_boundary():
            left_ms = await self._client.pttl(keys.used(self._board))
        return now_ms + int(left_ms) if left_ms > 0 else None

    async def evict(self, board_keys: Sequence[str], *, now_ms: int) -> bool:
        """Remove these keys of an unused board, which is cold then. Return whether it was unused."""
        board = self._board
        lane = lane_of(board)
        marks = [keys.used(board), keys.sentinel(board), keys.cold(board), keys.lease(board)]
        sets = [keys.residents(lane), keys.idle(lane), keys.tails(lane)]
        arguments = [now_ms, board, int(not self.is_forgotten)]
        return bool(await self._evict([*marks, *sets, *board_keys], arguments))
