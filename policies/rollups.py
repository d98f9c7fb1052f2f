"""Rollups: boards whose standings follow from a family's boards."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from policies.errors import SettingRefused
from policies.fields import Name, PolicySection

PLACES_LIMIT = 100
"""Most ranks of a board that give points. A change of a board moves at most so many players."""

POINTS_LIMIT = 1_000_000
"""Most points of one rank, so that nine billion boards fit into a score."""


WINDOWS: Final = frozenset({"alltime", "season"})
"""The kinds of windows that a rollup can have."""

_OF_RUNS: Final = frozenset(
    {
        *("operator", "tie_break", "tie_fields", "tie_resolution_ms", "details", "joins", "staleness_s"),
        *("stats", "velocity", "slow_motion", "delay", "abandonment", "run_lifetime_s", "anomaly", "drift"),
        *("progress", "validators", "forensics", "builds", "replay", "rules", "plugins", "verification"),
    }
)
"""Settings for runs and for their folds, which a rollup does not have."""


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

    def refuse_beside(self, settings: Iterable[str], windows: Iterable[str]) -> None:
        """Raise SettingRefused if the rollup's policy has settings, or windows, that no rollup has."""
        if not WINDOWS.issuperset(windows):
            raise SettingRefused("a rollup has the windows `alltime` and `season` only", "windows")
        if unused := sorted(_OF_RUNS.intersection(settings)):
            raise SettingRefused("a rollup takes no runs, so this setting would have no effect", unused[0])
