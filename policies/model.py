"""The policy of a board: what a studio declares about its game.

A policy is data. It is loaded once (`policies.loader`) and never changed in place. Its digest is stored in
every event that it influenced.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, field_validator, model_validator

from policies.choices import (
    DetailRules,
    Joins,
    Operator,
    RankKind,
    TieBreak,
    TieField,
    WindowKind,
    Writes,
)
from policies.defaults import SPREADS_OF_RANGE, SUM_LIMIT, completed
from policies.errors import SettingRefused
from policies.fields import BoardName, BuildName, Name, PolicySection, Score, SegmentName, SortOrder, StatName
from policies.judging import (
    Abandonment,
    Anomaly,
    Bounds,
    Delay,
    Drift,
    Forensics,
    Modes,
    Progress,
    SlowMotion,
    StatRange,
    Transform,
    Velocity,
)
from policies.limits import Limits, RecordingRetention
from policies.moderation import Moderation
from policies.origins import ORIGINS, Origin, refuse_beside_any
from policies.playback import Playback
from policies.plugins import Plugin
from policies.replaying import Build, Replay, Verification
from policies.rollups import Rollup
from policies.rules import RULES, CompiledRules, Rule, compile_rules, refuse_unusable_rules
from policies.seeds import SeedOf
from policies.ties import refuse_coarse_slots, slot_lengths_ms
from policies.vocabulary import SCORE_LIMIT, Mode

RANKS_TO_LOSE = 100
"""Entries that a board with `exact_ranks` keeps in reserve, so that a loss does not send it to the ledger
each time."""

CRON_FIELDS = 5

SEASONS_LOOKED_AT = 24
"""Seasons that are checked for a minimum length."""

SEASONS_FROM = datetime(2026, 1, 1, tzinfo=UTC)
"""The time from which they are counted."""


class Policy(PolicySection):
    """A board: its meaning, its rules, and what happens to runs that break them."""

    board: BoardName
    title: Annotated[str, Field(min_length=1, max_length=80)]
    writes: Annotated[Writes, Field(strict=False)] = Writes.VERIFIED
    order: Annotated[SortOrder, Field(strict=False)] = SortOrder.DESCENDING
    operator: Annotated[Operator, Field(strict=False)] = Operator.BEST
    decimals: Annotated[int, Field(ge=0, le=9)] = 0
    ranks: Annotated[
        tuple[Annotated[RankKind, Field(strict=False)], ...], Field(min_length=1, max_length=3, strict=False)
    ] = (RankKind.UNIQUE, RankKind.SPARSE)
    tie_break: Annotated[TieBreak, Field(strict=False)] = TieBreak.FIRST
    tie_fields: Annotated[tuple[TieField, ...], Field(max_length=4, strict=False)] = ()
    tie_resolution_ms: Annotated[int, Field(ge=1, le=86_400_000)] | None = None
    details: DetailRules = DetailRules()
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    season: Annotated[str, Field(max_length=100)] | None = None
    windows: Annotated[
        tuple[Annotated[WindowKind, Field(strict=False)], ...], Field(min_length=1, strict=False)
    ] = (WindowKind.ALLTIME,)
    joins: Annotated[Joins, Field(strict=False)] = Joins.OPEN
    segments: Annotated[tuple[SegmentName, ...], Field(max_length=8, strict=False)] = ()
    self_declared: Annotated[tuple[SegmentName, ...], Field(max_length=8, strict=False)] = ()
    origins: Annotated[
        tuple[Origin, ...], Field(max_length=ORIGINS, strict=False), AfterValidator(refuse_beside_any)
    ] = ()
    cold_after_h: Annotated[int, Field(ge=1, le=87_600)] | None = None
    staleness_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 0.0
    shards: Annotated[int, Field(ge=1, le=64)] = 1
    exact_ranks: Annotated[int, Field(ge=10, le=10_000_000)] | None = None
    ranges: Annotated[tuple[Score, ...], Field(max_length=64, strict=False)] = ()
    score: Bounds
    stats: Annotated[dict[StatName, StatRange], Field(default_factory=dict, max_length=16)]
    velocity: Velocity = Velocity()
    slow_motion: SlowMotion = SlowMotion()
    delay: Delay = Delay()
    abandonment: Abandonment = Abandonment()
    limits: Limits = Limits()
    recordings: RecordingRetention = RecordingRetention()
    run_lifetime_s: Annotated[int, Field(ge=30, le=604_800)] = 3600
    seed: Annotated[SeedOf, Field(strict=False)] = SeedOf.RUN
    anomaly: Anomaly = Anomaly()
    drift: Drift = Drift()
    progress: Progress = Progress()
    validators: Modes = Modes()
    forensics: Forensics = Forensics()
    builds: Annotated[dict[BuildName, Build], Field(default_factory=dict, max_length=64)]
    replay: Replay | None = None
    rollup: Rollup | None = None
    rules: Annotated[tuple[Rule, ...], Field(max_length=RULES, strict=False)] = ()
    plugins: Annotated[dict[Name, Plugin], Field(default_factory=dict, max_length=16)]
    verification: Verification = Verification()
    playback: Playback = Playback()
    moderation: Moderation = Moderation()

    @model_validator(mode="before")
    @classmethod
    def _with_what_follows(cls, settings: Any) -> Any:
        return completed(settings) if isinstance(settings, Mapping) else settings

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.writes is Writes.VERIFIED and self.replay is None:
            raise ValueError("a board with `writes: verified` needs a `replay` section")
        if len(set(self.windows)) != len(self.windows):
            raise SettingRefused("each window may be named once", "windows")
        if (
            self.operator is Operator.SUM
            and max(abs(self.score.minimum), abs(self.score.maximum)) > SUM_LIMIT
        ):
            raise ValueError(f"a board with `operator: sum` needs score bounds within ±{SUM_LIMIT}")
        if len(set(self.ranks)) != len(self.ranks):
            raise SettingRefused("each kind of rank may be named once; the first is the board's own", "ranks")
        if self.shards > 1 and RankKind.DENSE in self.ranks:
            raise ValueError(
                "a board with `shards` keeps no dense ranks: distinct scores do not add up over shards"
            )
        if self.shards > 1 and self.cold_after_h:
            raise ValueError("a board with `shards` stays in Redis, so it takes no `cold_after_h`")
        if self.shards > 1 and self.segments:
            raise ValueError("a board with `shards` keeps no `segments`: their boards would be in one place")
        if self.exact_ranks and (self.shards > 1 or self.ranges or self.segments):
            raise ValueError(
                "a board with `exact_ranks` has no `shards`, `ranges` or `segments`: those need all entries"
            )
        if (WindowKind.SEASON in self.windows) != (self.season is not None):
            message = "a board with the window `season` needs `season: <cron expression>`, and no other does"
            raise SettingRefused(message, "season" if self.season else "windows")
        return self

    @model_validator(mode="after")
    def _rollup_alone(self) -> Self:
        if (self.rollup is None) != (self.writes is not Writes.DERIVED):
            raise ValueError("`rollup` and `writes: derived` need each other")
        if self.rollup:
            self.rollup.refuse_beside(self.model_fields_set, self.windows)
        return self

    @model_validator(mode="after")
    def _ranges_that_part_scores(self) -> Self:
        if not self.ranges:
            return self
        if self.shards > 1:
            raise ValueError("a board is in `shards` or in `ranges`, not in both")
        if any(lower >= upper for lower, upper in pairwise(self.ranges)):
            raise ValueError("`ranges` must ascend: each score above the one before it")
        is_bounded = self.operator in {Operator.BEST, Operator.LATEST}
        lowest, highest = self.score.minimum, self.score.maximum
        if is_bounded and not lowest < self.ranges[0] <= self.ranges[-1] <= highest:
            raise ValueError(
                f"`ranges` must be above {lowest} and at most {highest}, or a range would stay empty"
            )
        return self

    @model_validator(mode="after")
    def _share_that_can_be_spared(self) -> Self:
        if self.verification.share < 1 and (
            self.writes is not Writes.VERIFIED or self.operator is not Operator.BEST
        ):
            raise ValueError(
                "a `verification.share` below 1 is for boards with `writes: verified` and `operator: best`"
            )
        if self.verification.reveal_s and self.writes is not Writes.VERIFIED:
            raise ValueError("`verification.reveal_s` is for boards with `writes: verified`")
        return self

    @model_validator(mode="after")
    def _seeds_that_are_no_gift(self) -> Self:
        if self.seed is SeedOf.RUN:
            return self
        if self.writes is Writes.TRUSTED:
            raise SettingRefused("only players' runs have seeds, and here only game servers write", "seed")
        if self.replay is None:
            return self  # no recording is replayed, so none passes for the thief's own
        # Whoever plays the same course can send another player's recording, which replays like their own.
        lax = [
            f"`validators.{name}` is `{mode.value}`"
            for name in ("recording_reuse", "similarity")
            if (mode := getattr(self.validators, name)) in {Mode.OFF, Mode.SHADOW}
        ]
        if lax:
            message = f"with `seed: board` a stolen recording replays, but {' and '.join(lax)}"
            raise SettingRefused(f"{message}: set `flag` or `reject`", "seed")
        return self

    @model_validator(mode="after")
    def _builds_that_can_be_replayed(self) -> Self:
        if self.replay and not self.builds:
            raise ValueError("a board with a `replay` section needs `builds`, each with its `simulator`")
        for name, build in self.builds.items():
            if (build.simulator is None) != (self.replay is None):
                message = "the sections `simulator` and `replay` need each other"
                raise SettingRefused(message, "builds", name, "simulator")
            if self.replay:
                self.replay.refuse_unreachable(name, build)
        return self

    @model_validator(mode="after")
    def _scores_with_logarithms(self) -> Self:
        if self.anomaly.transform is Transform.LOG and (
            self.score.minimum < 0 or (self.anomaly.prior is not None and self.anomaly.prior.mean < 0)
        ):
            raise ValueError(
                "`anomaly.transform: log` needs `score.minimum` and `anomaly.prior.mean` at 0 or above"
            )
        return self

    @model_validator(mode="after")
    def _claims_that_can_be_judged(self) -> Self:
        if self.operator is Operator.SUM and self.validators.bounds is not Mode.REJECT:
            raise ValueError(
                "a board with `operator: sum` needs `validators.bounds: reject`, or sums overflow"
            )
        if self.replay:
            for name, rule in self.stats.items():
                if name not in self.replay.stats or not rule.required:
                    message = "on a board with `replay` a statistic must be in `replay.stats`"
                    raise SettingRefused(message, "stats", name)
        names = [rule.name for rule in self.rules]
        if len(set(names)) != len(names):
            raise SettingRefused("each rule needs a unique name", "rules")
        scores = (self.score.minimum, self.score.maximum)
        refuse_unusable_rules(self.rules, self.claim_stats, scores, next(iter(self.builds), "build"))
        return self

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("expected a time zone such as `Europe/Berlin`") from None
        return name

    @field_validator("season")
    @classmethod
    def _whole_seasons(cls, cron: str | None) -> str | None:
        if cron is None:
            return None
        if len(cron.split()) != CRON_FIELDS:  # a sixth is of seconds, which no name of a window has
            raise ValueError(_fault_of_season(cron))
        try:
            turns = CronSim(cron, SEASONS_FROM)
            begins = [next(turns) for _ in range(SEASONS_LOOKED_AT)]
        except (CronSimError, StopIteration):
            raise ValueError(_fault_of_season(cron)) from None
        if any(later - earlier < timedelta(days=1) for earlier, later in pairwise(begins)):
            raise ValueError("a season must last a day or longer")
        return cron

    @model_validator(mode="after")
    def _ties_that_can_be_kept(self) -> Self:
        if bool(self.tie_fields) != (self.tie_break is TieBreak.FIELDS):
            raise ValueError("`tie_fields` belong to `tie_break: fields`, which needs at least one")
        if (self.tie_resolution_ms is not None) != (self.tie_break is TieBreak.COMPOSITE):
            raise ValueError("`tie_resolution_ms` belongs to `tie_break: composite`, which needs it")
        if self.tie_break is TieBreak.COMPOSITE:
            refuse_coarse_slots(self.operator, self.score, self.windows, self.tie_resolution_ms or 0)
        return self

    @cached_property
    def tie_resolutions_ms(self) -> Mapping[WindowKind, int]:
        """Return how far apart (ms) each window can distinguish equal scores; empty if not composite."""
        if self.tie_break is not TieBreak.COMPOSITE:
            return MappingProxyType({})
        return slot_lengths_ms(self.score, self.windows)

    @model_validator(mode="after")
    def _of_groups(self) -> Self:
        if len(set(self.segments)) != len(self.segments):
            raise SettingRefused("each segment may be named once", "segments")
        if undeclared := set(self.self_declared) - set(self.segments):
            message = f"{', '.join(sorted(undeclared))} is not among the segments"
            raise SettingRefused(message, "self_declared")
        if self.staleness_s and self.operator is not Operator.SUM:
            raise ValueError(
                "`staleness_s` applies to increments, which only a board with `operator: sum` takes"
            )
        return self

    @cached_property
    def claim_stats(self) -> Mapping[str, tuple[int, int]]:
        """Return the range (lowest, highest) of each statistic of a claim that the policy names."""
        ranges = {name: (rule.minimum, rule.maximum) for name, rule in self.stats.items()}
        replayed = self.replay.stats if self.replay else ()
        others = (*replayed, *(field.stat for field in self.tie_fields))
        return MappingProxyType(dict.fromkeys(others, (-SCORE_LIMIT, SCORE_LIMIT)) | ranges)

    @cached_property
    def compiled_rules(self) -> CompiledRules:
        """Return the rules that apply to a claim, compiled."""
        return compile_rules(self.rules, self.validators.rules)

    @property
    def most_entries(self) -> int | None:
        """Return how many entries of a window the index keeps: `exact_ranks` and a reserve; None for all."""
        return self.exact_ranks and self.exact_ranks + max(RANKS_TO_LOSE, self.exact_ranks // 10)

    @cached_property
    def spread_floor(self) -> float:
        """Return the smallest spread (in points) that scores are assumed to have."""
        return self.spread_floor_within(self.score)

    def spread_floor_within(self, score: Bounds) -> float:
        """Return the spread floor of a board of this policy with these bounds."""
        return self.anomaly.spread_floor or max(1.0, (score.maximum - score.minimum) / SPREADS_OF_RANGE)

    @property
    def takes_runs(self) -> bool:
        """Return whether players submit runs to the board."""
        return self.writes in {Writes.VERIFIED, Writes.OPEN}

    @property
    def has_tick_rate(self) -> bool:
        """Return whether the policy defines a tick's length, by its replay or by the points of a second."""
        return self.replay is not None or self.velocity.points_per_second is not None

    @property
    def ticks_per_second(self) -> int:
        """Return the ticks in a second of play; 60 without a replay that defines it."""
        return self.replay.ticks_per_second if self.replay else 60


def _fault_of_season(cron: str) -> str:
    """Return what is wrong with a cron expression: a day that none of its months has, or its form."""
    with suppress(CronSimError, ValueError):
        minute, hour, day, month, weekday = cron.split()
        CronSim(f"{minute} {hour} 1 {month} {weekday}", SEASONS_FROM)  # with another day it is right
        CronSim(f"{minute} {hour} {day} * {weekday}", SEASONS_FROM)  # and in another month too
        return "none of its months has this day, so no season would ever begin"
    return "expected a cron expression of five fields, such as `0 10 1 */3 *`"
