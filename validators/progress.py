"""Checks whether a player's best is beaten by more at once than players gain."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.bests import best_of, distances_of, is_better, merits, successive_bests
from validators.scale import on_scale, step_on_scale
from validators.submission import History, MayFind, Submission

LEAST_STEPS = 2
"""How often a player must have improved before the steps are used."""


def progress(submission: Submission, policy: Policy, history: History) -> Iterator[Finding]:
    """Find bests beaten by more than `progress.points`, or `progress.times` the player's largest step.

    Steps lie between successive bests among the newest scores. A step is a difference of points; with
    `anomaly.transform: log` it is one of logarithms, so a ratio. A step counts as at least
    `anomaly.spread_floor`.
    """
    player, score, rule = history.player, submission.claim.score, policy.progress
    best = best_of(player, policy)
    if best is None or not is_better(score, best, policy):
        return
    gain = abs(score - best)
    if rule.points is not None and gain > rule.points:
        expected = Expected(at_most=rule.points, unit="points beyond the player's best")
        yield Finding(Reason.PROGRESS, gain, expected, player.count)
    bests = successive_bests(merits(player.scores, policy))
    steps = bests[1:] - bests[:-1]
    if len(steps) < LEAST_STEPS:
        return
    scale = distances_of(policy)
    reached = on_scale(best, scale)
    floor = step_on_scale(policy.spread_floor, reached, scale)
    largest, taken = max(float(steps.max()), floor), abs(on_scale(score, scale) - reached)
    if taken > rule.times * largest:
        expected = Expected(at_most=rule.times, unit="largest steps of the player's own")
        yield Finding(Reason.PROGRESS, round(taken / largest, 3), expected, player.count, {"gain": gain})


def may_leap(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `progress` would find nothing."""

    def may_find(submission: Submission, history: History) -> bool:
        best = best_of(history.player, policy)
        return best is not None and is_better(submission.claim.score, best, policy)

    return may_find
