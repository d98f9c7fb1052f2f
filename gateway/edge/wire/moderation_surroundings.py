"""The answer about what surrounds a case."""

from __future__ import annotations

from typing import Any

from gateway.edge.wire.fields import Answer
from gateway.edge.wire.read_models import Distribution


class SubmissionBeside(Answer):
    """Another submission, in brief. `reason` is why it has its state, and `meaning` says it in words."""

    submission: str
    board: str
    player: str
    score: int
    build: str
    state: str
    reason: str
    meaning: str
    received_at: str


class SharedTrait(Answer):
    """What two recordings share: the finding's reason, its value in `unit`, and its other numbers by name."""

    reason: str
    meaning: str
    value: float
    unit: str
    detail: dict[str, float]


class SimilarSubmission(SubmissionBeside):
    """A submission that findings of the case name, with the player's name and what it shares."""

    name: str | None
    has_same_recording: bool
    shares: list[SharedTrait]


class EarlierDecision(Answer):
    """A colleague's decision on one of these submissions, with the reason and what was written down."""

    submission: str
    board: str
    moderator: str
    state: str
    reason: str
    meaning: str
    detail: dict[str, Any]
    at: str


class CaseSurroundings(Answer):
    """What surrounds a case, as far as the moderator's boards reach.

    `distribution` is of the board's entries, null while it cannot be read; `beaten` is how many of them the
    case's score beats or equals. `similar` are the submissions that findings name, `others` the player's
    newest ones on any board, and `decisions` what moderators decided on all these, newest first.
    """

    submission: str
    distribution: Distribution | None
    beaten: int | None
    similar: list[SimilarSubmission]
    others: list[SubmissionBeside]
    decisions: list[EarlierDecision]
