"""Whether a score is far outside what is known of the player, or of a newcomer's peers."""

from __future__ import annotations

from policies.fields import Order
from policies.judging import Anomaly
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, Submission


def anomaly(submission: Submission, policy: Policy, history: History) -> tuple[Finding, ...]:
    """A finding if the score is more than `threshold` standard deviations better than its reference.

    The reference is the player's promoted history, the population below `minimum_history` runs, and the policy's
    prior below `minimum_population`. The candidate is never part of its own reference: inside it, |z| could not pass
    (n - 1) / sqrt(n) (R. E. Shiffler, "Maximum Z Scores and Outliers", The American Statistician 42(1), 1988).
    """
    reason, mean, spread, sample = _reference(policy.anomaly, history)
    z = (submission.claim.score - mean) / max(spread, policy.anomaly.spread_floor)
    gain = -z if policy.order is Order.ASCENDING else z
    if gain <= policy.anomaly.threshold:
        return ()
    expected = Expected(at_most=policy.anomaly.threshold, unit="standard deviations")
    detail = {"mean": round(mean, 1), "spread": round(spread, 1)}
    return (Finding(reason, round(gain, 3), expected, sample, detail),)


def _reference(rule: Anomaly, history: History) -> tuple[Reason, float, float, int]:
    player, population = history.player, history.population
    if player.count >= rule.minimum_history:
        return Reason.ANOMALY_PLAYER, player.mean, player.spread, player.count
    if population.count >= rule.minimum_population:
        return Reason.ANOMALY_POPULATION, population.mean, population.spread, population.count
    return Reason.ANOMALY_POPULATION, rule.prior.mean, rule.prior.spread, 0
