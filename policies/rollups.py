"""Rollups: boards whose standings follow from a family's boards."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from policies.errors import SettingRefused
from policies.fields import Name, PolicySection

PLACES_LIMIT = 100
"""Most ranks of a board that give points. A change of a board moves at most so many players."""

PERCENTILES_LIMIT = 20
"""Most percentiles that give points. Each has a border on every board, which a steward keeps."""

POINTS_LIMIT = 1_000_000
"""Most points of one rank, so that nine billion boards fit into a score."""


WINDOWS: Final = frozenset({"alltime", "season"})
"""The kinds of windows that a rollup can have."""

_OF_RUNS: Final = frozenset(
    {
        *("operator", "tie_break", "tie_fields", "tie_resolution_ms", "details", "joins", "staleness_s"),
        *("stats", "velocity", "slow_motion", "delay", "abandonment", "run_lifetime_s", "anomaly", "drift"),
        *("progress", "validators", "forensics", "builds", "replay", "rules", "plugins", "verification"),
        *("seed", "limits", "recordings", "playback"),
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


class PercentilePoints(PolicySection):
    """Points for players whose percentile is `at` or more: the share of entries that are not better.

    It is the percentile that readers of a board see, in percent, with up to two decimals.
    """

    at: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
    points: Annotated[int, Field(ge=1, le=POINTS_LIMIT)]

    @property
    def share(self) -> int:
        """The percentile in hundredths of a percent."""
        return round(self.at * 100)

    @model_validator(mode="after")
    def _in_hundredths(self) -> Self:
        if self.share / 100 != self.at:
            raise ValueError("`at` has at most two decimals")
        return self


class Rollup(PolicySection):
    """The family that a board follows from, and what it takes of each player's standings there.

    With `take: points`, `points` lists those of the first rank, the second, and so on, or `percentiles` those
    of the best percentile, the next, and so on.
    """

    family: Name
    take: Annotated[RollupTake, Field(strict=False)] = RollupTake.SUM
    points: Annotated[
        tuple[Annotated[int, Field(ge=1, le=POINTS_LIMIT)], ...],
        Field(max_length=PLACES_LIMIT, strict=False),
    ] = ()
    percentiles: Annotated[
        tuple[PercentilePoints, ...], Field(max_length=PERCENTILES_LIMIT, strict=False)
    ] = ()

    @model_validator(mode="after")
    def _points_of_ranks(self) -> Self:
        if (bool(self.points) + bool(self.percentiles)) != (self.take is RollupTake.POINTS):
            raise ValueError(
                "`points` and `percentiles` belong to `take: points`, which needs one of the two"
            )
        if any(lower > higher for higher, lower in pairwise(self.points)):
            raise ValueError("`points` must not rise from one rank to the next")
        if any(one.at <= other.at or one.points < other.points for one, other in pairwise(self.percentiles)):
            raise ValueError("`percentiles` must fall from one to the next, and their points must not rise")
        return self

    def refuse_beside(self, settings: Iterable[str], windows: Iterable[str]) -> None:
        """Raise SettingRefused if the rollup's policy has settings, or windows, that no rollup has."""
        if not WINDOWS.issuperset(windows):
            raise SettingRefused("a rollup has the windows `alltime` and `season` only", "windows")
        if unused := sorted(_OF_RUNS.intersection(settings)):
            raise SettingRefused("a rollup takes no runs, so this setting would have no effect", unused[0])
