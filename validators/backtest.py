"""Backtests a policy: what it would have decided about every submission in a ledger.

The new policy judges each submission by the history of its time, and by the verdict that its replay really
gave. What counts on the board stays what really counted, so a changed decision does not change later history.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from policies.model import Policy
from policies.replaying import BuildStatus
from policies.vocabulary import Finding, Reason, Severity, State, Verdict
from validators.baseline import PromotedScore
from validators.board_history import BoardHistory
from validators.bounds import is_playable
from validators.judge import judge, judge_verdict, weighed
from validators.submission import Submission

DAY_MS = 86_400_000
MODERATOR = "moderator:"

_CHEAT_BY_STATE = {State.PROMOTED: False, State.REJECTED: True, State.REVOKED: True}
"""What a moderator says of a run by the state that it gets; one that is held again is undecided."""


class CaseOutcome(StrEnum):
    """The outcome of a submission before a moderator sees it."""

    REFUSED = "refused"
    REJECTED = "rejected"
    HELD = "held"
    PENDING = "pending"
    PROMOTED = "promoted"
    SUPERSEDED = "superseded"

    @property
    def is_suspicion(self) -> bool:
        """Return whether the outcome keeps a submission off the board for now."""
        return self in {CaseOutcome.REFUSED, CaseOutcome.REJECTED, CaseOutcome.HELD}


class HistoricalEvent(NamedTuple):
    """An event of a submission, with the findings at the edge and those after a replay that preceded it."""

    at_ms: int
    from_state: State
    to_state: State
    actor: str
    reason: str
    submission: Submission
    findings: tuple[Finding, ...]
    findings_after: tuple[Finding, ...]
    verdict: Verdict | None
    scored: PromotedScore
    is_trusted: bool


class CaseDecision(NamedTuple):
    """A decision, its reason, and its findings."""

    outcome: CaseOutcome
    reason: str
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class Case:
    """A submission under both policies. `is_cheat` is the last moderator's decision, None without any."""

    submission_id: str
    player: str
    score: int
    then: CaseDecision
    now: CaseDecision
    is_cheat: bool | None = None
    board: str = ""

    @property
    def is_changed(self) -> bool:
        """Return whether the new policy decides differently."""
        return self.then.outcome is not self.now.outcome


@dataclass(frozen=True, slots=True)
class Proportion:
    """A proportion of cases, with the 95 % interval of E. B. Wilson ("Probable Inference", JASA 22, 1927)."""

    hits: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Return the lower and upper end; 0 and 1 without cases."""
        if not self.of:
            return 0.0, 1.0
        z, share, count = 1.96, self.hits / self.of, self.of
        centre = (share + z * z / (2 * count)) / (1 + z * z / count)
        half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
        return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


class Backtest:
    """Takes a board's events in order, from its first on, and counts the cases from `since_ms` on."""

    def __init__(self, policy: Policy, *, digest: str, since_ms: int = 0) -> None:
        self._policy = policy
        self._digest = digest
        self._since_ms = since_ms
        self._memory = BoardHistory()
        self._open: dict[str, Case] = {}
        self.report = BacktestReport()

    def take(self, event: HistoricalEvent) -> None:
        """Judge, compare, label and learn from one event."""
        if not event.is_trusted:
            self._compare(event)
        counted = (event.to_state is State.PROMOTED) - (event.from_state is State.PROMOTED)
        if counted:
            self._memory.count(event.submission, event.scored, counted)

    def _compare(self, event: HistoricalEvent) -> None:
        submission_id = event.submission.submission_id
        if event.from_state is State.RECEIVED and event.submission.received_at_ms >= self._since_ms:
            case = self._opened(event)
            self._open[submission_id] = case
            self.report.add(case, event.at_ms)
            return
        open_case = self._open.get(submission_id)
        if open_case is None:
            return
        if event.actor.startswith(MODERATOR):
            if event.to_state is not event.from_state:  # a remark decides nothing
                open_case.is_cheat = _CHEAT_BY_STATE.get(event.to_state)
        elif event.from_state is State.PENDING:
            open_case.then = _then(event, open_case.then.findings + event.findings_after)
            open_case.now = self._after_replay(open_case.now, event)

    def _opened(self, event: HistoricalEvent) -> Case:
        run, now = event.submission, self._before_replay(event)
        then = _then(event, event.findings)
        return Case(run.submission_id, run.player, run.claim.score, then, now, board=run.board)

    def _before_replay(self, event: HistoricalEvent) -> CaseDecision:
        submission = event.submission
        if not is_playable(submission.claim, self._policy):
            return CaseDecision(CaseOutcome.REFUSED, "bounds-violation", ())
        history = replace(self._memory.history(submission), refusals=_refusals(event.findings))
        build = self._status_of(submission.build)
        judgement = judge(submission, self._policy, history, digest=self._digest, build=build)
        if judgement.refusal:
            return CaseDecision(CaseOutcome.REFUSED, "bounds-violation", judgement.findings)
        return CaseDecision(CaseOutcome(judgement.state.value), judgement.reason.value, judgement.findings)

    def _after_replay(self, now: CaseDecision, event: HistoricalEvent) -> CaseDecision:
        """Return the new policy's decision after the replay.

        Without a verdict (a draw spared the replay, or the fault was ours) what really happened stands.
        """
        if now.outcome is not CaseOutcome.PENDING:
            return now
        if event.verdict is None:
            return _then(event, now.findings)
        findings = now.findings + tuple(self._weighed_again(event.findings_after))
        build = self._status_of(event.submission.build)
        judgement = judge_verdict(event.verdict, findings, build=build)
        return CaseDecision(CaseOutcome(judgement.state.value), judgement.reason.value, findings)

    def _status_of(self, build: str) -> BuildStatus:
        """Return the policy's status of a build. An unknown build is no reason to hold a run."""
        rule = self._policy.builds.get(build)
        return rule.status if rule else BuildStatus.ALLOW

    def _weighed_again(self, findings: Sequence[Finding]) -> Iterator[Finding]:
        """Yield the replay's findings of then under today's modes; recordings are not examined again."""
        for finding in findings:
            yield from weighed(finding.validator, [finding], self._policy, digest=self._digest)


@dataclass(slots=True)
class BacktestReport:
    """The results of a backtest."""

    cases: list[Case] = field(default_factory=list)
    first_at_ms: int | None = None
    last_at_ms: int = 0

    def add(self, case: Case, at_ms: int) -> None:
        """Count one case."""
        self.cases.append(case)
        self.first_at_ms = at_ms if self.first_at_ms is None else self.first_at_ms
        self.last_at_ms = at_ms

    @property
    def changed(self) -> list[Case]:
        """Return the cases that the new policy decides differently, in order of arrival."""
        return [case for case in self.cases if case.is_changed]

    @property
    def unplayed(self) -> list[Case]:
        """Return the rejected cases that the new policy would have replayed. Their recordings are gone."""
        return [
            case
            for case in self.cases
            if (case.then.outcome, case.now.outcome) == (CaseOutcome.REJECTED, CaseOutcome.PENDING)
        ]

    @property
    def moves(self) -> Mapping[tuple[CaseOutcome, CaseOutcome], int]:
        """Return how many cases moved between each pair of outcomes."""
        return Counter((case.then.outcome, case.now.outcome) for case in self.cases)

    def found(self, *, is_new: bool) -> Mapping[tuple[str, Severity], int]:
        """Return how many findings each validator made, by severity."""
        judged = (case.now if is_new else case.then for case in self.cases)
        return Counter(
            (finding.validator, finding.severity) for decision in judged for finding in decision.findings
        )

    def held(self, *, is_new: bool) -> int:
        """Return how many submissions wait for a moderator."""
        return sum(_judged(case, is_new=is_new).outcome is CaseOutcome.HELD for case in self.cases)

    def precision(self, *, is_new: bool) -> Proportion:
        """Return the proportion of cheats among suspected cases that a moderator decided on."""
        suspected = [case for case in self._labelled() if _judged(case, is_new=is_new).outcome.is_suspicion]
        return Proportion(sum(bool(case.is_cheat) for case in suspected), len(suspected))

    def recall(self, *, is_new: bool) -> Proportion:
        """Return the proportion of suspected cases among those that moderators called cheats."""
        cheats = [case for case in self._labelled() if case.is_cheat]
        suspected = sum(_judged(case, is_new=is_new).outcome.is_suspicion for case in cheats)
        return Proportion(suspected, len(cheats))

    def _labelled(self) -> list[Case]:
        return [case for case in self.cases if case.is_cheat is not None]


def _refusals(findings: Sequence[Finding]) -> int:
    """Return how many of the player's claims had been refused, from the finding, since only Redis knew."""
    counts = (finding.value for finding in findings if finding.reason is Reason.LIMITS_PROBED)
    return int(max(counts, default=0))


def _judged(case: Case, *, is_new: bool) -> CaseDecision:
    return case.now if is_new else case.then


def _then(event: HistoricalEvent, findings: tuple[Finding, ...]) -> CaseDecision:
    return CaseDecision(CaseOutcome(event.to_state.value), event.reason, findings)
