"""The bodies of requests, from which the OpenAPI document is generated."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Protocol, Self

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
"""The maximum number of operations in a batch that is performed as a whole or not at all."""
EACH_LIMIT = 1_000
"""The maximum number of operations in a batch whose operations are performed each on its own."""
NAME_SENT = 96
"""The longest name as it is sent; `gateway.edge.players.names` bounds its normalized form."""
DEVICE_KEY: Final = r"^[A-Za-z0-9_-]{22,86}$"
"""At least 128 bits in base64url, or in hexadecimal digits."""
OBJECT_DEPTH = 16
"""The deepest nesting of objects and arrays in the details of a score."""
DeviceKey = Annotated[str, Field(pattern=DEVICE_KEY)]
Instant = Annotated[str, Field(max_length=100)]


class Body(BaseModel):
    """The base of all bodies: strict in its types, and closed to unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class NewPlayer(Body):
    """A new anonymous player, with a display name or without.

    By `device_key`, a secret that the client makes and keeps, the same device gets the same player again.
    """

    name: Annotated[str, Field(min_length=1, max_length=NAME_SENT)] | None = None
    device_key: DeviceKey | None = Field(default=None, repr=False)
    recovery_code: bool = False


class NewRun(Body):
    """A new run by a build of the game, with the studio's signature of the board's name if the run opens it.

    The signature is Ed25519, in base64. It is not looked at once the board is open.
    """

    build: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]
    name_signature: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{86}==$")] | None = None


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object. Raises ValueError for too much nesting, and for integers beyond 64 bits."""
    # A stack instead of recursion, since the client decides how deep the object is.
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, dict | list):
            if depth > OBJECT_DEPTH:
                raise ValueError(f"expected objects and arrays nested at most {OBJECT_DEPTH} deep")
            children = node.values() if isinstance(node, dict) else node
            stack.extend((child, depth + 1) for child in children)
        elif isinstance(node, int) and not -(2**63) <= node < 2**63:
            raise ValueError("expected whole numbers of at most 64 bits; send others as strings")
    return value


JsonObject = Annotated[dict[str, Any], Field(max_length=64), AfterValidator(_storable)]
"""Any JSON object; `strict_json` has read it, so it can be stored and read again."""


class Details(Body):
    """The details that readers see with a score, as large as the board's policy allows."""

    integers: Annotated[list[ExactScore], Field(max_length=64)] = []
    object: JsonObject = {}


class NewScore(Body):
    """The score of a run, with the recording of its inputs (base64 of the recording container).

    If the board offers it (`reveal_s`), the recording's SHA-256 and its size in bytes may take its place. The
    recording is then sent only if it is requested.
    """

    score: ExactScore
    ticks: Count
    stats: Annotated[dict[StatName, ExactScore], Field(max_length=16)] = {}
    recording: Annotated[str, Field(max_length=1_400_000)] | None = None
    recording_digest: RecordingDigest | None = None
    recording_bytes: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    details: Details | None = None


class ScoreBody(Protocol):
    """A body as `bodies.NewScore` has it, however it was read."""

    @property
    def score(self) -> int: ...  # noqa: D102
    @property
    def ticks(self) -> int: ...  # noqa: D102
    @property
    def stats(self) -> dict[str, int]: ...  # noqa: D102
    @property
    def recording(self) -> str | None: ...  # noqa: D102
    @property
    def recording_digest(self) -> str | None: ...  # noqa: D102
    @property
    def recording_bytes(self) -> int | None: ...  # noqa: D102
    @property
    def details(self) -> Details | None: ...  # noqa: D102


class NewMembership(Body):
    """A player's groups, set by a trusted server; null ends a membership, omitted segments stay."""

    operation: OperationId
    player: PlayerId
    segments: Annotated[dict[SegmentName, SegmentValue | None], Field(min_length=1, max_length=8)]


class NewDeclaration(Body):
    """The group that a player declares to be in; null for none."""

    value: SegmentValue | None


class NewJoin(Body):
    """A trusted server's order that a player joins a board (`joined` true) or leaves it."""

    operation: OperationId
    player: PlayerId
    joined: bool


class NewFriends(Body):
    """The complete list of players that a player follows, set by a trusted server."""

    operation: OperationId
    friends: Annotated[list[PlayerId], Field(max_length=2_000)]


class NewEntry(Body):
    """A trusted server's write. Sending the same operation id again is safe.

    With `replaces` it is a correction: this score counts instead of that submission of the player. With
    `version` it is refused if the player was removed at that version or a later one. `achieved_at` (RFC 3339)
    is when the score was achieved, now if absent: it decides the windows that the score counts in, and breaks
    ties.
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
    """A trusted server's removal of one submission of a player, or of all that count on the board.

    With `version`, submissions of later versions stay. A write of this version or an earlier one that arrives
    afterwards is refused.
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
    """A trusted server's increment on a board that adds scores up: `by` is added to the player's score.

    Sending the same operation id again is safe. `version` is as in a write.
    """

    operation: OperationId
    player: PlayerId
    by: ExactScore
    version: Version | None = None

    @property
    def score(self) -> int:
        """Return the score of its submission: on such a board each submission is an increment."""
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


FIELDS_OF_ACTIONS: Final = {
    "write": tuple(BatchedEntry.model_fields),
    "remove": tuple(BatchedRemoval.model_fields),
    "increment": tuple(BatchedIncrement.model_fields),
}
"""The fields of an operation of a batch, by its action."""

BatchedOperation = Annotated[BatchedEntry | BatchedRemoval | BatchedIncrement, Field(discriminator="action")]


class NewBatch(RootModel[Annotated[list[BatchedOperation], Field(min_length=1, max_length=BATCH_LIMIT)]]):
    """Up to 500 operations of a trusted server, in order; all are performed, or none."""

    model_config = ConfigDict(frozen=True, strict=True)


class NewOperations(RootModel[Annotated[list[Any], Field(min_length=1, max_length=EACH_LIMIT)]]):
    """Up to 1000 operations of a trusted server (as in `NewBatch`), in order, each performed on its own."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={"items": {"type": "object"}},
    )
