"""The gateway's answers about cases. Times are RFC 3339, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .documents import Document


@dataclass(frozen=True, slots=True)
class Expected(Document):
    """The range of values that are not suspicious; an end that is None is open."""

    at_least: float | None
    at_most: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Finding(Document):
    """One suspicious fact from one validator, with the evidence for it."""

    validator: str
    reason: str
    meaning: str
    severity: str
    value: float
    expected: Expected
    sample_size: int
    detail: Mapping[str, float]
    policy: str
    code: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseClaim(Document):
    """The moderator who is in a case, and until when if they do nothing more with it."""

    by: str
    until: str


@dataclass(frozen=True, slots=True)
class HeldSubmission(Document):
    """A submission that waits for a moderator. A decision on it names its `etag`."""

    submission: str
    board: str
    player: str
    score: int
    ticks: int
    stats: Mapping[str, int]
    build: str
    state: str
    reason: str
    meaning: str
    findings: tuple[Finding, ...]
    received_at: str
    etag: str


@dataclass(frozen=True, slots=True)
class QueuedCase(HeldSubmission):
    """A case in the queue: `kind` is `held`, `appeal`, `second-approval` or `check`.

    `harm` is what it could do if it were a lie, None until it is assessed. `waits_until` is set while the
    player is asked something.
    """

    kind: str
    harm: int | None
    opened_at: str
    waiting_s: int
    claim: CaseClaim | None
    cannot_tell: int
    needs_senior: bool
    waits_until: str | None = None


@dataclass(frozen=True, slots=True)
class NextCase(Document):
    """The case that was claimed, None if none waits."""

    case: QueuedCase | None


@dataclass(frozen=True, slots=True)
class CaseHolding(Document):
    """Who is in a case now, and how many could not tell."""

    submission: str
    claim: CaseClaim | None
    cannot_tell: int
    needs_senior: bool


@dataclass(frozen=True, slots=True)
class QueueCounts(Document):
    """How many cases wait, by reason, and by board, where a family counts as one.

    `is_capped` tells that there are more.
    """

    total: int
    reasons: Mapping[str, int]
    boards: Mapping[str, int]
    oldest_at: str | None
    is_capped: bool = False
    ages: tuple[AgeCount, ...] = ()


@dataclass(frozen=True, slots=True)
class AgeCount(Document):
    """How many cases have waited for at least `at_least_s` and less than `under_s`, None for no end."""

    at_least_s: int
    under_s: int | None
    cases: int
    is_capped: bool = False


@dataclass(frozen=True, slots=True)
class SavedView(Document):
    """Filters of the queue under a name."""

    name: str
    filters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SavedViews(Document):
    """The saved views of a moderator."""

    views: tuple[SavedView, ...]


@dataclass(frozen=True, slots=True)
class CaseEvent(Document):
    """An event in the history of a submission."""

    seq: int
    from_state: str
    to_state: str
    actor: str
    reason: str
    detail: Mapping[str, Any]
    at: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class PromotedScore(Document):
    """A score of the player that counts or did count."""

    submission: str
    score: int
    achieved_at: str


@dataclass(frozen=True, slots=True)
class Case(Document):
    """A submission with its history and its surroundings.

    `ranks` has the rank that it has, or would have after an approval, in each window. `codes` has the meaning
    of each reason code of each kind of decision, `templates` the messages by name.
    `decisions` are those that you may make as it is; without any, `refusal` says why.
    """

    submission: HeldSubmission
    name: str | None
    elapsed_ms: int
    ranks: Mapping[str, int | None]
    history: tuple[PromotedScore, ...]
    has_recording: bool
    events: tuple[CaseEvent, ...]
    codes: Mapping[str, Mapping[str, str]]
    templates: Mapping[str, str]
    is_waiting: bool
    claim: CaseClaim | None
    decisions: tuple[PossibleDecision, ...]
    refusal: str | None
    playback: Mapping[str, Any] = field(default_factory=dict)
    recording_expired_at: str | None = None


@dataclass(frozen=True, slots=True)
class PossibleDecision(Document):
    """A decision that you may make now, the codes that it takes, and what it would still need."""

    decision: str
    codes: tuple[str, ...]
    missing: str | None


@dataclass(frozen=True, slots=True)
class Decided(Document):
    """The state after a decision, and the `etag` that the next one names.

    `missing` is None, or what the decision still needs: `second-approval` of another moderator.
    """

    submission: str
    state: str
    etag: str
    missing: str | None = None
    check: AnsweredCheck | None = None


@dataclass(frozen=True, slots=True)
class AnsweredCheck(Document):
    """What a check asked for: the decision that a colleague had made. Then the decision changed nothing.

    `agreed` is None for an answer that was neither to approve nor to reject.
    """

    known: str
    code: str
    by: str
    agreed: bool | None


@dataclass(frozen=True, slots=True)
class SubmissionBeside(Document):
    """Another submission, in brief. `meaning` says in words why it has its state."""

    submission: str
    board: str
    player: str
    score: int
    build: str
    state: str
    reason: str
    meaning: str
    received_at: str


@dataclass(frozen=True, slots=True)
class SharedTrait(Document):
    """What two recordings share: a finding's reason, and its value in `unit`."""

    reason: str
    meaning: str
    value: float
    unit: str
    detail: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SimilarSubmission(SubmissionBeside):
    """A submission that findings of the case name, and what it shares."""

    name: str | None
    has_same_recording: bool
    shares: tuple[SharedTrait, ...]


@dataclass(frozen=True, slots=True)
class EarlierDecision(Document):
    """A decision of a moderator, with what was written down."""

    submission: str
    board: str
    moderator: str
    state: str
    reason: str
    meaning: str
    detail: Mapping[str, Any]
    at: str


@dataclass(frozen=True, slots=True)
class Surroundings(Document):
    """What surrounds a case: what is like it, the player's other submissions, and decisions on all these.

    `distribution` is of the board's entries, `beaten` how many of them the score beats or equals.
    """

    submission: str
    distribution: Mapping[str, Any] | None
    beaten: int | None
    similar: tuple[SimilarSubmission, ...]
    others: tuple[SubmissionBeside, ...]
    decisions: tuple[EarlierDecision, ...]
