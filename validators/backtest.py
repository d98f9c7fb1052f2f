"""A policy held against history: what it would have decided of everything that a ledger has seen.

The new policy judges each submission by the history that there was at its time, and by the verdict that its replay
really gave. What counts on the board stays what really counted: a decision that would have been another one changes
no later history.
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


class CaseOutcome(StrEnum):
    """What becomes of a submission before a moderator sees it."""

    REFUSED = "refused"
    REJECTED = "rejected"
    HELD = "held"
    PENDING = "pending"
    PROMOTED = "promoted"
    SUPERSEDED = "superseded"

    @property
    def is_suspicion(self) -> bool:
        """True for what keeps a submission off the board for now."""
        return self in {CaseOutcome.REFUSED, CaseOutcome.REJECTED, CaseOutcome.HELD}


class HistoricalEvent(NamedTuple):
    """One event of a submission: what it was judged by at the edge, and after the replay if this event followed one."""

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
    """A decision, with the reason for it."""

    outcome: CaseOutcome
    reason: str
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class Case:
    """A submission under both policies. `is_cheat` is what a moderator said last, None if none did."""

    submission_id: str
    player: str
    score: int
    then: CaseDecision
    now: CaseDecision
    is_cheat: bool | None = None

    @property
    def is_changed(self) -> bool:
        """True if the new policy decides otherwise."""
        return self.then.outcome is not self.now.outcome


@dataclass(frozen=True, slots=True)
class Proportion:
    """A share of cases, with the 95 % interval of E. B. Wilson ("Probable Inference", JASA 22, 1927)."""

    hits: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Its lower and upper end; from 0 to 1 where there are no cases."""
        if not self.of:
            return 0.0, 1.0
        z, share, count = 1.96, self.hits / self.of, self.of
        centre = (share + z * z / (2 * count)) / (1 + z * z / count)
        half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
        return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


class Backtest:
    """Takes the events of a board from its first on, in order, and counts cases from `since_ms` on."""

    def __init__(self, policy: Policy, *, digest: str, since_ms: int = 0) -> None:
        self._policy = policy
        self._digest = digest
        self._since_ms = since_ms
        self._memory = BoardHistory()
        self._open: dict[str, Case] = {}
        self.report = BacktestReport()

    def take(self, event: HistoricalEvent) -> None:
        """Judges, compares, labels and learns, as the event asks for."""
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
        known = self._open.get(submission_id)
        if known is None:
            return
        if event.actor.startswith(MODERATOR):
            known.is_cheat = event.to_state in {State.REJECTED, State.REVOKED}
        elif event.from_state is State.PENDING:
            known.then = _then(event, known.then.findings + event.findings_after)
            known.now = self._after_replay(known.now, event)

    def _opened(self, event: HistoricalEvent) -> Case:
        run, now = event.submission, self._before_replay(event)
        return Case(run.submission_id, run.player, run.claim.score, _then(event, event.findings), now)

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
        """What follows the verdict. Without one (a draw spared the replay, a fault of ours) what happened stands."""
        if now.outcome is not CaseOutcome.PENDING:
            return now
        if event.verdict is None:
            return _then(event, now.findings)
        findings = now.findings + tuple(self._weighed_again(event.findings_after))
        build = self._status_of(event.submission.build)
        judgement = judge_verdict(event.verdict, findings, build=build)
        return CaseDecision(CaseOutcome(judgement.state.value), judgement.reason.value, findings)

    def _status_of(self, build: str) -> BuildStatus:
        """What the policy says of a build; one that it does not know any more is no reason to hold a run."""
        known = self._policy.builds.get(build)
        return known.status if known else BuildStatus.ALLOW

    def _weighed_again(self, findings: Sequence[Finding]) -> Iterator[Finding]:
        """What the replay found then, under the modes of now: recordings are not looked at again."""
        for each in findings:
            if each.validator in type(self._policy.validators).model_fields:
                yield from weighed(each.validator, [each], self._policy, digest=self._digest)


@dataclass(slots=True)
class BacktestReport:
    """What a backtest found."""

    cases: list[Case] = field(default_factory=list)
    first_at_ms: int | None = None
    last_at_ms: int = 0

    def add(self, case: Case, at_ms: int) -> None:
        """Counts one case in."""
        self.cases.append(case)
        self.first_at_ms = at_ms if self.first_at_ms is None else self.first_at_ms
        self.last_at_ms = at_ms

    @property
    def days(self) -> float:
        """How many days the cases cover, at least one."""
        return max(1.0, (self.last_at_ms - (self.first_at_ms or 0)) / DAY_MS)

    @property
    def changed(self) -> list[Case]:
        """The cases that the new policy decides otherwise, in the order they came."""
        return [case for case in self.cases if case.is_changed]

    @property
    def unplayed(self) -> list[Case]:
        """Those rejected at once that the new policy would have replayed: nothing was kept of their recordings."""
        return [
            case
            for case in self.cases
            if (case.then.outcome, case.now.outcome) == (CaseOutcome.REJECTED, CaseOutcome.PENDING)
        ]

    @property
    def moves(self) -> Mapping[tuple[CaseOutcome, CaseOutcome], int]:
        """How many cases went from which outcome to which."""
        return Counter((case.then.outcome, case.now.outcome) for case in self.cases)

    def found(self, *, is_new: bool) -> Mapping[tuple[str, Severity], int]:
        """How many findings each validator has, by severity."""
        judged = (case.now if is_new else case.then for case in self.cases)
        return Counter((each.validator, each.severity) for one in judged for each in one.findings)

    def held_per_day(self, *, is_new: bool) -> float:
        """How many submissions a day wait for a moderator."""
        held = sum((case.now if is_new else case.then).outcome is CaseOutcome.HELD for case in self.cases)
        return held / self.days

    def precision(self, *, is_new: bool) -> Proportion:
        """Of what is suspected and a moderator decided on: which share is a cheat."""
        suspected = [case for case in self._labelled() if _judged(case, is_new=is_new).outcome.is_suspicion]
        return Proportion(sum(bool(case.is_cheat) for case in suspected), len(suspected))

    def recall(self, *, is_new: bool) -> Proportion:
        """Of what moderators called a cheat: which share is suspected."""
        cheats = [case for case in self._labelled() if case.is_cheat]
        suspected = sum(_judged(case, is_new=is_new).outcome.is_suspicion for case in cheats)
        return Proportion(suspected, len(cheats))

    def _labelled(self) -> list[Case]:
        return [case for case in self.cases if case.is_cheat is not None]


def _refusals(findings: Sequence[Finding]) -> int:
    """How many claims of the player had been refused, which Redis alone knew then: as the finding of it says."""
    found = (each.value for each in findings if each.reason is Reason.LIMITS_PROBED)
    return int(max(found, default=0))


def _judged(case: Case, *, is_new: bool) -> CaseDecision:
    return case.now if is_new else case.then


def _then(event: HistoricalEvent, findings: tuple[Finding, ...]) -> CaseDecision:
    return CaseDecision(CaseOutcome(event.to_state.value), event.reason, findings)
