"""What clients send: strict, closed and bounded. OpenAPI is generated from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, model_validator

from gateway.edge.wire.fields import (
    Count,
    ExactScore,
    OperationId,
    PlayerId,
    RecordingDigest,
    SegmentName,
    SegmentValue,
    StatName,
    SubmissionId,
    Version,
)

BATCH_LIMIT = 500
"""Most operations in a batch that is done whole or not at all."""
EACH_LIMIT = 1_000
"""Most operations in a batch whose operations are done each by itself."""
NAME_SENT = 96
"""Longest name as it is sent; its bounds are those of `gateway.edge.players.names`, once it is composed."""
NOT_A_RUN = "ticks, stats: no run of this board has such a length, or such names of statistics"
NOT_POSSIBLE = "the board's policy says that there cannot be such a run"
OBJECT_DEPTH = 16
"""Most objects and arrays inside one another in the details of a score."""
Instant = Annotated[str, Field(max_length=100)]


class Body(BaseModel):
    """Something a client sends: closed, and no value is read as another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NewPlayer(Body):
    """An anonymous player's wish: the name to be shown, if any."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_SENT)] | None = None


class NewRun(Body):
    """Which build of the game is about to play."""

    build: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    """The object. Raises ValueError for whole numbers beyond 64 bits, which no reader takes, and for too much nesting."""
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, dict | list):
            if depth > OBJECT_DEPTH:
                raise ValueError(f"expected at most {OBJECT_DEPTH} objects and arrays inside one another")
            inside = each.values() if isinstance(each, dict) else each
            waiting.extend((one, depth + 1) for one in inside)
        elif isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise ValueError("expected whole numbers of at most 64 bits; send others as texts")
    return value


JsonObject = Annotated[dict[str, Any], Field(max_length=64), AfterValidator(_storable)]
"""Any JSON that can be stored and read again, since it was read as such (`strict_json`) before."""


class Details(Body):
    """What readers are shown with a score, as the sender says it: the board's policy says how much it takes."""

    integers: Annotated[list[ExactScore], Field(max_length=64)] = []
    object: JsonObject = {}


class NewScore(Body):
    """The claim for a run, with the recording of its inputs (base64 of the recording container).

    Where the board offers it (`reveal_s`), the SHA-256 of the recording and its size in bytes may stand in its place:
    then it is sent once it is asked for, and only then.
    """

    score: ExactScore
    ticks: Count
    stats: Annotated[dict[StatName, ExactScore], Field(max_length=16)] = {}
    recording: Annotated[str, Field(max_length=1_400_000)] | None = None
    recording_digest: RecordingDigest | None = None
    recording_bytes: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    details: Details | None = None


class NewMembership(Body):
    """A trusted server's word on a player's groups; null takes the player out, what is not named stays."""

    operation: OperationId
    player: PlayerId
    segments: Annotated[dict[SegmentName, SegmentValue | None], Field(min_length=1, max_length=8)]


class NewDeclaration(Body):
    """The group that a player says to be in; null for none."""

    value: SegmentValue | None


class NewJoin(Body):
    """A trusted server has a player join a board (`joined` true), or leave it."""

    operation: OperationId
    player: PlayerId
    joined: bool


class NewFriends(Body):
    """Whom a player follows, as a trusted server knows it: all of them, in the place of those before."""

    operation: OperationId
    friends: Annotated[list[PlayerId], Field(max_length=2_000)]


class NewEntry(Body):
    """A trusted server's write. Sending the same operation id again is safe.

    With `replaces` it is a correction: that submission of the player counts no more, and this score does. With
    `version` it is refused once the player was removed at that version or a later one. `achieved_at` (RFC 3339) is when
    the score was reached, if that was not just now: it counts in the windows of then, and ties are broken by it.
    """

    operation: OperationId
    player: PlayerId
    score: ExactScore
    stats: Annotated[dict[StatName, ExactScore], Field(max_length=16)] = {}
    details: Details | None = None
    achieved_at: Instant | None = None
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


class NewIncrement(Body):
    """A trusted server's increment, on a board that adds scores up: `by` is added to what the player has.

    Sending the same operation id again is safe. `version` is as in a write.
    """

    operation: OperationId
    player: PlayerId
    by: ExactScore
    version: Version | None = None

    @property
    def score(self) -> int:
        """What the ledger writes down for it: on such a board each submission is an increment."""
        return self.by


class BatchedEntry(NewEntry):
    """A write or a correction in a batch."""

    action: Literal["write"]


class BatchedRemoval(NewRemoval):
    """A removal in a batch."""

    action: Literal["remove"]


class BatchedIncrement(NewIncrement):
    """An increment in a batch."""

    action: Literal["increment"]


BatchedOperation = Annotated[BatchedEntry | BatchedRemoval | BatchedIncrement, Field(discriminator="action")]


class NewBatch(RootModel[Annotated[list[BatchedOperation], Field(min_length=1, max_length=BATCH_LIMIT)]]):
    """Up to 500 operations of a trusted server, in order; all are done, or none."""

    model_config = ConfigDict(frozen=True, strict=True)


class NewOperations(RootModel[Annotated[list[Any], Field(min_length=1, max_length=EACH_LIMIT)]]):
    """Up to 1000 operations of a trusted server (as in `NewBatch`), in order, each done or refused by itself."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={"items": {"type": "object"}},
    )


class NewDecision(Body):
    """Why a moderator decides so; it stands in the ledger."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]
