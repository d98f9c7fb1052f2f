"""The bodies and answers of moderators' decisions."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from gateway.edge.wire.bodies import Body
from policies.moderation import MESSAGE_LENGTH

NOTE_LENGTH: Final = 2_000
"""Most characters of a note to colleagues."""


class NewDecision(Body):
    """A decision: its reason code, a note for other moderators, and a message for the player.

    The message is the name of a template, or a text.
    """

    code: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")]
    note: Annotated[str, Field(max_length=NOTE_LENGTH)] = ""
    message: Annotated[str, Field(min_length=1, max_length=MESSAGE_LENGTH)] | None = None


class Decided(BaseModel):
    """The state after a decision, and the ETag of the case for the next decision."""

    model_config = ConfigDict(frozen=True)

    submission: str
    state: str
    etag: str
