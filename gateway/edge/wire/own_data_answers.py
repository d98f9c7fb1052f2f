"""The bodies and answers of players who merge, take along or erase what there is of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.edge.wire.bodies import Body
from gateway.edge.wire.fields import Answer, PlayerId


class NewMerge(Body):
    """The token of the player who is to be merged into the bearer."""

    token: Annotated[str, Field(min_length=1, max_length=4_096, repr=False)]


class MergeShown(Answer):
    """A merge of a player into another. Runs that have still to move are moved within seconds."""

    merge: str
    source: PlayerId
    target: PlayerId
    began_at: str
    undone_at: str | None
    moved: int
    is_done: bool


class ErasureShown(Answer):
    """Whether the data of a player is erased, and from when on; until then it can be taken back."""

    player: PlayerId
    asked_at: str | None
    due_at: str | None
