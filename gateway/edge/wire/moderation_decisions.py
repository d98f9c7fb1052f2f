"""The bodies and answers of moderators' decisions."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gateway.edge.wire.bodies import Body
from gateway.edge.wire.fields import Answer
from policies.moderation import MESSAGE_LENGTH

NOTE_LENGTH: Final = 2_000
"""Most characters of a note to colleagues."""

STATEMENT_LENGTH: Final = 1_000
"""Most characters of a player's answer or appeal."""


class NewDecision(Body):
    """A decision: its reason code, a note for other moderators, and a message for the player.

    The message is the name of a template, or a text.
    """

    code: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")]
    note: Annotated[str, Field(max_length=NOTE_LENGTH)] = ""
    message: Annotated[str, Field(min_length=1, max_length=MESSAGE_LENGTH)] | None = None


class CaseClaim(Answer):
    """The moderator who is in a case, and until when if they do nothing more with it."""

    by: str
    until: str


class PossibleDecision(Answer):
    """A decision that would be made if it were sent now: its path's last part, and the codes that it takes.

    `missing` is what it would still need, as in its answer.
    """

    decision: str
    codes: list[str]
    missing: str | None


class PlayerStatement(Body):
    """What a player says of a submission: an answer to a question, or an appeal."""

    text: Annotated[str, Field(min_length=1, max_length=STATEMENT_LENGTH)]


class StatementKept(Answer):
    """The submission of which a player said something, and its state, which that does not change."""

    submission: str
    state: str


class QuestionShown(Answer):
    """A moderator's question to the player, and until when the case waits for the answer."""

    text: str
    asked_at: str
    answer_by: str


class AppealShown(Answer):
    """What a player can do against a decision: `possible` until a time, `open`, or `denied`."""

    state: Literal["possible", "open", "denied"]
    until: str | None = None


class AnsweredCheckShown(Answer):
    """What a check asked for: the decision that a colleague had made, with its code.

    `agreed` says whether the answer is the same; it is null if it was neither to approve nor to reject.
    """

    known: str
    code: str
    by: str
    agreed: bool | None


class Decided(Answer):
    """The state after a decision, and the ETag of the case for the next decision.

    `missing` is null, or what the decision still needs: `second-approval` of another moderator. `check` is
    null unless the case was a check: then the decision changed nothing, and `state` is what it was.
    """

    submission: str
    state: str
    etag: str
    missing: str | None = None
    check: AnsweredCheckShown | None = None
