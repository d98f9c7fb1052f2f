"""What is allowed in a policy and yet can hardly be meant."""

from __future__ import annotations

from collections.abc import Iterator

from policies.fields import SortOrder
from policies.judging import ALL_BITS, Transform
from policies.model import Policy, Writes
from policies.replaying import BuildStatus, RecordingKind
from policies.vocabulary import Mode


def advice_on(policy: Policy) -> list[str]:
    """A sentence for each setting that a studio should look at again, naming it."""
    return [
        told
        for look_at in (_modes, _anomaly, _velocity, _score, _time, _builds, _buttons, _limits)
        for told in look_at(policy)
    ]


def _modes(policy: Policy) -> Iterator[str]:
    modes = {name: getattr(policy.validators, name) for name in type(policy.validators).model_fields}
    if all(mode is Mode.OFF for mode in modes.values()):
        yield "validators: all are off; nothing suspicious is ever recorded"
    elif all(mode in {Mode.OFF, Mode.SHADOW} for mode in modes.values()):
        yield "validators: none flags or rejects; what is found is recorded and has no effect"


def _anomaly(policy: Policy) -> Iterator[str]:
    """Deviations are measured from a middle inside of the bounds, in spreads of at least `spread_floor`; points alone tell."""
    if policy.validators.anomaly is Mode.OFF or policy.anomaly.transform is not Transform.NONE:
        return
    rule, bounds, floor = policy.anomaly, policy.score, policy.spread_floor
    if (bounds.maximum - bounds.minimum) / floor <= rule.threshold:
        yield (
            f"anomaly.threshold: no score within {bounds.minimum} and {bounds.maximum} can be {rule.threshold:g} times "
            f"`anomaly.spread_floor` ({floor:g}) from another; the validator finds nothing"
        )
        return
    best = bounds.minimum if policy.order is SortOrder.ASCENDING else bounds.maximum
    if rule.prior and abs(best - rule.prior.mean) / max(rule.prior.spread, floor) <= rule.threshold:
        yield (
            f"anomaly.prior: even {best}, the best score there is, is within {rule.threshold:g} spreads of the prior's mean; "
            f"nothing is found until the board has {rule.minimum_population} promoted runs"
        )


def _velocity(policy: Policy) -> Iterator[str]:
    """The validator counts a second of play at least, from the lowest score or 0 (`validators.velocity`)."""
    pace, most = policy.velocity.points_per_second, policy.score.maximum - max(policy.score.minimum, 0)
    if pace is None or policy.order is SortOrder.ASCENDING or policy.validators.velocity is Mode.OFF:
        return
    if pace >= most:
        yield f"velocity.points_per_second: {pace:g} is more than the highest score needs in one second; it finds nothing"
    longest_s = _longest_s(policy)
    if longest_s and pace * longest_s < most:
        yield (
            f"velocity.points_per_second: at {pace:g} the longest run ({longest_s:g} s) ends below "
            f"`score.maximum` ({policy.score.maximum})"
        )


def _score(policy: Policy) -> Iterator[str]:
    bounds = policy.score
    rest = (bounds.maximum - bounds.minimum) % bounds.step
    if rest:
        yield f"score.maximum: steps of {bounds.step} from {bounds.minimum} lead to {bounds.maximum - rest}, not to {bounds.maximum}"


def _time(policy: Policy) -> Iterator[str]:
    longest_s = _longest_s(policy)
    if longest_s and policy.run_lifetime_s < longest_s:
        yield f"run_lifetime_s: the ticket ends after {policy.run_lifetime_s} s, the longest run takes {longest_s:g} s"


def _builds(policy: Policy) -> Iterator[str]:
    if policy.writes is Writes.TRUSTED and (policy.builds or policy.replay):
        yield "writes: only game servers write here, so `builds` and `replay` have nothing to do"
    elif policy.builds and all(each.status is BuildStatus.BLOCKED for each in policy.builds.values()):
        yield "builds: all are blocked; no run can be opened"


def _buttons(policy: Policy) -> Iterator[str]:
    """Words of many kinds are taken for a stick's unless the board says otherwise, and anybody can send such words."""
    modes = policy.validators
    is_looked_at = {modes.timing, modes.input_rate, modes.slow_motion_inputs} != {Mode.OFF}
    has_words = policy.replay is not None and policy.replay.recording is RecordingKind.SCOREGATE
    if has_words and is_looked_at and policy.forensics.buttons == ALL_BITS:
        yield (
            "forensics.buttons: name the bits that are buttons (31: the lowest five); without, a client that sets bits which "
            "mean nothing passes for a stick, and `timing`, `input_rate` and `slow_motion_inputs` do not look at it"
        )


def _limits(policy: Policy) -> Iterator[str]:
    player, address = policy.limits.player, policy.limits.address
    if player.per_minute > address.per_minute or player.burst > address.burst:
        yield "limits.player: it is above `limits.address`, which a player of that address meets first"


def _longest_s(policy: Policy) -> float:
    """Seconds of play of the longest run; 0 where there is no replay to bound it."""
    return policy.replay.maximum_ticks / policy.ticks_per_second if policy.replay else 0.0
