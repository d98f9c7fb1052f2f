"""The policy of a board: what a studio states about its game, as a model that explains itself.

A policy is data. It is loaded once (`policies.loader`), never changed in place, and its digest stands in every event
that it led to.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.vocabulary import SCORE_LIMIT

Score = Annotated[int, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT)]
SUM_LIMIT = 2**40
"""Largest score on a summing board: eight million of them still fit the 63 bits that SQL sums in."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")]
StatName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
BuildName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]


class Order(StrEnum):
    """Which scores rank first."""

    DESCENDING = "descending"
    ASCENDING = "ascending"


class Operator(StrEnum):
    """How a player's promoted submissions make one standing."""

    BEST = "best"
    LATEST = "latest"
    SUM = "sum"


class WindowKind(StrEnum):
    """The spans of time a board is kept for. Days, ISO weeks and months begin at 00:00 UTC."""

    ALLTIME = "alltime"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class Writes(StrEnum):
    """Who can bring a score onto the canonical board.

    `verified`: clients, through a verified replay. `open`: clients, without a replay, each through a moderator.
    `trusted`: registered game servers alone. Servers may write to every board.
    """

    VERIFIED = "verified"
    OPEN = "open"
    TRUSTED = "trusted"


class Part(BaseModel):
    """A section of the policy: strict, closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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


class Rate(Part):
    """A GCRA limit: `burst` at once, then `per_minute` spread evenly."""

    per_minute: Annotated[int, Field(ge=1, le=10_000_000)]
    burst: Annotated[int, Field(ge=1, le=1_000_000)]


class Limits(Part):
    """Rate limits of the board's submissions, and how many runs a player may have open at once."""

    player: Rate = Rate(per_minute=20, burst=10)
    address: Rate = Rate(per_minute=600, burst=120)
    open_runs: Annotated[int, Field(ge=1, le=1000)] = 5


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


class Budget(Part):
    """What one re-simulation may cost. Past any of these it is `inconclusive`."""

    fuel: Annotated[int, Field(ge=1_000, le=10**13)] = 20_000_000_000
    memory_mib: Annotated[int, Field(ge=1, le=1024)] = 64
    wall_ms: Annotated[int, Field(ge=10, le=600_000)] = 10_000


class Replay(Part):
    """How a recording is re-simulated. `builds` maps each game build to its module, relative to the policy file."""

    simulator: Literal["wasm"] = "wasm"
    builds: Annotated[dict[BuildName, str], Field(min_length=1, max_length=64)]
    ticks_per_second: Annotated[int, Field(ge=1, le=1000)] = 60
    maximum_ticks: Annotated[int, Field(ge=1, le=10_000_000)]
    checkpoint_ticks: Annotated[int, Field(ge=1, le=100_000)] = 60
    recording_bytes: Annotated[int, Field(ge=64, le=1_048_576)] = 65_536
    stats: Annotated[tuple[StatName, ...], Field(max_length=16, strict=False)] = ()
    budget: Budget = Budget()


class Policy(Part):
    """One board: its meaning, its rules, and what happens to what breaks them."""

    board: Name
    title: Annotated[str, Field(min_length=1, max_length=80)]
    writes: Annotated[Writes, Field(strict=False)] = Writes.VERIFIED
    order: Annotated[Order, Field(strict=False)] = Order.DESCENDING
    operator: Annotated[Operator, Field(strict=False)] = Operator.BEST
    tie_break: Literal["first"] = "first"
    windows: Annotated[
        tuple[Annotated[WindowKind, Field(strict=False)], ...], Field(min_length=1, strict=False)
    ] = (WindowKind.ALLTIME,)
    score: Bounds
    velocity: Velocity
    limits: Limits = Limits()
    run_lifetime_s: Annotated[int, Field(ge=30, le=604_800)] = 3600
    anomaly: Anomaly
    replay: Replay | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.writes is Writes.VERIFIED and self.replay is None:
            raise ValueError("a board with `writes: verified` needs a `replay` section")
        if len(set(self.windows)) != len(self.windows):
            raise ValueError("each window may be named once")
        if (
            self.operator is Operator.SUM
            and max(abs(self.score.minimum), abs(self.score.maximum)) > SUM_LIMIT
        ):
            raise ValueError(f"a board with `operator: sum` needs score bounds within ±{SUM_LIMIT}")
        return self

    @property
    def ticks_per_second(self) -> int:
        """Ticks in a second of play; 60 where the board has no replay to say otherwise."""
        return self.replay.ticks_per_second if self.replay else 60
