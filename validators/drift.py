"""Checks whether a player's bests have climbed far from where they began, in steps too small to notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from policies.judging import PLAYER_RECENT
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.bests import best_among, distances_of, is_better, merits
from validators.scale import Middle, middle_of_values, step_on_scale
from validators.submission import History, MayFind, Submission

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CusumChart(NamedTuple):
    """A CUSUM after a series: its sum, the number of bests, and the middle that it measures from."""

    total: float
    bests: int
    early: Middle


def drift(submission: Submission, policy: Policy, history: History) -> Iterator[Finding]:
    """Find bests that take the one-sided CUSUM of the player's verified bests above `drift.decision`.

    S = max(0, S + z - slack) over the bests, each better than all before it (E. S. Page, "Continuous
    Inspection Schemes", Biometrika 41, 1954). z is measured from the player's first `minimum_history` scores.
    Scores that are not bests do not count, so low ones in between hide nothing. A best adds at most half of
    the decision, since a single leap is for the anomaly check.
    """
    scores, score = history.player.scores, submission.claim.score
    early = min(policy.anomaly.minimum_history, PLAYER_RECENT // 2)
    if len(scores) < early or not is_better(score, best_among(scores, policy), policy):
        return
    chart = chart_of(merits((*scores, score), policy), early, policy)
    if chart.total <= policy.drift.decision:
        return
    expected = Expected(at_most=policy.drift.decision, unit="standard deviations, added up")
    yield Finding(Reason.DRIFT, round(chart.total, 3), expected, len(scores), {"bests": chart.bests})


def chart_of(values: NDArray[np.float64], early: int, policy: Policy) -> CusumChart:
    """Return the chart after a series of merits, measured from its first `early`; the last one is judged.

    If the sum exceeded the decision earlier and that best was promoted all the same, the chart restarts from
    the scores up to there, so that what was already reviewed is not reported forever (D. C. Montgomery,
    "Introduction to Statistical Quality Control", §9.1).
    """
    limit = policy.drift.decision
    chart, best = _begun(values[:early], policy)
    for at in range(early, len(values)):
        if values[at] <= best:
            continue
        best = values[at]
        z = (best - chart.early.centre) / chart.early.spread
        total = max(0.0, chart.total + min(z - policy.drift.slack, limit / 2))
        chart = CusumChart(float(total), chart.bests + 1, chart.early)
        if total > limit and at < len(values) - 1:
            chart, best = _begun(values[at + 1 - early : at + 1], policy)
    return chart


def _begun(values: NDArray[np.float64], policy: Policy) -> tuple[CusumChart, float]:
    """Return a chart before its first best, and the best to beat."""
    centre, spread = middle_of_values(values)
    floor = step_on_scale(policy.spread_floor, abs(centre), distances_of(policy))
    return CusumChart(0.0, 0, Middle(centre, max(spread, floor))), float(values.max())


def may_drift(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `drift` would find nothing."""
    early = min(policy.anomaly.minimum_history, PLAYER_RECENT // 2)
    return lambda _submission, history: len(history.player.scores) >= early
