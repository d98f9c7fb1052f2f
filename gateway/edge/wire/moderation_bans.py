"""The models of bans: what moderators send, and what they see."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from gateway.edge.wire.bodies import Body, Instant
from gateway.edge.wire.fields import Answer, OperationId, PlayerId
from policies.bans import BanCode

Note = Annotated[str, Field(max_length=2_000)]
"""A text for colleagues."""
Message = Annotated[str, Field(max_length=500)]
"""A text for a player."""


class NewBan(Body):
    """A ban of a player on a board, on all boards of a family, or without either everywhere.

    Sending the same operation id again is safe. It lasts `until` (RFC 3339), or for good.
    The player reads `message`. With `shadow` the player must not notice, so there is none.
    """

    operation: OperationId
    board: Annotated[str, Field(max_length=64)] | None = None
    family: Annotated[str, Field(max_length=64)] | None = None
    until: Instant | None = None
    code: Annotated[BanCode, Field(strict=False)]
    note: Note = ""
    message: Message = ""
    shadow: bool = False

    @model_validator(mode="after")
    def _one_scope(self) -> Self:
        if self.shadow and self.message:
            raise ValueError("a player must not notice a shadow ban; leave the message out")
        if self.board is not None and self.family is not None:
            raise ValueError("a ban is on a board or on a family; without both it is everywhere")
        return self


class BanShown(Answer):
    """A ban as moderators see it. Both `board` and `family` are null for one on all boards.

    `shadow` tells that its player must not notice.
    `followed` is how many submissions were taken off, or came back after `lifted_at`; `is_settled` is false
    while a steward goes on.
    """

    ban: str
    player: PlayerId
    board: str | None
    family: str | None
    shadow: bool
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


class BanList(Answer):
    """The bans of a player on what the moderator may read, those first that began or ended last."""

    player: PlayerId
    bans: list[BanShown]
