"""Advice on settings that are allowed in a policy but are probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from policies.choices import Writes
from policies.fields import SortOrder
from policies.judging import ALL_BITS, Transform
from policies.model import Policy
from policies.policy_changes import figure
from policies.replaying import BuildStatus, RecordingKind
from policies.vocabulary import Mode


def advice_on(policy: Policy) -> list[str]:
    """Return a sentence for each setting that a studio should look at again. Each names the setting."""
    return [
        advice
        for check in (_modes, _anomaly, _velocity, _score, _time, _builds, _buttons, _limits)
        for advice in check(policy)
    ]


def _modes(policy: Policy) -> Iterator[str]:
    modes = {name: getattr(policy.validators, name) for name in type(policy.validators).model_fields}
    if all(mode is Mode.OFF for mode in modes.values()):
        yield "validators: all are off; nothing suspicious is ever recorded"
    elif all(mode in {Mode.OFF, Mode.SHADOW} for mode in modes.values()):
        yield "validators: none flags or rejects; findings are recorded and have no effect"


def _anomaly(policy: Policy) -> Iterator[str]:
    """Advise where no score can be far enough from the centre for the validator to find it.

    Distances on the other scales (`log`, `rank`) do not follow from the bounds, so only points are checked.
    """
    if policy.validators.anomaly is Mode.OFF or policy.anomaly.transform is not Transform.NONE:
        return
    rule, bounds, floor = policy.anomaly, policy.score, policy.spread_floor
    if (bounds.maximum - bounds.minimum) / floor <= rule.threshold:
        yield (
            f"anomaly.threshold: no two scores from {bounds.minimum} to {bounds.maximum} are "
            f"{figure(rule.threshold)} times `anomaly.spread_floor` ({figure(floor)}) apart; "
            "the validator finds nothing"
        )
        return
    best = bounds.minimum if policy.order is SortOrder.ASCENDING else bounds.maximum
    if rule.prior and abs(best - rule.prior.mean) / max(rule.prior.spread, floor) <= rule.threshold:
        yield (
            f"anomaly.prior: even the best possible score, {best}, is within {figure(rule.threshold)} "
            "spreads of the prior's mean; nothing is found until the board has "
            f"{rule.minimum_population} promoted runs"
        )


def _velocity(policy: Policy) -> Iterator[str]:
    """Advise where the pace never limits a score, or forbids the highest."""
    # As `validators.velocity` counts: from the lowest score or 0, over at least a second of play.
    pace, points = policy.velocity.points_per_second, policy.score.maximum - max(policy.score.minimum, 0)
    if pace is None or policy.order is SortOrder.ASCENDING or policy.validators.velocity is Mode.OFF:
        return
    if pace >= points:
        yield (
            f"velocity.points_per_second: {figure(pace)} allows the highest score within one second; "
            "the validator finds nothing"
        )
    longest_s = _longest_s(policy)
    if longest_s and pace * longest_s < points:
        yield (
            f"velocity.points_per_second: at {figure(pace)} the longest run ({figure(longest_s)} s) ends "
            f"below `score.maximum` ({policy.score.maximum})"
        )


def _score(policy: Policy) -> Iterator[str]:
    bounds = policy.score
    rest = (bounds.maximum - bounds.minimum) % bounds.step
    if rest:
        yield (
            f"score.maximum: steps of {bounds.step} from {bounds.minimum} lead to {bounds.maximum - rest}, "
            f"not to {bounds.maximum}"
        )


def _time(policy: Policy) -> Iterator[str]:
    longest_s = _longest_s(policy)
    if longest_s and policy.run_lifetime_s < longest_s:
        yield (
            f"run_lifetime_s: a ticket expires after {policy.run_lifetime_s} s, but the longest run takes "
            f"{figure(longest_s)} s"
        )


def _builds(policy: Policy) -> Iterator[str]:
    if policy.writes is Writes.TRUSTED and (policy.builds or policy.replay):
        yield "writes: only game servers write here, so `builds` and `replay` have no effect"
    elif policy.builds and all(build.status is BuildStatus.BLOCKED for build in policy.builds.values()):
        yield "builds: all are blocked; no run can be opened"


def _buttons(policy: Policy) -> Iterator[str]:
    """Advise where the policy does not name its buttons though a validator judges how they are pressed."""
    modes = policy.validators
    is_examined = {modes.timing, modes.input_rate, modes.slow_motion_inputs} != {Mode.OFF}
    has_words = policy.replay is not None and policy.replay.recording is RecordingKind.SCOREGATE
    if has_words and is_examined and policy.forensics.buttons == ALL_BITS:
        yield (
            "forensics.buttons: name the bits that are buttons (31: the lowest five); otherwise a client can "
            "set meaningless bits to pass for an analog stick, which `timing`, `input_rate` and "
            "`slow_motion_inputs` skip"
        )


def _limits(policy: Policy) -> Iterator[str]:
    player, address = policy.limits.player, policy.limits.address
    if player.per_minute > address.per_minute or player.burst > address.burst:
        yield "limits.player: it is above `limits.address`, so a player reaches the address's limit first"


def _longest_s(policy: Policy) -> float:
    """Return the seconds of play of the longest run; 0 without a replay to bound it."""
    return policy.replay.maximum_ticks / policy.ticks_per_second if policy.replay else 0.0
