"""Detects scores far above the player's own, or new to the player and far above those of others."""

from __future__ import annotations

from collections.abc import Iterator

from policies.fields import SortOrder
from policies.judging import Transform, normal_score
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.baseline import Baseline
from validators.bests import best_of, distances_of, is_better
from validators.scale import Middle, middle_of, middle_of_moments
from validators.submission import History, MayFind, Submission


def anomaly(submission: Submission, policy: Policy, history: History) -> Iterator[Finding]:
    """Find scores more than `threshold` deviations better than their reference, and newcomers' records.

    From `minimum_history` on, the reference is the player's own promoted scores. For players with fewer, and
    for a new best, it is the scores of the build, or of the board while the build is new. Below
    `minimum_population` newcomers are measured against the prior. The candidate is never part of its
    reference: inside it, |z| could not exceed (n - 1) / sqrt(n) (R. E. Shiffler, "Maximum Z Scores and
    Outliers", The American Statistician 42(1), 1988).
    """
    rule, score = policy.anomaly, submission.claim.score
    is_newcomer = history.player.count < rule.minimum_history
    if not is_newcomer:
        yield from _against(history.player, Reason.ANOMALY_PLAYER, score, policy)
        if not is_better(score, best_of(history.player, policy), policy):
            return
    population = _population(policy, history)
    if population:
        yield from _against(population, Reason.ANOMALY_POPULATION, score, policy)
    elif is_newcomer and rule.prior:
        prior = middle_of_moments(rule.prior.mean, rule.prior.spread, distances_of(policy))
        yield from _beyond(prior, 0, Reason.ANOMALY_POPULATION, score, policy)
    if is_newcomer:
        yield from _record(score, policy, history.population)


def _population(policy: Policy, history: History) -> Baseline | None:
    minimum, candidates = policy.anomaly.minimum_population, (history.build, history.population)
    return next((baseline for baseline in candidates if baseline.count >= minimum), None)


def _against(baseline: Baseline, reason: Reason, score: int, policy: Policy) -> Iterator[Finding]:
    if policy.anomaly.transform is Transform.RANK and baseline.scores:
        yield from _ahead(baseline, reason, score, policy)
    else:
        yield from _beyond(middle_of(baseline, distances_of(policy)), baseline.count, reason, score, policy)


def _beyond(middle: Middle, count: int, reason: Reason, score: int, policy: Policy) -> Iterator[Finding]:
    """Find a score too many spreads better than the middle."""
    rule, scale = policy.anomaly, distances_of(policy)
    sign = -1 if policy.order is SortOrder.ASCENDING else 1
    floored = middle.floored(policy.spread_floor, scale)
    gain = sign * floored.deviation(score, scale)
    if gain <= rule.threshold:
        return
    ends = {"centre": 0.0, "limit": sign * rule.threshold}
    detail = {name: round(floored.points_at(end, scale), 1) for name, end in ends.items()}
    expected = Expected(at_most=rule.threshold, unit="standard deviations")
    yield Finding(reason, round(gain, 3), expected, count, detail)


def _ahead(baseline: Baseline, reason: Reason, score: int, policy: Policy) -> Iterator[Finding]:
    """Find a score by its place among the newest, as deviations of a normal distribution."""
    count = len(baseline.scores)
    better = sum(is_better(other, score, policy) for other in baseline.scores)
    ahead_of = count - better - baseline.scores.count(score) / 2
    gain = normal_score(ahead_of + 1, count + 1)
    if gain <= policy.anomaly.threshold:
        return
    expected = Expected(at_most=policy.anomaly.threshold, unit="standard deviations by rank")
    yield Finding(reason, round(gain, 3), expected, count, {"better": better})


def _record(score: int, policy: Policy, population: Baseline) -> Iterator[Finding]:
    """Find a newcomer's score that beats every promoted one, once the board has a population."""
    record = best_of(population, policy)
    if population.count < policy.anomaly.minimum_population or record is None:
        return
    if is_better(score, record, policy):
        ends = {"at_least": record} if policy.order is SortOrder.ASCENDING else {"at_most": record}
        yield Finding(Reason.ANOMALY_RECORD, score, Expected(**ends, unit="points"), population.count)


def may_be_anomalous(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `anomaly` would find nothing.

    It does so for newcomers of a board without a population. All others have baselines to compare with.
    """
    rule, scale = policy.anomaly, distances_of(policy)
    sign = -1 if policy.order is SortOrder.ASCENDING else 1
    middle = None
    if rule.prior:
        prior = middle_of_moments(rule.prior.mean, rule.prior.spread, scale)
        middle = prior.floored(policy.spread_floor, scale)
    threshold, history_needed, population_needed = (
        rule.threshold,
        rule.minimum_history,
        rule.minimum_population,
    )

    def may_find(submission: Submission, history: History) -> bool:
        if history.player.count >= history_needed:
            return True
        if history.build.count >= population_needed or history.population.count >= population_needed:
            return True
        return middle is not None and sign * middle.deviation(submission.claim.score, scale) > threshold

    return may_find
