"""The sections of a policy that say what is plausible, and what happens to findings."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from policies.fields import PolicySection, Score
from policies.vocabulary import SCORE_LIMIT, SEVERITIES, Mode, Severity

ModeSetting = Annotated[Mode, Field(strict=False)]


class Bounds(PolicySection):
    """The scores that are possible.

    If this refuses a claim, the client is told `bounds-violation`, never the limit.
    """

    minimum: Score = 0
    maximum: Score
    step: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError("minimum must be below maximum")
        return self


class StatRange(PolicySection):
    """The possible values of a statistic, and whether every claim must have it."""

    minimum: Score = 0
    maximum: Score = SCORE_LIMIT
    step: Annotated[int, Field(ge=1)] = 1
    required: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError("minimum must not be above maximum")
        return self


class Velocity(PolicySection):
    """The limits of pace: how fast points can come, and how far a client's clock may seem ahead of ours.

    Without `points_per_second` any pace is allowed, because only the studio knows what its game can give.
    """

    points_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    slack_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 2.0


class SlowMotion(PolicySection):
    """The longest time that a run may be open, as a multiple of its play time, from `least_s` of play on."""

    ratio: Annotated[float, Field(gt=1, le=1000, allow_inf_nan=False)] = 3.0
    least_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 30.0


class Delay(PolicySection):
    """The longest time from a run's earliest possible end to its submission."""

    most_s: Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)] = 600.0


class Abandonment(PolicySection):
    """The share of a day's opened runs that a player must submit, from `least_runs` opened on."""

    least_runs: Annotated[int, Field(ge=2, le=1_000_000)] = 30
    least_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.1


class Prior(PolicySection):
    """The expected mean and standard deviation of a score, before the board has players."""

    mean: Annotated[float, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT, allow_inf_nan=False)]
    spread: Annotated[float, Field(gt=0, le=SCORE_LIMIT, allow_inf_nan=False)]


class Transform(StrEnum):
    """The scale on which scores are compared: raw points, their logarithms, or their ranks."""

    NONE = "none"
    LOG = "log"
    RANK = "rank"


PLAYER_RECENT: Final = 32
"""How many of a player's newest promoted scores are kept individually."""

POPULATION_RECENT: Final = 128
"""How many of a population's newest promoted scores are kept individually."""


def normal_score(rank: float, count: int) -> float:
    """Return the expected deviation of a normal value of this rank (1 for the worst) among `count`.

    Uses G. Blom's approximation of expected normal order statistics ("Statistical Estimates and Transformed
    Beta-Variables", 1958).
    """
    return NormalDist().inv_cdf((rank - 0.375) / (count + 0.25))


class Anomaly(PolicySection):
    """When a score is too far above the player's own scores, or above those of the board's players.

    `threshold` is in standard deviations. A player with fewer than `minimum_history` promoted runs is
    measured against the population. A population with fewer than `minimum_population` is replaced by the
    prior; without a prior nothing is found. `Policy.spread_floor` gives the default of `spread_floor`.
    """

    transform: Annotated[Transform, Field(strict=False)] = Transform.NONE
    threshold: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 4.0
    minimum_history: Annotated[int, Field(ge=2, le=10_000)] = 8
    minimum_population: Annotated[int, Field(ge=2, le=1_000_000)] = 50
    spread_floor: Annotated[float, Field(ge=1e-9, le=SCORE_LIMIT, allow_inf_nan=False)] | None = None
    prior: Prior | None = None

    @model_validator(mode="after")
    def _thresholds_that_can_be_reached(self) -> Self:
        if self.transform is Transform.RANK:
            self._refuse_unreachable("minimum_history", min(self.minimum_history, PLAYER_RECENT))
            self._refuse_unreachable("minimum_population", min(self.minimum_population, POPULATION_RECENT))
        return self

    def _refuse_unreachable(self, name: str, sample: int) -> None:
        highest = normal_score(sample + 1, sample + 1)
        if self.threshold >= highest:
            raise ValueError(
                f"`transform: rank` reaches at most {highest:.2f} among the {sample} scores that `{name}` "
                f"requires ({PLAYER_RECENT} are kept for a player, {POPULATION_RECENT} for a population): "
                "`threshold` must be below that"
            )


class Drift(PolicySection):
    """When a player's bests have climbed too far from where they began to be the same player's: a CUSUM.

    Both values are in standard deviations of the player's early scores: each new best may be `slack` above
    their centre, and the excess may add up to `decision`.
    """

    slack: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 3.0
    decision: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 6.0


class Progress(PolicySection):
    """The most by which a player's best may be beaten at once: in points, or in a player's largest step."""

    times: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = 3.0
    points: Annotated[int, Field(ge=1, le=SCORE_LIMIT)] | None = None


ALL_BITS = 2**32 - 1
"""Every bit of an input word."""


class Forensics(PolicySection):
    """The limits of hands, and of the likeness of two recordings, for `replay.forensics`.

    `buttons` is a mask of the bits of an input word that are buttons; all bits means that the board does not
    say. Timing needs a button with `minimum_presses` presses, likeness a recording with `minimum_shingles`
    shingles.
    """

    buttons: Annotated[int, Field(ge=1, le=ALL_BITS)] = ALL_BITS
    minimum_presses: Annotated[int, Field(ge=10, le=100_000)] = 40
    interval_variation: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.02
    press_variation: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.05
    interval_entropy_bits: Annotated[float, Field(ge=0, le=16, allow_inf_nan=False)] = 1.0
    periodicity: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.93
    slowest_device_hz: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = 20.0
    shortest_press_ms: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 20.0
    frame_perfect_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.8
    presses_per_second: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 16.0
    slow_motion_ratio: Annotated[float, Field(gt=1, le=1000, allow_inf_nan=False)] = 1.5
    slow_motion_presses_per_second: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 12.0
    minimum_shingles: Annotated[int, Field(ge=8, le=4096)] = 32
    correlation: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.65
    resemblance: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.5


TIME_VALIDATORS: Final = frozenset({"clock", "slow_motion", "delay"})
"""Validators that measure time by ticks. They do not run if the policy does not say how long a tick is."""


class Modes(PolicySection):
    """The use of each validator's findings: nothing, a record, a moderator's decision or a rejection.

    The descriptions say what each looks for, in the schema, in `scoregate policy check` and in the reference.
    """

    bounds: Annotated[ModeSetting, Field(description="a score that `score` says there cannot be")] = (
        Mode.REJECT
    )
    stats: Annotated[ModeSetting, Field(description="a statistic that `stats` says there cannot be")] = (
        Mode.REJECT
    )
    rules: Annotated[ModeSetting, Field(description="a claim that breaks one of `rules`")] = Mode.REJECT
    velocity: Annotated[
        ModeSetting, Field(description="more points per second than `velocity.points_per_second`")
    ] = Mode.REJECT
    clock: Annotated[ModeSetting, Field(description="more ticks than time has passed since the ticket")] = (
        Mode.REJECT
    )
    slow_motion: Annotated[
        ModeSetting,
        Field(description="a run that was open for much longer than it was played, see `slow_motion`"),
    ] = Mode.SHADOW
    delay: Annotated[
        ModeSetting, Field(description="a run that was submitted long after it could have ended, see `delay`")
    ] = Mode.OFF
    abandonment: Annotated[
        ModeSetting,
        Field(description="a player who opens many runs and submits few of them, see `abandonment`"),
    ] = Mode.SHADOW
    anomaly: Annotated[ModeSetting, Field(description="a score far outside what is known, see `anomaly`")] = (
        Mode.FLAG
    )
    drift: Annotated[
        ModeSetting, Field(description="bests that have climbed far from where they began, see `drift`")
    ] = Mode.FLAG
    progress: Annotated[
        ModeSetting, Field(description="a new best that gains too much at once, see `progress`")
    ] = Mode.SHADOW
    probing: Annotated[
        ModeSetting, Field(description="a player who was limited for refused claims, see `limits.refused`")
    ] = Mode.SHADOW
    recording_reuse: Annotated[
        ModeSetting, Field(description="a recording that another submission on the board already has")
    ] = Mode.FLAG
    timing: Annotated[
        ModeSetting,
        Field(description="presses that no hand makes: too even, to a beat, too short; see `forensics`"),
    ] = Mode.SHADOW
    input_rate: Annotated[
        ModeSetting, Field(description="more presses in a second of play than a hand can make")
    ] = Mode.SHADOW
    slow_motion_inputs: Annotated[
        ModeSetting, Field(description="dense presses in a run that took much longer than it lasted")
    ] = Mode.SHADOW
    similarity: Annotated[
        ModeSetting, Field(description="a recording nearly the same as another on the board")
    ] = Mode.SHADOW

    @cached_property
    def severities(self) -> Mapping[str, Severity]:
        """Return the severity of each validator's findings by its name; those that are off are not in it."""
        modes = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: SEVERITIES[mode] for name, mode in modes.items() if mode is not Mode.OFF}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other modes, whose severities are prepared anew."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("severities", None)  # it follows from the modes
        return copy
