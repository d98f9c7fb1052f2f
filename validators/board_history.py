"""A board's history in memory, for readers of the log: what ledger and index keep of it."""

from __future__ import annotations

from bisect import bisect_left, insort

from validators.baseline import (
    EMPTY,
    POPULATION,
    Baseline,
    PromotedScore,
    RunningBaseline,
    ScoreExtremes,
    population_of,
    recent_of,
    subjects_of,
)
from validators.submission import History, Submission


class BoardHistory:
    """The known scores of players and populations, from promoted submissions alone."""

    def __init__(self) -> None:
        self._subjects: dict[str, _Subject] = {}

    def history(self, submission: Submission) -> History:
        """Return what a validator may know of the submission's player, and of all."""
        subjects = (submission.player, POPULATION, population_of(submission.build))
        player, population, build = map(self._baseline, subjects)
        return History(player, population, build)

    def count(self, submission: Submission, scored: PromotedScore, difference: int) -> None:
        """Learn a submission that now counts (1), or forget one that no longer does (-1)."""
        for name in subjects_of(submission.player, submission.build):
            subject = self._subjects.setdefault(name, _Subject(recent_of(name)))
            subject.learn(scored) if difference > 0 else subject.forget(scored)

    def _baseline(self, subject: str) -> Baseline:
        content = self._subjects.get(subject)
        return content.baseline if content else EMPTY


class _Subject:
    """The counting scores of a player, a build or the whole board, and their baseline."""

    def __init__(self, size: int) -> None:
        self._counting: list[PromotedScore] = []
        self._learnt = RunningBaseline(size)
        self.baseline = EMPTY

    def learn(self, scored: PromotedScore) -> None:
        insort(self._counting, scored)
        self._keep(self._learnt.plus(scored))

    def forget(self, scored: PromotedScore) -> None:
        del self._counting[bisect_left(self._counting, scored)]
        running = self._learnt.minus(scored)
        if running.has_gap:
            scores = [counting.score for counting in self._counting]
            ends = ScoreExtremes(min(scores), max(scores)) if scores else ScoreExtremes()
            running = running.filled(self._counting[-running.size :], ends)
        self._keep(running)

    def _keep(self, running: RunningBaseline) -> None:
        self._learnt = running
        self.baseline = running.baseline
