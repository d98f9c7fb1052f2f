"""The bodies that open, change and end boards of families, from which the OpenAPI document is generated."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gateway.edge.wire.bodies import Body, Instant, JsonObject
from gateway.edge.wire.fields import ExactScore, OperationId, Version

FamilyBoard = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}\.[A-Za-z0-9_-]{1,64}$")]
"""The name of a board of a family."""

OPERATIONS_LIMIT: Final = 1_000
"""Most operations of one request."""

REASON_LENGTH: Final = 200
"""Longest reason for the end of a board, in characters."""

BoardTitle = Annotated[str, Field(min_length=1, max_length=80)]
Sha256 = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class NarrowScore(Body):
    """The ends of the score bounds that one board moves inwards."""

    minimum: ExactScore | None = None
    maximum: ExactScore | None = None


class NarrowPrior(Body):
    """What to expect of the scores of one board before it has a history."""

    mean: Annotated[float, Field(allow_inf_nan=False)]
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class NarrowBounds(Body):
    """What one board rules out beyond its family's policy."""

    score: NarrowScore | None = None
    maximum_ticks: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    prior: NarrowPrior | None = None


class OpenBoard(Body):
    """A board to open. Parameters and asset stay as they are for ever; the rest may be changed.

    `opens_at` and `closes_at` (RFC 3339) bound the time in which runs may be opened.
    """

    action: Literal["open"]
    board: FamilyBoard
    title: BoardTitle
    metadata: Annotated[JsonObject, Field(default_factory=dict)]
    parameters: Annotated[JsonObject, Field(default_factory=dict)]
    asset: Sha256 | None = None
    bounds: NarrowBounds | None = None
    opens_at: Instant | None = None
    closes_at: Instant | None = None


class ChangeBoard(Body):
    """A change of a board: what is given replaces what it has, and null takes it away.

    `version` is the board's version that the change is based on.
    """

    action: Literal["change"]
    board: FamilyBoard
    version: Version
    title: BoardTitle | None = None
    metadata: JsonObject | None = None
    bounds: NarrowBounds | None = None
    opens_at: Instant | None = None
    closes_at: Instant | None = None


class TurnBoard(Body):
    """A board to close or reopen, with the reason for the log.

    A closed board takes no new runs; those under way still count.
    """

    action: Literal["close", "reopen"]
    board: FamilyBoard
    reason: Annotated[str, Field(max_length=REASON_LENGTH)] = ""


class DeleteBoard(Body):
    """A board to delete for good, with the reason for the log. Nobody reads it any more."""

    action: Literal["delete"]
    board: FamilyBoard
    reason: Annotated[str, Field(min_length=1, max_length=REASON_LENGTH)]


FIELDS_OF_ACTIONS: Final = {
    "open": tuple(OpenBoard.model_fields),
    "change": tuple(ChangeBoard.model_fields),
    "close": tuple(TurnBoard.model_fields),
    "reopen": tuple(TurnBoard.model_fields),
    "delete": tuple(DeleteBoard.model_fields),
}
"""The fields of an operation on a board, by its action."""

BoardOperation = Annotated[OpenBoard | ChangeBoard | TurnBoard | DeleteBoard, Field(discriminator="action")]


class OperationEnvelope(Body):
    """A request's operation id, without its operations."""

    operation: OperationId
    boards: list[None]


class NewBoardOperations(Body):
    """Up to 1,000 operations on boards of a family, performed in order, each done or refused by itself.

    All of them are in one commit. The same operation id with the same content is performed once.
    """

    operation: OperationId
    boards: Annotated[list[BoardOperation], Field(min_length=1, max_length=OPERATIONS_LIMIT)]
