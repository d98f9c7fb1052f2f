"""The models of batches: what moderators select and decide, and what they see of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gateway.edge.wire.bodies import Body, Instant
from gateway.edge.wire.fields import Answer, OperationId, PlayerId
from gateway.edge.wire.moderation_decisions import NewDecision
from policies.fields import BoardName, BuildName, Name


class NewSelection(Body):
    """Which submissions: those for which everything given holds, on a board, a family, or all in your scope.

    `key` is a trusted server's. Of each time (RFC 3339) the first is included, the last is not. `finding` is
    a reason or a validator. The action decides which state they are in.
    """

    board: BoardName | None = None
    family: Name | None = None
    player: PlayerId | None = None
    key: Annotated[str, Field(max_length=64)] | None = None
    build: BuildName | None = None
    received_since: Instant | None = None
    received_until: Instant | None = None
    achieved_since: Instant | None = None
    achieved_until: Instant | None = None
    reason: Name | None = None
    finding: Name | None = None

    @model_validator(mode="after")
    def _one_scope(self) -> Self:
        if self.board is not None and self.family is not None:
            raise ValueError("a selection is of a board or of a family; without both it is of all")
        return self


class NewDecisionBatch(NewDecision):
    """A decision on all submissions of a selection. Sending the same operation id again is safe."""

    operation: OperationId
    action: Literal["approve", "reject", "revoke", "reinstate"]
    selection: NewSelection


class BatchOnBoard(Answer):
    """How many submissions of a batch are on a board."""

    board: str
    items: int


class PodiumChange(Answer):
    """A window of a board whose first three the batch would change."""

    board: str
    window: str


class BatchShown(Answer):
    """A batch, with what its preview says.

    `items` counts what was selected. Of `boards` those with most items are named, of `podiums` the first; all
    are counted. `in_cases` counts the cases that a colleague is in, `left_out` what the batch leaves as it
    is, by reason. `outcomes` says what became of how many items. `detail` says what holds it up, or null.
    """

    batch: str
    state: str
    by: str
    action: str
    code: str
    note: str
    message: str | None
    scopes: list[str]
    selection: dict[str, Any]
    created_at: str
    changed_at: str
    expires_at: str | None
    applied_by: str | None
    reversed_by: str | None
    looked_at: int
    items: int
    boards: list[BatchOnBoard]
    in_cases: int
    left_out: dict[str, int]
    board_count: int
    podiums: list[PodiumChange]
    podium_count: int
    outcomes: dict[str, int]
    detail: str | None
    etag: str


class BatchItemShown(Answer):
    """A submission of a batch: its newest event when it was previewed, and what the batch did.

    `event` is the one by which the batch decided on it. `why` is the reason for which it was left as it is.
    """

    submission: str
    board: str
    player: PlayerId
    newest_event: int
    outcome: str
    why: str | None
    event: int | None


class BatchPage(Answer):
    """A batch and a page of its items, by board and in the order in which they were received."""

    batch: BatchShown
    items: list[BatchItemShown]
    next: str | None


class BatchList(Answer):
    """A page of batches, newest first. It may be short although more follows: `next` says so."""

    batches: list[BatchShown]
    next: str | None
