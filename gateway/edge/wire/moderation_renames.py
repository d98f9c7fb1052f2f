"""The models of renames: what moderators send, and what they see."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.edge.wire.bodies import NAME_SENT, Body
from gateway.edge.wire.fields import Answer, PlayerId
from gateway.edge.wire.moderation_bans import Note
from policies.renames import RenameCode

Name = Annotated[str, Field(max_length=NAME_SENT)]


class NewName(Body):
    """Another name for a player who is called `was`; without `name` the one of a player who chose none."""

    was: Name
    name: Annotated[Name, Field(min_length=1)] | None = None
    code: Annotated[RenameCode, Field(strict=False)]
    note: Note = ""


class NameUndone(Body):
    """Takes the last rename of a player back, who is called `was` now."""

    was: Name


class RenameShown(Answer):
    """A name that a moderator gave to a player, and who took it back when, if anybody did."""

    player: PlayerId
    was: str
    name: str
    code: str
    note: str
    by: str
    at: str
    undone_by: str | None
    undone_at: str | None
