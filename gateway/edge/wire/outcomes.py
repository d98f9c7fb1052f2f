"""What clients are told of what they did: runs, submissions, operations, decisions. OpenAPI is generated from these."""

from __future__ import annotations

from typing import Any, Literal

from gateway.edge.wire.fields import Answer, PlayerId, Secret


class PlayerCreated(Answer):
    """A player and the bearer token that is theirs alone."""

    player: PlayerId
    name: str
    token: Secret


class RunOpened(Answer):
    """A run: its ticket (the `keyid` of its signature), seed (decimal u64) and signing key (base64, 32 bytes)."""

    run: str
    ticket: str
    key: Secret
    seed: str
    board: str
    player: PlayerId
    build: str
    simulator: str
    ticks_per_second: int
    checkpoint_ticks: int
    issued_at: str
    expires_at: str


class ScoreAccepted(Answer):
    """The submission is in the ledger and will reach a verdict."""

    submission: str
    board: str
    player: PlayerId
    score: int
    state: str


class SubmissionStatus(Answer):
    """Where a submission stands. `reason` is a coarse class: `review`, `implausible`, `replay` or `moderation`.

    `divergent_tick` is told for builds whose policy says so alone: the first checkpoint at which a replay differed.
    `verified` is false for what counts without a replay, null for what does not count. `reveal_by` is until when the
    recording is asked for, of which only the digest has come; null while it is not.
    """

    submission: str
    board: str
    player: PlayerId
    score: int
    state: str
    reason: str | None
    rank: int | None
    received_at: str
    divergent_tick: int | None = None
    verified: bool | None = None
    reveal_by: str | None = None


class RevealShown(Answer):
    """A recording that is asked for: the one with this digest, until `reveal_by`."""

    submission: str
    board: str
    recording_digest: str
    recording_bytes: int
    reveal_by: str


class RevealList(Answer):
    """The recordings that a player is asked for, the next deadline first; up to 100 of them."""

    player: PlayerId
    reveals: list[RevealShown]


class RecordingRevealed(Answer):
    """The recording is stored, and its submission will be verified."""

    submission: str
    recording_digest: str
    recording_bytes: int


class FriendShown(Answer):
    """A player whom one follows."""

    player: PlayerId
    name: str


class FriendsShown(Answer):
    """Whom a player follows, in order of their ids."""

    player: PlayerId
    total: int
    friends: list[FriendShown]


class FriendsChanged(Answer):
    """How many players one follows now."""

    player: PlayerId
    total: int


class MembershipShown(Answer):
    """The groups of a board that a player is in: value by segment."""

    board: str
    player: PlayerId
    segments: dict[str, str]


class JoinShown(Answer):
    """Whether a player is on a board that has to be joined."""

    board: str
    player: PlayerId
    joined: bool


class Removed(Answer):
    """What counts no more; empty if nothing did."""

    board: str
    player: PlayerId
    removed: list[str]


class Refusal(Answer):
    """Why an operation was not done: problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str | None


class OperationOutcome(Answer):
    """What became of one operation: `done` with its answer, or `refused` with the problem, and then nothing was stored."""

    status: Literal["done", "refused"]
    is_replay: bool = False
    result: ScoreAccepted | Removed | None = None
    problem: Refusal | None = None


class OperationsDone(Answer):
    """What became of each operation, in their order, and how many were refused."""

    board: str
    refused: int
    results: list[OperationOutcome]


class BatchDone(Answer):
    """What became of each operation, in the order of the batch."""

    board: str
    results: list[ScoreAccepted | Removed]


class ExpectedShown(Answer):
    """The range of values that would not have been found; null where it has no end."""

    at_least: float | None
    at_most: float | None
    unit: str


class FindingShown(Answer):
    """One suspicious fact, as evidence: who found it, what was expected, and what the board makes of it.

    `sample_size` is how many scores it was compared with, `policy` the digest of the policy it was found under. `code`
    says what the reason leaves open: a statistic, a rule, or what a validator of the studio's own found. `others` are
    the ids of other submissions that it is about.
    """

    validator: str
    reason: str
    meaning: str
    severity: str
    value: float
    expected: ExpectedShown
    sample_size: int
    detail: dict[str, float]
    policy: str
    code: str
    others: list[str]


class HeldSubmission(Answer):
    """A submission that waits for a moderator."""

    submission: str
    board: str
    player: PlayerId
    score: int
    ticks: int
    stats: dict[str, int]
    build: str
    state: str
    reason: str
    meaning: str
    findings: list[FindingShown]
    received_at: str
    cursor: int
    etag: str


class HeldPage(Answer):
    """Held submissions, oldest first; ask again with `after` = the last cursor."""

    board: str
    submissions: list[HeldSubmission]


class EventShown(Answer):
    """One event of a submission's history."""

    seq: int
    from_state: str
    to_state: str
    actor: str
    reason: str
    policy: str
    rules_version: int
    detail: dict[str, Any]
    findings: list[FindingShown]
    at: str


class ScoreShown(Answer):
    """A score of the player's that counts, or did."""

    submission: str
    score: int
    achieved_at: str


class CaseFile(Answer):
    """A submission with everything that happened to it, and what surrounds it.

    `elapsed_ms` is the time from the ticket to the submission; `ranks` the rank in each of the board's windows that the
    submission has or would have after an approval, null where another score of the player's stands; `history` the
    player's newest promoted scores on the board. Of a recording whose time is over `recording_expired_at` says since when.
    """

    submission: HeldSubmission
    name: str | None
    elapsed_ms: int
    ranks: dict[str, int | None]
    history: list[ScoreShown]
    has_recording: bool
    recording_expired_at: str | None = None
    events: list[EventShown]


class Decided(Answer):
    """The state after a decision, and the ETag of the case for the next one."""

    submission: str
    state: str
    etag: str


class Liveness(Answer):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Readiness(Answer):
    """Whether requests can be taken, and the truth about each dependency.

    `policies` is false while the policy files were refused, so that older ones are in force. `clock` is false while this
    machine's clock is too far from the one that all parts share, or cannot be compared with it; then it is `degraded`.
    `disk` is false, and it is `degraded`, while only small recordings are taken because room is short.
    `clock_offset_s` is how far ahead it is, and `clock_error_s` how far off the shared time may be. `missing` names what
    the deployment lacks: `steward`, `worker`, `policies` that are the same in all parts, or a store that takes `recordings`. `failing` names the steward's
    duties that fail, as `duty` or `duty:board`. With any of them it is `degraded`.
    """

    status: Literal["ready", "degraded", "unready", "ending"]
    ledger: bool
    index: bool
    policies: bool
    disk: bool
    clock: bool
    clock_offset_s: float = 0.0
    clock_error_s: float = 0.0
    missing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
