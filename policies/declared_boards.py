"""Boards that a family's policy declares: by name, or one for each day, week or month."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from policies.fields import PolicySection
from policies.opened_board import REST_LENGTH, TITLE_LENGTH, NarrowedBounds

DECLARED_BOARDS: Final = 1_000
"""Most boards that a family's policy declares by name."""

AHEAD_MS: Final = 3_600_000
"""How long before its time a scheduled board is opened, so that no restart of a steward delays it."""

BoardRest = Annotated[str, Field(pattern=rf"^[A-Za-z0-9_-]{{1,{REST_LENGTH}}}$")]
"""What follows the family's name and the dot."""


class Schedule(StrEnum):
    """How often a family's policy has a board opened, by the calendar of its time zone."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"

    def rest(self, window: str) -> str:
        """Return the name after the dot of the board of a window, as ISO 8601 writes its time.

        `daily:20261122` gives `2026-11-22`, `weekly:2026W47` gives `2026-W47`, `monthly:202611` `2026-11`.
        """
        begin = window.partition(":")[2]
        parts = (begin[:4], begin[4:6], begin[6:]) if self is not Schedule.WEEKLY else (begin[:4], begin[4:])
        return "-".join(part for part in parts if part)


class DeclaredBoard(PolicySection):
    """A board that a steward opens for its family's policy, unless one of its name was opened before."""

    title: Annotated[str, Field(min_length=1, max_length=TITLE_LENGTH)]
    metadata: Annotated[dict[str, Any], Field(default={})]
    parameters: Annotated[dict[str, Any], Field(default={})]
    bounds: NarrowedBounds | None = None


class SampleContent(PolicySection):
    """What `scoregate policy check` plays with: parameters, and the path of an asset beside the policy."""

    parameters: Annotated[dict[str, Any], Field(default={})]
    asset: Annotated[str, Field(min_length=1, max_length=500)] | None = None


def scheduled_title(title: str, rest: str) -> str:
    """Return the title of a scheduled board: its family's, and its time."""
    return f"{title[: TITLE_LENGTH - len(rest) - 2]}, {rest}"
