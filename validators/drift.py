"""Whether a player's bests have climbed too far from where they began, each step too small to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from policies.judging import PLAYER_RECENT
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.bests import best_among, distances_of, is_better, merits
from validators.scale import Middle, middle_of_values, step_on_scale
from validators.submission import History, Submission


class CusumChart(NamedTuple):
    """A CUSUM as it stands after a series: its sum, how many bests are in it, and what it measures them by."""

    total: float
    bests: int
    early: Middle


def drift(submission: Submission, policy: Policy, history: History) -> Iterator[Finding]:
    """A finding if this best takes the one-sided CUSUM of the player's verified bests above `drift.decision`.

    S = max(0, S + z - slack) over the bests, each better than all before it (E. S. Page, "Continuous Inspection
    Schemes", Biometrika 41, 1954); z is measured from the player's early scores, `minimum_history` of them. Runs that are
    no best do not count, so low ones in between hide nothing; and no best adds more than half of the decision, since one
    leap is the anomaly's matter.
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
    """The chart after a series of merits, the last of which is judged; the first `early` of it are what it is measured by.

    Where it went above the decision before the last and that was promoted all the same, it begins again from the scores
    up to there: what was looked into is not reported for ever (D. C. Montgomery, "Introduction to Statistical Quality
    Control", §9.1).
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
    """A chart before its first best, and the best to be beaten."""
    centre, spread = middle_of_values(values)
    floor = step_on_scale(policy.spread_floor, abs(centre), distances_of(policy))
    return CusumChart(0.0, 0, Middle(centre, max(spread, floor))), float(values.max())
