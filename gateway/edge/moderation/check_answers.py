"""Answers to checks: cases of known answers, which moderators take for new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.edge.auth.moderators import Moderator
from gateway.edge.context import Edge
from gateway.edge.http.preconditions import etag
from gateway.edge.moderation.possible_decisions import Decider, decision_on, refusal
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_decisions import AnsweredCheckShown, Decided
from gateway.ledger.moderation.cases import waiting_case
from gateway.ledger.moderation.checks import GivenAnswer, given_answer
from gateway.ledger.moderation.labels import DecisionLabel, label_of_event
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.settlement.case_history import CaseHistory
from gateway.settlement.known_answers import REASONS, answer_check, seen_before
from policies.decision_codes import DecisionKind
from policies.errors import CaseOvertaken, StateConflict
from policies.loader import Board

NOTHING_TO_UNDO: Final = "this case was a check: your decision changed nothing, and there is nothing to undo"

_KINDS: Final = {reason: kind.value for kind, reason in REASONS.items()}


async def answer_of_check(
    edge: Edge,
    board: Board,
    submission: StoredSubmission,
    moderator: Moderator,
    history: CaseHistory,
    detail: Mapping[str, Any],
    version: int,
) -> Decided | None:
    """Take a decision on the version that a check shows; return None if it is none, or is over.

    Raises as a decision on any other case would.
    """
    case = await edge.ledger.read(waiting_case(submission.submission_id), ReadKind.MODERATION)
    if case is None or not case.hides_from(moderator.name):
        return None
    seen = seen_before(history, case.known_seq)
    if seen[-1]["seq"] != version:
        return None
    by = Decider(moderator, board, submission.submission_id, seen, edge.clock(), is_check=True)
    request = by.request(decision_on(by, DecisionKind(detail["decision"]), detail))
    answered = await edge.ledger.write(answer_check(board, request))
    if isinstance(answered, CaseOvertaken):
        return None  # the check has ended since, perhaps by this same answer
    if isinstance(answered, StateConflict):
        raise refusal(answered)
    shown = _shown(answered.known, agreed=answered.has_agreed)
    return _decided(submission, answered.seq, shown)


async def answer_given(
    edge: Edge, submission: StoredSubmission, moderator: Moderator, detail: Mapping[str, Any], version: int
) -> Decided | None:
    """Return the answer to the same decision on a check that was sent before; None if it was not.

    Raises `state-conflict` if it is to be undone.
    """
    given = await read_given(edge, submission, moderator)
    if given is None:
        return None
    if given.seq == version and detail["decision"] == DecisionKind.UNDO:
        raise Problem(ProblemType.STATE_CONFLICT, NOTHING_TO_UNDO)
    if given.detail.get("version") != version or not detail.items() <= given.detail.items():
        return None
    return _decided(submission, given.seq, await check_shown(edge, given))


async def read_given(edge: Edge, submission: StoredSubmission, moderator: Moderator) -> GivenAnswer | None:
    """Return the answer that a moderator gave lately to the check of a submission, None without any."""
    reading = given_answer(submission.submission_id, submission.player, moderator.name)
    return await edge.ledger.read(reading, ReadKind.MODERATION)


async def check_shown(edge: Edge, given: GivenAnswer) -> AnsweredCheckShown | None:
    """Return what was known when a check was answered; None if the ledger has it no more."""
    known = await edge.ledger.read(label_of_event(given.detail["known"]), ReadKind.MODERATION)
    if known is None:
        return None
    answer = given.detail["decision"]
    agreed = answer == _KINDS[known.reason] if answer in _KINDS.values() else None
    return _shown(known, agreed=agreed)


def _shown(known: DecisionLabel, *, agreed: bool | None) -> AnsweredCheckShown:
    return AnsweredCheckShown(known=_KINDS[known.reason], code=known.code, by=known.moderator, agreed=agreed)


def _decided(submission: StoredSubmission, seq: int, check: AnsweredCheckShown | None) -> Decided:
    """Return the answer: its ETag is that of the answer, on which nothing more can be decided."""
    return Decided(
        submission=submission.submission_id, state=submission.state.value, etag=etag(seq), check=check
    )
