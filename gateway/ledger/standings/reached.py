"""What rows come to that count for one player: their sum, number, best or latest, and when it was reached."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, func, select

from policies.choices import Operator
from policies.fields import SortOrder
from policies.vocabulary import SCORE_LIMIT


class CountingColumns(NamedTuple):
    """The columns of rows that count: score, time (Unix ms), number of the event, and what else is asked."""

    score: ColumnElement[Any]
    at_ms: ColumnElement[Any]
    seq: ColumnElement[Any]
    others: tuple[ColumnElement[Any], ...]


def select_reached(columns: CountingColumns, operator: Operator, order: SortOrder) -> Select[Any]:
    """Return the statement for one row: the score that all rows come to, its time, event, and other columns.

    A sum or count is reached with its last row, and so has that one's time. Of equal best scores the first
    counts. The caller adds which rows there are.
    """
    score, at_ms, seq, others = columns
    scores = {Operator.SUM: func.sum(score).over(), Operator.COUNT: func.count().over()}
    best_first = score.asc() if order is SortOrder.ASCENDING else score.desc()
    ordering = (best_first, at_ms, seq) if operator is Operator.BEST else (at_ms.desc(), seq.desc())
    return select(scores.get(operator, score), at_ms, seq, *others).order_by(*ordering).limit(1)


def within_limits(score: Any) -> int:
    """Return a sum as a score, cut off at ±SCORE_LIMIT. PostgreSQL sums integers to a decimal number."""
    return max(-SCORE_LIMIT, min(SCORE_LIMIT, int(score)))
