"""Figures about decisions, computed from labels: how fast they were, and whether moderators agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from gateway.edge.wire.moderation_figures import (
    AnswersToChecks,
    DayOfDecisions,
    DecisionFigures,
    ShareShown,
    TimesShown,
)
from gateway.ledger.moderation.labels import DecisionLabel
from gateway.ledger.moderation.trail import ACTOR
from policies.vocabulary import Reason
from validators.backtest import Proportion
from validators.label_figures import LEAST, LabelledRun

DAYS: Final = 366
"""Most days that are listed, the newest."""

_WAITED: Final = frozenset(
    {Reason.APPROVED, Reason.REJECTED_BY_MODERATOR, Reason.APPEAL_GRANTED, Reason.APPEAL_DENIED}
)
"""Decisions that ended a wait: nobody waits for a revocation."""


def decision_figures(labels: Sequence[DecisionLabel]) -> DecisionFigures:
    """Return the figures of decisions; they come newest first."""
    spans = [label.decided_at_ms - label.opened_at_ms for label in labels if label.reason in _WAITED]
    return DecisionFigures(
        made=dict(sorted(Counter(label.reason.value for label in labels).items())),
        time_to_decision=times_shown(spans),
        agreement=share_shown(_agreement(reversed(labels))),
        overturned=share_shown(Proportion(sum(map(_is_overruled, labels)), len(labels))),
        days=_days(labels),
    )


def answers_to_checks(
    labels: Iterable[DecisionLabel], is_shown: Callable[[DecisionLabel], bool]
) -> list[AnswersToChecks]:
    """Return how often each moderator's answers to checks were what is known, as far as they are shown."""
    told: dict[str, list[bool]] = {}
    for label in labels:
        if label.known_reason is not None and is_shown(label):
            told.setdefault(label.moderator, []).append(label.reason is label.known_reason)
    return [
        AnswersToChecks(moderator=name, agreement=share_shown(Proportion(sum(agreed), len(agreed))))
        for name, agreed in sorted(told.items())
    ]


def labelled_runs(labels: Iterable[DecisionLabel]) -> list[LabelledRun]:
    """Return the runs that standing decisions speak of, each by the newest one that says anything."""
    newest: dict[str, DecisionLabel] = {}
    for label in labels:
        if label.is_cheat is not None and label.overturned_by is None:
            newest.setdefault(label.submission_id, label)
    return [LabelledRun(bool(label.is_cheat), label.findings) for label in newest.values()]


def share_shown(proportion: Proportion) -> ShareShown:
    """Return a share, without a claim below LEAST cases."""
    hits, of = proportion.hits, proportion.of
    if of < LEAST:
        return ShareShown(hits=hits, of=of, share=None, interval=None)
    least, most = proportion.interval
    return ShareShown(hits=hits, of=of, share=round(hits / of, 4), interval=[round(least, 4), round(most, 4)])


def times_shown(spans_ms: Sequence[int]) -> TimesShown:
    """Return median and 90th percentile by nearest rank."""
    ordered = sorted(spans_ms)
    if len(ordered) < LEAST:
        return TimesShown(of=len(ordered), median_s=None, p90_s=None)
    median, p90 = (ordered[math.ceil(len(ordered) * tenths / 10) - 1] / 1000 for tenths in (5, 9))
    return TimesShown(of=len(ordered), median_s=median, p90_s=p90)


def _agreement(labels: Iterable[DecisionLabel]) -> Proportion:
    """Return how often a decision agrees with the last one of somebody else; they come oldest first."""
    last: dict[str, DecisionLabel] = {}
    pairs = agreed = 0
    for label in labels:
        before = last.get(label.submission_id)
        if before is not None and before.moderator != label.moderator:
            pairs += 1
            agreed += before.is_in_favour == label.is_in_favour
        last[label.submission_id] = label
    return Proportion(agreed, pairs)


def _is_overruled(label: DecisionLabel) -> bool:
    return label.overturned_actor not in (None, ACTOR + label.moderator)


def _days(labels: Sequence[DecisionLabel]) -> list[DayOfDecisions]:
    made: Counter[str] = Counter()
    overturned: Counter[str] = Counter()
    for label in labels:
        day = datetime.fromtimestamp(label.decided_at_ms / 1000, UTC).date().isoformat()
        made[day] += 1
        overturned[day] += _is_overruled(label)
    return [
        DayOfDecisions(day=day, decisions=made[day], overturned=overturned[day])
        for day in sorted(made)[-DAYS:]
    ]
