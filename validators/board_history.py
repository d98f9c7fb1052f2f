"""The history of a board, kept in memory: what ledger and index keep of it, for whoever goes through the log."""

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
    """What is known of players and populations, from promoted submissions alone."""

    def __init__(self) -> None:
        self._subjects: dict[str, _Subject] = {}

    def history(self, submission: Submission) -> History:
        """What a validator may know of the submission's player, and of all."""
        subjects = (submission.player, POPULATION, population_of(submission.build))
        player, population, build = map(self._baseline, subjects)
        return History(player, population, build)

    def count(self, submission: Submission, scored: PromotedScore, difference: int) -> None:
        """Learns a submission that counts from now on (1), or forgets one that does no more (-1)."""
        for name in subjects_of(submission.player, submission.build):
            subject = self._subjects.setdefault(name, _Subject(recent_of(name)))
            subject.learn(scored) if difference > 0 else subject.forget(scored)

    def _baseline(self, subject: str) -> Baseline:
        known = self._subjects.get(subject)
        return known.baseline if known else EMPTY


class _Subject:
    """A player, a build or the whole board: all that counts of it, and what that teaches."""

    def __init__(self, size: int) -> None:
        self._counting: list[PromotedScore] = []
        self._learnt = RunningBaseline(size)
        self.baseline = EMPTY

    def learn(self, scored: PromotedScore) -> None:
        insort(self._counting, scored)
        self._keep(self._learnt.plus(scored))

    def forget(self, scored: PromotedScore) -> None:
        del self._counting[bisect_left(self._counting, scored)]
        learnt = self._learnt.minus(scored)
        if learnt.has_gap:
            scores = [each.score for each in self._counting]
            ends = ScoreExtremes(min(scores), max(scores)) if scores else ScoreExtremes()
            learnt = learnt.filled(self._counting[-learnt.size :], ends)
        self._keep(learnt)

    def _keep(self, learnt: RunningBaseline) -> None:
        self._learnt = learnt
        self.baseline = learnt.baseline
