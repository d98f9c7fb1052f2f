"""Rollups: boards whose standings follow from a family's boards."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from policies.fields import Name, PolicySection

PLACES_LIMIT = 100
"""Most ranks of a board that give points. A change of a board moves at most so many players."""

POINTS_LIMIT = 1_000_000
"""Most points of one rank, so that nine billion boards fit into a score."""


class RollupTake(StrEnum):
    """What a rollup takes of a player's standings on the family's boards.

    `sum`: their sum; `best`: the best of them; `count`: how many there are; `points`: points by their ranks.
    """

    SUM = "sum"
    BEST = "best"
    COUNT = "count"
    POINTS = "points"


class Rollup(PolicySection):
    """The family that a board follows from, and what it takes of each player's standings there.

    With `take: points`, `points` lists those of the first rank, the second, and so on.
    """

    family: Name
    take: Annotated[RollupTake, Field(strict=False)] = RollupTake.SUM
    points: Annotated[
        tuple[Annotated[int, Field(ge=1, le=POINTS_LIMIT)], ...],
        Field(max_length=PLACES_LIMIT, strict=False),
    ] = ()

    @model_validator(mode="after")
    def _points_of_ranks(self) -> Self:
        if bool(self.points) != (self.take is RollupTake.POINTS):
            raise ValueError("`points` belong to `take: points`, which needs at least one")
        if any(lower > higher for higher, lower in zip(self.points, self.points[1:], strict=False)):
            raise ValueError("`points` must not rise from one rank to the next")
        return self
