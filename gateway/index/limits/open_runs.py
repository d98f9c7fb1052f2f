"""The number of runs that a player has open on a board, and opened and submitted within a day."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.scripts import Script
from policies.errors import IndexUnavailable

HOUR_MS: Final = 3_600_000

COUNTS_LIFE_MS: Final = 25 * HOUR_MS
"""Life of the counts after a player's last run: a day and the hour in which it began."""


class RunCount(StrEnum):
    """The kinds of count of a player's runs."""

    OPENED = "opened"
    SUBMITTED = "submitted"


def count_field(kind: RunCount, at_ms: int) -> str:
    """Return the field of a player's counts for a run of this moment."""
    return f"{kind.value}:{at_ms // HOUR_MS}"


class RunOpening(NamedTuple):
    """Whether a run may be opened, and the player's opened and submitted runs of 24 hours (None: unknown)."""

    may_open: bool
    opened: int | None = None
    submitted: int | None = None


class OpenRuns:
    """The open runs of one board's players. Fails open, without counts: opening is also rate-limited."""

    def __init__(self, client: Redis, board: str, most: int) -> None:
        self._script = Script(client, "open_run")
        self._board = board
        self._most = most

    async def note(self, player: str, run: str, *, now_ms: int, expires_at_ms: int) -> RunOpening:
        """Decide whether a run may be opened. It is open until it is submitted or its ticket expires."""
        counting = [now_ms // HOUR_MS, count_field(RunCount.OPENED, now_ms), COUNTS_LIFE_MS]
        try:
            may_open, opened, submitted = await self._script(
                [keys.open_runs(self._board, player), keys.run_counts(self._board, player)],
                [run, now_ms, expires_at_ms, self._most, *counting],
            )
        except IndexUnavailable:
            return RunOpening(may_open=True)
        return RunOpening(bool(may_open), opened, submitted)
