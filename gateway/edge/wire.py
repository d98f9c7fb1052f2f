"""The bodies of the interface: what comes in, strictly, and what goes out. OpenAPI is generated from these."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from policies.vocabulary import SCORE_LIMIT

BATCH_LIMIT = 500
"""Most operations in a batch."""

ExactScore = Annotated[int, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT)]
Count = Annotated[int, Field(ge=0, le=SCORE_LIMIT)]
PlayerId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
SubmissionId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,64}$")]
Version = Annotated[int, Field(ge=1, le=SCORE_LIMIT)]
OperationId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Secret = Annotated[str, Field(repr=False)]
"""Never part of a repr, so that no log can hold it."""
StatName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


class Body(BaseModel):
    """Something a client sends: closed, and no value is read as another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Answer(BaseModel):
    """Something a client is told."""

    model_config = ConfigDict(frozen=True)


class NewPlayer(Body):
    """An anonymous player's wish: the name to be shown, if any."""

    name: Annotated[str, Field(min_length=1, max_length=24)] | None = None


class PlayerCreated(Answer):
    """A player and the bearer token that is theirs alone."""

    player: PlayerId
    name: str
    token: Secret


class NewRun(Body):
    """Which build of the game is about to play."""

    build: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]


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


class NewScore(Body):
    """The claim for a run, with the recording of its inputs (base64 of the recording container)."""

    score: ExactScore
    ticks: Count
    stats: Annotated[dict[StatName, ExactScore], Field(max_length=16)] = {}
    recording: Annotated[str, Field(max_length=1_400_000)] | None = None


class ScoreAccepted(Answer):
    """The submission is in the ledger and will reach a verdict."""

    submission: str
    board: str
    player: PlayerId
    score: int
    state: str


class SubmissionStatus(Answer):
    """Where a submission stands. `reason` is a coarse class: `review`, `implausible`, `replay` or `moderation`."""

    submission: str
    board: str
    player: PlayerId
    score: int
    state: str
    reason: str | None
    rank: int | None
    received_at: str


class BoardInfo(Answer):
    """A board as a reader needs to know it."""

    board: str
    title: str
    order: str
    operator: str
    windows: list[str]
    writes: str
    builds: list[str]
    ticks_per_second: int


class BoardList(Answer):
    """Every board of this deployment."""

    boards: list[BoardInfo]


class EntryShown(Answer):
    """A standing with its rank; rank 1 is first, equal scores are ordered by who was first."""

    rank: int
    player: PlayerId
    name: str
    score: int
    achieved_at: str
    submission: str


class EntryPage(Answer):
    """Entries of one window by rank, and how many there are in all."""

    board: str
    window: str
    total: int
    entries: list[EntryShown]


class NewEntry(Body):
    """A trusted server's write. Sending the same operation id again is safe.

    With `replaces` it is a correction: that submission of the player counts no more, and this score does. With
    `version` it is refused once the player was removed at that version or a later one.
    """

    operation: OperationId
    player: PlayerId
    score: ExactScore
    version: Version | None = None
    replaces: SubmissionId | None = None


class NewRemoval(Body):
    """A trusted server takes back one submission of a player, or all that counts for the player on the board.

    With `version`, what was written under a later version stays, and an earlier one that is still under way is refused.
    """

    operation: OperationId
    player: PlayerId
    submission: SubmissionId | None = None
    version: Version | None = None
    reason: Annotated[str, Field(min_length=1, max_length=500)] | None = None

    @model_validator(mode="after")
    def _one_extent(self) -> Self:
        if self.submission is not None and self.version is not None:
            raise ValueError("a version is for all of a player's submissions, not for a single one")
        return self


class Removed(Answer):
    """What counts no more; empty if nothing did."""

    board: str
    player: PlayerId
    removed: list[str]


class BatchedEntry(NewEntry):
    """A write or a correction in a batch."""

    action: Literal["write"]


class BatchedRemoval(NewRemoval):
    """A removal in a batch."""

    action: Literal["remove"]


BatchedOperation = Annotated[BatchedEntry | BatchedRemoval, Field(discriminator="action")]


class NewBatch(RootModel[Annotated[list[BatchedOperation], Field(min_length=1, max_length=BATCH_LIMIT)]]):
    """Up to 500 operations of a trusted server, in order; all are done, or none."""

    model_config = ConfigDict(frozen=True, strict=True)


class BatchDone(Answer):
    """What became of each operation, in the order of the batch."""

    board: str
    results: list[ScoreAccepted | Removed]


class NewDecision(Body):
    """Why a moderator decides so; it stands in the ledger."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]


class FindingShown(Answer):
    """One suspicious fact, as evidence."""

    reason: str
    meaning: str
    severity: str
    value: float
    expected: str
    sample_size: int


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
    detail: dict[str, int | str | None]
    at: str


class CaseFile(Answer):
    """A submission with everything that happened to it."""

    submission: HeldSubmission
    events: list[EventShown]


class Decided(Answer):
    """The state after a decision."""

    submission: str
    state: str


class Liveness(Answer):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Readiness(Answer):
    """Whether requests can be taken, and the truth about each dependency."""

    status: Literal["ready", "degraded", "unready"]
    ledger: bool
    index: bool
