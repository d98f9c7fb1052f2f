"""Narrower bounds of one board: what they may be beside its family's, and what they mean."""

from __future__ import annotations

from typing import Any

from policies.choices import TieBreak
from policies.errors import SettingRefused
from policies.fields import SortOrder
from policies.judging import Bounds, Prior, Transform
from policies.model import Policy
from policies.opened_board import NarrowedBounds, NarrowedScore


def refuse_wider(policy: Policy, bounds: NarrowedBounds | None) -> None:
    """Raise SettingRefused, naming the bound, if `bounds` would let through what the policy would not."""
    if bounds is None:
        return
    _refuse_wider_score(policy, bounds.score)
    if bounds.maximum_ticks is not None:
        if policy.replay is None:
            raise SettingRefused("the family has no `replay` section", "bounds", "maximum_ticks")
        if bounds.maximum_ticks > policy.replay.maximum_ticks:
            message = f"above the family's {policy.replay.maximum_ticks}: a board may only narrow its bounds"
            raise SettingRefused(message, "bounds", "maximum_ticks")
    if bounds.prior is not None and not _is_narrower_prior(policy, _score_of(policy, bounds), bounds.prior):
        message = "some score that the family's prior finds unusual would be usual on this board"
        raise SettingRefused(message, "bounds", "prior")


def narrowed(policy: Policy, bounds: NarrowedBounds | None) -> dict[str, Any]:
    """Return the sections of the policy that differ on a board with these bounds.

    Whatever the policy has become since they were set, the result is within it: a bound that would widen it
    now has no effect.
    """
    if bounds is None:
        return {}
    sections: dict[str, Any] = {}
    score = _score_of(policy, bounds)
    if score != policy.score:
        sections["score"] = score
    replay, ticks = policy.replay, bounds.maximum_ticks
    if replay is not None and ticks is not None and ticks < replay.maximum_ticks:
        sections["replay"] = replay.model_copy(update={"maximum_ticks": ticks})
    if bounds.prior is not None and _is_narrower_prior(policy, score, bounds.prior):
        sections["anomaly"] = policy.anomaly.model_copy(update={"prior": bounds.prior})
    return sections


def _refuse_wider_score(policy: Policy, score: NarrowedScore) -> None:
    family = policy.score
    if score == NarrowedScore():
        return
    if policy.tie_break is TieBreak.COMPOSITE:
        message = "with `tie_break: composite` the bounds decide places, so no board has its own"
        raise SettingRefused(message, "bounds", "score")
    minimum = family.minimum if score.minimum is None else score.minimum
    maximum = family.maximum if score.maximum is None else score.maximum
    if minimum < family.minimum:
        message = f"below the family's {family.minimum}: a board may only narrow its bounds"
        raise SettingRefused(message, "bounds", "score", "minimum")
    if maximum > family.maximum:
        message = f"above the family's {family.maximum}: a board may only narrow its bounds"
        raise SettingRefused(message, "bounds", "score", "maximum")
    if minimum >= maximum:
        raise SettingRefused("minimum must be below maximum", "bounds", "score")
    if (minimum - family.minimum) % family.step:
        message = f"not a score of the family, whose steps are {family.step}"
        raise SettingRefused(message, "bounds", "score", "minimum")


def _score_of(policy: Policy, bounds: NarrowedBounds) -> Bounds:
    """Return the scores that both the policy and the board's bounds allow; the policy's if there are none."""
    family, score = policy.score, bounds.score
    if score == NarrowedScore() or policy.tie_break is TieBreak.COMPOSITE:
        return family
    minimum = family.minimum if score.minimum is None else max(family.minimum, score.minimum)
    maximum = family.maximum if score.maximum is None else min(family.maximum, score.maximum)
    minimum += -(minimum - family.minimum) % family.step
    if minimum >= maximum:
        return family
    return Bounds(minimum=minimum, maximum=maximum, step=family.step)


def _is_narrower_prior(policy: Policy, score: Bounds, prior: Prior) -> bool:
    """Return whether each score that the policy's prior finds unusual is unusual by `prior` too."""
    rule, family = policy.anomaly, policy.anomaly.prior
    if rule.transform is Transform.LOG and prior.mean < 0:
        return False
    if family is None:
        return True
    if rule.transform is not Transform.NONE:
        return prior == family  # no spread of points is the same everywhere on such a scale
    sign = -1 if policy.order is SortOrder.ASCENDING else 1
    here = sign * prior.mean + rule.threshold * max(prior.spread, policy.spread_floor_within(score))
    return here <= sign * family.mean + rule.threshold * max(family.spread, policy.spread_floor)
