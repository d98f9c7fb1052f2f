"""How many runs a player has open on a board, and how many were opened and submitted within a day."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.scripts import Script
from policies.errors import IndexUnavailable

HOUR_MS: Final = 3_600_000

COUNTS_LIFE_MS: Final = 25 * HOUR_MS
"""How long counts of a player's runs are kept after the last one: a day, and the hour that it began in."""


class RunCount(StrEnum):
    """What is counted of a player's runs."""

    OPENED = "opened"
    SUBMITTED = "submitted"


def count_field(kind: RunCount, at_ms: int) -> str:
    """The field of a player's counts that a run of this moment is counted in."""
    return f"{kind.value}:{at_ms // HOUR_MS}"


class RunOpening(NamedTuple):
    """Whether a run may be opened, and how many the player opened and submitted in the 24 hours before; None: unknown."""

    may_open: bool
    opened: int | None = None
    submitted: int | None = None


class OpenRuns:
    """The open runs of one board's players. Fails open, and knows no counts then: the rate of opening is limited elsewhere."""

    def __init__(self, client: Redis, board: str, most: int) -> None:
        self._script = Script(client, "open_run")
        self._board = board
        self._most = most

    async def note(self, player: str, run: str, *, now_ms: int, expires_at_ms: int) -> RunOpening:
        """Whether the run may be opened; it then counts as open until it is submitted or its ticket expires."""
        counted = [now_ms // HOUR_MS, count_field(RunCount.OPENED, now_ms), COUNTS_LIFE_MS]
        try:
            noted, opened, submitted = await self._script(
                [keys.open_runs(self._board, player), keys.run_counts(self._board, player)],
                [run, now_ms, expires_at_ms, self._most, *counted],
            )
        except IndexUnavailable:
            return RunOpening(may_open=True)
        return RunOpening(bool(noted), opened, submitted)
