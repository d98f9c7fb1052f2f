"""Whether a score is far outside what is known of the player, or new to the player and far outside of what others reach."""

from __future__ import annotations

from collections.abc import Iterator

from policies.fields import SortOrder
from policies.judging import Transform, normal_score
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.baseline import Baseline
from validators.bests import best_of, distances_of, is_better
from validators.scale import Middle, middle_of, middle_of_moments
from validators.submission import History, Submission


def anomaly(submission: Submission, policy: Policy, history: History) -> Iterator[Finding]:
    """Findings of a score more than `threshold` deviations better than its reference, and of a newcomer's record.

    The player's own promoted scores are the reference from `minimum_history` on. Those of the build, or of the board
    while the build is new, are it for who has fewer, and for whatever is better than all that the player was promoted
    with: a score that was let in once is the player's. Below `minimum_population` the prior speaks, to newcomers alone.
    The candidate is never part of its own reference: inside it, |z| could not pass (n - 1) / sqrt(n) (R. E. Shiffler,
    "Maximum Z Scores and Outliers", The American Statistician 42(1), 1988).
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
    enough = policy.anomaly.minimum_population
    return next((each for each in (history.build, history.population) if each.count >= enough), None)


def _against(known: Baseline, reason: Reason, score: int, policy: Policy) -> Iterator[Finding]:
    if policy.anomaly.transform is Transform.RANK and known.scores:
        yield from _ahead(known, reason, score, policy)
    else:
        yield from _beyond(middle_of(known, distances_of(policy)), known.count, reason, score, policy)


def _beyond(middle: Middle, count: int, reason: Reason, score: int, policy: Policy) -> Iterator[Finding]:
    """By how many spreads a score is better than the middle."""
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


def _ahead(known: Baseline, reason: Reason, score: int, policy: Policy) -> Iterator[Finding]:
    """Which place a score would take among the newest, as deviations of a normal distribution."""
    count = len(known.scores)
    better = sum(is_better(each, score, policy) for each in known.scores)
    ahead_of = count - better - known.scores.count(score) / 2
    gain = normal_score(ahead_of + 1, count + 1)
    if gain <= policy.anomaly.threshold:
        return
    expected = Expected(at_most=policy.anomaly.threshold, unit="standard deviations by rank")
    yield Finding(reason, round(gain, 3), expected, count, {"better": better})


def _record(score: int, policy: Policy, population: Baseline) -> Iterator[Finding]:
    """A newcomer who is better than all that was ever promoted, where that is something."""
    record = best_of(population, policy)
    if population.count < policy.anomaly.minimum_population or record is None:
        return
    if is_better(score, record, policy):
        ends = {"at_least": record} if policy.order is SortOrder.ASCENDING else {"at_most": record}
        yield Finding(Reason.ANOMALY_RECORD, score, Expected(**ends, unit="points"), population.count)
