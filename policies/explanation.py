"""Explains a policy in plain words to the people who answer for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from policies.board import Board
from policies.choices import Operator, TieBreak, Writes
from policies.family import Family
from policies.family_policy import FamilyPolicy, OpenedBy
from policies.fields import SortOrder
from policies.judging import TIME_VALIDATORS
from policies.limits import Rate
from policies.model import Policy
from policies.policy_changes import figure, shown
from policies.replaying import detection_probability
from policies.rollups import Rollup, RollupTake
from policies.seeds import SeedOf
from policies.vocabulary import SCORE_LIMIT, Mode

_WRITES: Final[Mapping[Writes, str]] = {
    Writes.VERIFIED: "players (a run counts once its replay gives the claim) and registered game servers",
    Writes.OPEN: "players (without a replay: every run waits for a moderator) and registered game servers",
    Writes.TRUSTED: "only registered game servers",
    Writes.DERIVED: "nobody: it follows from the boards of a family",
}
_COUNTS: Final[Mapping[Operator, str]] = {
    Operator.BEST: "a player's best counts",
    Operator.LATEST: "a player's latest counts",
    Operator.SUM: "a player's scores are added up",
    Operator.COUNT: "a player's runs are counted",
}
_ONE_SEED: Final = "all runs have the board's, so everyone plays one course, and a stolen recording replays"
_OPENED_BY: Final[Mapping[OpenedBy, str]] = {
    OpenedBy.SERVERS: "registered game servers",
    OpenedBy.PLAYERS: "the first run of a player",
    OpenedBy.BOTH: "registered game servers, and the first run of a player",
}
_TAKES: Final[Mapping[RollupTake, str]] = {
    RollupTake.SUM: "the sum of a player's standings on the boards of",
    RollupTake.BEST: "the best of a player's standings on the boards of",
    RollupTake.COUNT: "the number of boards on which a player stands, among those of",
    RollupTake.POINTS: "the sum of the points for a player's ranks on the boards of",
}
_MODES: Final[Mapping[Mode, str]] = {
    Mode.OFF: "it does not run",
    Mode.SHADOW: "its findings are recorded, without effect",
    Mode.FLAG: "a run with a finding waits for a moderator",
    Mode.REJECT: "a run with a finding is rejected",
}
_DESCRIBED: Final = frozenset(
    {
        *(
            "board",
            "family",
            "names",
            "opened_by",
            "opening",
            "metadata_filters",
            "names_free_after_delete",
            "boards",
            "schedule",
            "sample",
            "rollup",
            "seed",
            "title",
            "writes",
            "order",
            "operator",
            "windows",
            "time_zone",
            "score",
            "velocity",
            "limits",
        ),
        *("run_lifetime_s", "builds", "validators", "decimals", "tie_break"),
        *("replay.ticks_per_second", "replay.maximum_ticks", "replay.budget", "replay.simulator"),
        *("replay.checkpoint_ticks", "replay.recording_bytes"),
        "verification.share",
    }
)
"""Settings that the sentences describe. Every other setting that differs from its default is listed as it
stands."""


_NAMES_SHOWN: Final = 5

_FALSE_RUNS: Final = (1, 10, 100)
"""Numbers of false runs for which the probability of verifying at least one is given."""


def explanation(board: Board | Family, finds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield lines as (subject, text), in the order of a submission's way.

    `finds` describes each validator.
    """
    policy = board.policy
    if isinstance(policy, FamilyPolicy):
        yield from _family(policy)
    yield "who writes", _WRITES[policy.writes]
    if policy.rollup:
        yield "a rollup", _rollup(policy.rollup)
    yield "a score", _rollup_score(policy, policy.rollup) if policy.rollup else _score(policy)
    yield "windows", f"{', '.join(kind.value for kind in policy.windows)}, in {policy.time_zone}"
    yield "ties", _ties(policy)
    if policy.takes_runs:
        yield "a run", _run(policy)
        if policy.seed is SeedOf.BOARD:
            yield "seeds", _ONE_SEED
        yield "time", _time(policy)
        yield "builds", _builds(board)
        yield "replay", _replay(policy)
        if policy.verification.share < 1:
            yield "verified", _share(policy)
        yield "held", _held(policy)
        yield from _validators(policy, finds)
    for name, value in _others(policy, ""):
        yield "also", f"{name}: {shown(value)}"


def _family(policy: FamilyPolicy) -> Iterator[tuple[str, str]]:
    yield "boards", f"{policy.family}.<name>, any number; {_names(policy)}"
    yield (
        "opened by",
        _OPENED_BY[policy.opened_by] + (_opening(policy) if policy.is_opened_by_players else ""),
    )
    if policy.boards:
        yield "declared", f"a steward opens {_shortened(list(policy.boards))}"
    if policy.schedule:
        yield "schedule", f"a steward opens a {policy.schedule} board, by the calendar of {policy.time_zone}"
    if policy.metadata_filters:
        fields = ", ".join(f"{name} ({kind.value})" for name, kind in policy.metadata_filters.items())
        yield "listed by", f"name, time, use, and the metadata {fields}"
    taken = "may be opened again" if policy.names_free_after_delete else "stays taken"
    yield "deleted", f"the name of a deleted board {taken}"


def _names(policy: FamilyPolicy) -> str:
    if policy.names is None:
        return "a name is any 1 to 64 of A-Z a-z 0-9 _ -"
    if isinstance(policy.names, str):
        return f"a name matches {policy.names}"
    return f"a name is one of {_shortened(policy.names)}"


def _shortened(names: Sequence[str]) -> str:
    shown_names = [*names[:_NAMES_SHOWN], *(["…"] if len(names) > _NAMES_SHOWN else [])]
    return f"{len(names)}: {', '.join(shown_names)}"


def _opening(policy: FamilyPolicy) -> str:
    limits = policy.opening_limits
    return (
        f"; in an hour a player opens up to {limits.player_per_hour}, an address {limits.address_per_hour}, "
        f"all players {limits.per_hour}, and no more than {limits.in_all} ever"
        + ("; the studio signs the names" if limits.signed_by else "")
    )


def _score(policy: Policy) -> str:
    bounds, first = policy.score, "lowest" if policy.order is SortOrder.ASCENDING else "highest"
    scaled = f", read with {policy.decimals} decimals" if policy.decimals else ""
    return (
        f"{bounds.minimum} to {bounds.maximum} in steps of {bounds.step}{scaled}; "
        f"the {first} is first; {_COUNTS[policy.operator]}"
    )


def _rollup(rollup: Rollup) -> str:
    if rollup.percentiles:
        given = ", ".join(f"{one.points} from {one.at:g}" for one in rollup.percentiles)
        points = "the sum of the points for a player's percentiles on the boards of"
        return f"{points} `{rollup.family}` ({given})"
    points = f" ({', '.join(map(str, rollup.points))})" if rollup.points else ""
    return f"{_TAKES[rollup.take]} `{rollup.family}`{points}"


def _rollup_score(policy: Policy, rollup: Rollup) -> str:
    is_ascending = policy.order is SortOrder.ASCENDING
    scaled = f", read with {policy.decimals} decimals" if policy.decimals else ""
    first = f"{scaled}; the {'lowest' if is_ascending else 'highest'} is first"
    if rollup.take is RollupTake.BEST:
        return f"one of a board of `{rollup.family}`{first}, as there"
    if rollup.take is RollupTake.COUNT:
        return f"1 to the number of boards of `{rollup.family}`{first}"
    if rollup.take is RollupTake.POINTS:
        return f"the points of all boards together{first}"
    fewer = "; a player of fewer boards has a lower sum, and is ahead" if is_ascending else ""
    return f"the sum, within ±{SCORE_LIMIT}{first}, by `order` or else as on `{rollup.family}`{fewer}"


def _ties(policy: Policy) -> str:
    if policy.tie_break is TieBreak.COMPOSITE:
        resolutions = ", ".join(f"{ms} ms in {kind.value}" for kind, ms in policy.tie_resolutions_ms.items())
        return f"who was first, told apart by {resolutions}"
    return "the tie fields, then who was first" if policy.tie_break is TieBreak.FIELDS else "who was first"


def _run(policy: Policy) -> str:
    limits = policy.limits
    return (
        f"is open for {policy.run_lifetime_s} s; a player has up to {limits.open_runs} open and sends "
        f"{_rate(limits.player)}, an address {_rate(limits.address)}"
    )


def _rate(rate: Rate) -> str:
    return f"{rate.per_minute} a minute ({rate.burst} at once)"


def _time(policy: Policy) -> str:
    if not policy.has_tick_rate:
        return "is not checked: neither `replay` nor `velocity.points_per_second` says that ticks are time"
    parts = [f"{policy.ticks_per_second} ticks are a second of play"]
    if policy.replay:
        longest_s = policy.replay.maximum_ticks / policy.ticks_per_second
        parts.append(f"the longest run has {policy.replay.maximum_ticks} ({figure(longest_s)} s)")
    parts.append(f"play may exceed our clock's time since the ticket by {policy.velocity.slack_s:g} s")
    pace = policy.velocity.points_per_second
    if policy.order is SortOrder.DESCENDING:
        parts.append(
            "any number of points a second" if pace is None else f"a second gives up to {figure(pace)} points"
        )
    return "; ".join(parts)


def _builds(board: Board | Family) -> str:
    builds = []
    for name, build in board.policy.builds.items():
        simulator = board.simulators.get(name)
        builds.append(f"{name} ({build.status}{f', {simulator.digest}' if simulator else ''})")
    return ", ".join(builds) or "any, since none is named"


def _replay(policy: Policy) -> str:
    if policy.replay is None:
        return "none"
    replay, budget = policy.replay, policy.replay.budget
    return (
        f"{replay.simulator.value}, within {budget.wall_ms} ms, {budget.memory_mib} MiB and {budget.fuel} "
        f"fuel; recordings of up to {replay.recording_bytes} bytes with a checkpoint every "
        f"{replay.checkpoint_ticks} ticks"
    )


def _share(policy: Policy) -> str:
    rule = policy.verification
    chances = ", ".join(f"{runs} with {detection_probability(rule.share, runs):.1%}" for runs in _FALSE_RUNS)
    return (
        f"always what would enter the first {rule.top} of a window, newcomers, and gains of more than "
        f"{shown(rule.beats_best_by)} points; of the rest a share of {rule.share:g}, so n false runs are "
        f"caught with the probability 1 - (1 - {rule.share:g})^n: {chances}"
    )


def _held(policy: Policy) -> str:
    if policy.writes is Writes.OPEN:
        return "every run that is not rejected"
    return "runs that a validator flags, that could not be replayed, or whose build is provisional or blocked"


def _validators(policy: Policy, finds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in type(policy.validators).model_fields:
        mode: Mode = getattr(policy.validators, name)
        about = f" {finds[name]}" if name in finds else ""
        yield name, f"{mode.value}: {_MODES[mode]}.{about}{_silent(policy, name)}"


def _silent(policy: Policy, name: str) -> str:
    """Return why a validator cannot work on this board, or which default it uses; else nothing."""
    if name in TIME_VALIDATORS and not policy.has_tick_rate:
        return " Does not run here: the policy does not say how long a tick is."
    if name == "velocity" and policy.velocity.points_per_second is None:
        return " Finds nothing here: `velocity.points_per_second` is not stated."
    if name == "anomaly" and policy.anomaly.spread_floor is None:
        return f" The spread of scores counts as at least {figure(policy.spread_floor)} points."
    return ""


def _others(section: BaseModel, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield settings that no sentence describes and that differ from their defaults, with dotted names."""
    for name, field in type(section).model_fields.items():
        value, default = getattr(section, name), field.get_default(call_default_factory=True)
        if prefix + name in _DESCRIBED or value == default:
            continue
        if isinstance(value, BaseModel):
            yield from _others(value, f"{prefix}{name}.")
        else:
            yield prefix + name, section.model_dump(mode="json")[name]
