"""The answers to writes, to moderators and to health checks, from which the OpenAPI document is generated."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gateway.edge.wire.fields import Answer, PlayerId, Secret
from gateway.edge.wire.moderation_decisions import (
    AppealShown,
    CaseClaim,
    PossibleDecision,
    QuestionShown,
)
from gateway.edge.wire.playback_answers import PlaybackShown


class PlayerCreated(Answer):
    """A new player and the player's bearer token, with the recovery code if one was asked for."""

    player: PlayerId
    name: str
    token: Secret
    recovery_code: str | None = Field(default=None, repr=False)


class RunOpened(Answer):
    """A new run: its ticket (the `keyid` to sign with), seed (decimal u64) and key (base64, 32 bytes).

    `parameters` are the board's, as the text of a JSON object whose bytes the simulator gets, and `asset` is
    the digest of its asset, which is read at the path `asset_url`; null if the board has none.
    """

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
    parameters: str | None = None
    asset: str | None = None
    asset_url: str | None = None
    issued_at: str
    expires_at: str


class ScoreAccepted(Answer):
    """A submission that is in the ledger and will reach a verdict."""

    submission: str
    board: str
    player: PlayerId
    score: int
    state: str


class SubmissionStatus(Answer):
    """The state of a submission, with its `reason`: `review`, `implausible`, `replay` or `moderation`.

    `divergent_tick` is the first checkpoint at which a replay differed; only some builds' policies show it.
    `verified` is false for a score that counts without a replay, null for one that does not count.
    `reveal_by` is the deadline to send the recording, null if it is not requested. `message` is what a
    moderator says of the decision, `question` what one asks, and `appeal` what can be done against it.
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
    message: str | None = None
    question: QuestionShown | None = None
    appeal: AppealShown | None = None


class RevealShown(Answer):
    """A requested recording: the one with this digest, to be sent until `reveal_by`."""

    submission: str
    board: str
    recording_digest: str
    recording_bytes: int
    reveal_by: str


class RevealList(Answer):
    """Up to 100 recordings that a player is asked to send, the next deadline first."""

    player: PlayerId
    reveals: list[RevealShown]


class RecordingRevealed(Answer):
    """A stored recording, whose submission will be verified."""

    submission: str
    recording_digest: str
    recording_bytes: int


class FriendShown(Answer):
    """A player whom another one follows."""

    player: PlayerId
    name: str


class FriendsShown(Answer):
    """The players that a player follows, in order of their ids."""

    player: PlayerId
    total: int
    friends: list[FriendShown]


class FriendsChanged(Answer):
    """The number of players that a player follows now."""

    player: PlayerId
    total: int


class MembershipShown(Answer):
    """A player's groups on a board: the value of each segment."""

    board: str
    player: PlayerId
    segments: dict[str, str]


class JoinShown(Answer):
    """A player's membership of a board that has to be joined."""

    board: str
    player: PlayerId
    joined: bool


class Removed(Answer):
    """The ids of the submissions that no longer count; empty if none did."""

    board: str
    player: PlayerId
    removed: list[str]


class Refusal(Answer):
    """The reason why an operation was refused, as problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str | None


class OperationOutcome(Answer):
    """The outcome of an operation: `done` with its result, or `refused` with its problem and not stored."""

    status: Literal["done", "refused"]
    is_replay: bool = False
    result: ScoreAccepted | Removed | None = None
    problem: Refusal | None = None


class OperationsDone(Answer):
    """The outcome of each operation, in their order, and the number of refused ones."""

    board: str
    refused: int
    results: list[OperationOutcome]


class BatchDone(Answer):
    """The result of each operation, in the order of the batch."""

    board: str
    results: list[ScoreAccepted | Removed]


class ExpectedShown(Answer):
    """The range of values that are not suspicious; an end that is null is open."""

    at_least: float | None
    at_most: float | None
    unit: str


class FindingShown(Answer):
    """A suspicious fact, as evidence: its validator, the expected values, and its severity on the board.

    `sample_size` is the number of scores it was compared with, `policy` the digest of the policy in force
    then. `code` makes the reason precise: a statistic, a rule, or a finding of the studio's own validator.
    `others` are the ids of other submissions that the finding is about.
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
    etag: str


class EventShown(Answer):
    """An event in the history of a submission."""

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
    """A score of the player that counts or did count."""

    submission: str
    score: int
    achieved_at: str


class CaseFile(Answer):
    """A submission with its history and its surroundings.

    `elapsed_ms` is the time from the ticket to the submission. `ranks` has for each of the board's windows
    the unique rank that the submission has, or would have after an approval; null if another score of the
    player stands there, or if only the archive has the window. `history` has the player's newest promoted
    scores on the board. `recording_expired_at` is when the retention of the recording ended. `playback` is
    what a player page needs besides the recording. `codes` has the meaning of each reason code of each kind
    of decision, `templates` the messages by name.
    `is_waiting` says that it is in the queue, and `claim` who is in it now. `decisions` are what the reader
    may decide as it is; without any, `refusal` says what refuses them what its state would allow.
    """

    submission: HeldSubmission
    name: str | None
    elapsed_ms: int
    ranks: dict[str, int | None]
    history: list[ScoreShown]
    has_recording: bool
    recording_expired_at: str | None = None
    playback: PlaybackShown
    events: list[EventShown]
    codes: dict[str, dict[str, str]]
    templates: dict[str, str]
    is_waiting: bool
    claim: CaseClaim | None
    decisions: list[PossibleDecision]
    refusal: str | None


class Liveness(Answer):
    """The answer of a process that is alive."""

    status: Literal["alive"] = "alive"


class Readiness(Answer):
    """The readiness of an edge, and the state of each dependency.

    `policies` is false while older policies are in force because the files were refused. `disk` is false
    while only small recordings are taken because space is short. `clock` is false while this machine's clock
    is too far from the clock that all parts share, or cannot be compared with it. `clock_offset_s` is how far
    this clock is ahead, `clock_error_s` how far off the shared time may be. `missing` names what the
    deployment lacks: `steward`, `worker`, equal `policies` in all parts, or a store that takes `recordings`.
    `failing` names the steward's failing duties as `duty` or `duty:board`. The status is `degraded` with a
    false `index`, `disk` or `clock`, or with anything missing or failing.
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
