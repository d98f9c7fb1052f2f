"""Sums up backtests: counts over any number of boards, and the first of the decisions that change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from policies.vocabulary import Severity
from validators.backtest import DAY_MS, BacktestReport, Case, CaseOutcome, Proportion

CHANGES_KEPT: Final = 10_000
"""Changed decisions that are kept one by one; further ones are only counted."""

_NONE: Final = Proportion(0, 0)


@dataclass(slots=True)
class BacktestSide:
    """What a policy, that of then or the new one, comes to: findings, held submissions, how right it is."""

    found: Counter[tuple[str, Severity]] = field(default_factory=Counter)
    held: int = 0
    precision: Proportion = _NONE
    recall: Proportion = _NONE

    def take(self, report: BacktestReport, *, is_new: bool) -> None:
        """Count a board's report."""
        self.found.update(report.found(is_new=is_new))
        self.held += report.held(is_new=is_new)
        self.precision = _sum(self.precision, report.precision(is_new=is_new))
        self.recall = _sum(self.recall, report.recall(is_new=is_new))


@dataclass(slots=True)
class BacktestSummary:
    """The results of backtests of boards under one policy."""

    boards: int = 0
    submissions: int = 0
    unplayed: int = 0
    changes: int = 0
    changed: list[Case] = field(default_factory=list)
    moves: Counter[tuple[CaseOutcome, CaseOutcome]] = field(default_factory=Counter)
    then: BacktestSide = field(default_factory=BacktestSide)
    new: BacktestSide = field(default_factory=BacktestSide)
    first_at_ms: int | None = None
    last_at_ms: int = 0

    def take(self, report: BacktestReport) -> None:
        """Count the finished report of one more board."""
        changed = report.changed
        self.boards += 1
        self.submissions += len(report.cases)
        self.unplayed += len(report.unplayed)
        self.changes += len(changed)
        self.changed += changed[: CHANGES_KEPT - len(self.changed)]
        self.moves.update(report.moves)
        self.then.take(report, is_new=False)
        self.new.take(report, is_new=True)
        begins = [at_ms for at_ms in (self.first_at_ms, report.first_at_ms) if at_ms is not None]
        self.first_at_ms = min(begins, default=None)
        self.last_at_ms = max(self.last_at_ms, report.last_at_ms)

    @property
    def days(self) -> float:
        """Return how many days the cases cover, at least one."""
        return max(1.0, (self.last_at_ms - (self.first_at_ms or 0)) / DAY_MS)


def _sum(one: Proportion, other: Proportion) -> Proportion:
    return Proportion(one.hits + other.hits, one.of + other.of)
