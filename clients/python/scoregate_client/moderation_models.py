"""The gateway's answers to moderators. Times are RFC 3339, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .documents import Document


@dataclass(frozen=True, slots=True)
class WhoAmI(Document):
    """Whom the token acts for, with what role on which scope, until when."""

    moderator: str
    grants: Mapping[str, str]
    players: tuple[str, ...]
    expires_at: str


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
    playback: Mapping[str, Any] = field(default_factory=dict)
    recording_expired_at: str | None = None


@dataclass(frozen=True, slots=True)
class Decided(Document):
    """The state after a decision, and the `etag` that the next one names.

    `missing` is None, or what the decision still needs: `second-approval` of another moderator.
    """

    submission: str
    state: str
    etag: str
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Ban(Document):
    """A ban on a board, on a family, or, if both are None, everywhere.

    `followed` is how many submissions were taken off, or came back after `lifted_at`; `is_settled` is false
    while the gateway goes on with others.
    """

    ban: str
    player: str
    board: str | None
    family: str | None
    code: str
    note: str
    message: str
    by: str
    began_at: str
    until: str | None
    lifted_by: str | None
    lifted_at: str | None
    followed: int
    is_settled: bool


@dataclass(frozen=True, slots=True)
class Profile(Document):
    """A player, as far as the moderator's boards reach.

    `states`, `builds` and `boards` count the submissions among the newest 1,000; `is_whole` tells that there
    are no others.
    """

    player: str
    name: str | None
    created_at: str | None
    states: Mapping[str, int]
    builds: Mapping[str, int]
    boards: Mapping[str, int]
    is_whole: bool
    bans: tuple[Ban, ...]


@dataclass(frozen=True, slots=True)
class NamedPlayer(Document):
    """A player who was found by name."""

    player: str
    name: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Rename(Document):
    """A name that a moderator gave to a player, and who took it back when, if anybody did."""

    player: str
    was: str
    name: str
    code: str
    note: str
    by: str
    at: str
    undone_by: str | None
    undone_at: str | None


@dataclass(frozen=True, slots=True)
class PlayedSubmission(Document):
    """A submission of a player, in brief. `meaning` says in words why it has its state."""

    submission: str
    board: str
    score: int
    build: str
    state: str
    reason: str
    meaning: str
    received_at: str


@dataclass(frozen=True, slots=True)
class BatchOnBoard(Document):
    """How many submissions of a batch are on a board."""

    board: str
    items: int


@dataclass(frozen=True, slots=True)
class PodiumChange(Document):
    """A window of a board whose first three a batch would change."""

    board: str
    window: str


@dataclass(frozen=True, slots=True)
class Batch(Document):
    """A decision on many submissions, with what its preview says.

    `items` counts what was selected, `outcomes` what became of how many. `in_cases` counts the cases that a
    colleague is in, `left_out` what is left as it is, by reason. `detail` says what is wrong, or is None.
    """

    batch: str
    state: str
    by: str
    action: str
    code: str
    scopes: tuple[str, ...]
    selection: Mapping[str, Any]
    items: int
    boards: tuple[BatchOnBoard, ...]
    board_count: int
    podiums: tuple[PodiumChange, ...]
    podium_count: int
    in_cases: int
    left_out: Mapping[str, int]
    outcomes: Mapping[str, int]
    detail: str | None
    created_at: str
    expires_at: str | None
    etag: str
    note: str = ""
    message: str | None = None
    applied_by: str | None = None
    reversed_by: str | None = None


@dataclass(frozen=True, slots=True)
class BatchItem(Document):
    """A submission of a batch: its newest event at the preview, and what the batch did, by which event."""

    submission: str
    board: str
    player: str
    newest_event: int
    outcome: str
    why: str | None
    event: int | None


@dataclass(frozen=True, slots=True)
class TrailEvent(Document):
    """Something a moderator did: the event `seq` of the sealed log."""

    seq: int
    at: str
    moderator: str
    reason: str
    meaning: str
    from_state: str
    to_state: str
    board: str | None
    player: str | None
    submission: str | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrailFile:
    """Rows of the audit trail as CSV, and the cursor of the next file, None after the last."""

    content: bytes
    next: str | None
