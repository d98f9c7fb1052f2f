"""The choices of a policy about what a board is: what its settings may say, in words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from policies.fields import PolicySection, SortOrder, StatName


class Operator(StrEnum):
    """The way a player's promoted submissions become one standing.

    `count` counts them, whatever their scores.
    """

    BEST = "best"
    LATEST = "latest"
    SUM = "sum"
    COUNT = "count"


class TieBreak(StrEnum):
    """The rule between equal scores: time, exactly or in slots, or fields of the run's stats."""

    FIRST = "first"
    COMPOSITE = "composite"
    FIELDS = "fields"


class RankKind(StrEnum):
    """The ranks of equal entries: consecutive (1 2 3 4), as in sports (1 2 2 4), or without gaps (1 2 2 3).

    SQL calls these ROW_NUMBER, RANK and DENSE_RANK.
    """

    UNIQUE = "unique"
    SPARSE = "sparse"
    DENSE = "dense"


class WindowKind(StrEnum):
    """The time spans of a board. Days, ISO weeks and months begin at 00:00 in the board's time zone."""

    ALLTIME = "alltime"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    SEASON = "season"


class Joins(StrEnum):
    """The condition for appearing on the board: none, or joining it first."""

    OPEN = "open"
    REQUIRED = "required"


class Writes(StrEnum):
    """The writers of the canonical board.

    `verified`: clients, through a verified replay. `open`: clients, without a replay, each through a
    moderator. `trusted`: only registered game servers, which may write to every board but the last kind.
    `derived`: nobody, since the board is a rollup.
    """

    VERIFIED = "verified"
    OPEN = "open"
    TRUSTED = "trusted"
    DERIVED = "derived"


class TieField(PolicySection):
    """A statistic that decides between equal scores, and its order."""

    stat: StatName
    order: Annotated[SortOrder, Field(strict=False)] = SortOrder.DESCENDING


class DetailRules(PolicySection):
    """The details that a submission may carry for readers: integers, and an object of so many bytes."""

    integers: Annotated[int, Field(ge=0, le=64)] = 0
    object_bytes: Annotated[int, Field(ge=0, le=1024)] = 0
