"""The sections of a policy that say what is plausible, and what becomes of what is not."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from policies.fields import Part, Score
from policies.vocabulary import Mode

Moded = Annotated[Mode, Field(strict=False)]


class Bounds(Part):
    """What a score can be at all. Outside of it the client is told `bounds-violation`, never the limit."""

    minimum: Score = 0
    maximum: Score
    step: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError("minimum must be below maximum")
        return self


class Velocity(Part):
    """How fast points can come, and how far a client's clock may seem to run ahead of ours."""

    points_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    slack_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 2.0


class Prior(Part):
    """What the studio believes of its players before there are any: mean and standard deviation of a score."""

    mean: Annotated[float, Field(allow_inf_nan=False)]
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Anomaly(Part):
    """When a score is too far above what is known of the player, or of the board's players, to go unseen.

    `threshold` is in standard deviations. With fewer than `minimum_history` promoted runs the player is measured
    against the population; with fewer than `minimum_population` the population is the prior.
    """

    threshold: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 4.0
    minimum_history: Annotated[int, Field(ge=2, le=10_000)] = 8
    minimum_population: Annotated[int, Field(ge=2, le=1_000_000)] = 50
    spread_floor: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    prior: Prior


class Modes(Part):
    """What becomes of what each validator finds: nothing, a record, a moderator's look, or a rejection."""

    velocity: Moded = Mode.REJECT
    clock: Moded = Mode.REJECT
    anomaly: Moded = Mode.FLAG
    recording_reuse: Moded = Mode.FLAG
