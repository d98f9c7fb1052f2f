"""Handles moderators' decisions. Each is an event that names its moderator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import Edge
from gateway.edge.http.body import TEXT_BODY, read_body
from gateway.edge.http.preconditions import etag, expected_version
from gateway.edge.http.request import parse_body
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.moderation.cases import case_of
from gateway.edge.moderation.check_answers import answer_given, answer_of_check
from gateway.edge.moderation.possible_decisions import Decider, decision_on, refusal
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_decisions import Decided, NewDecision
from gateway.ledger import queries
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.case_decisions import SECOND_APPROVAL, settle_case
from gateway.settlement.case_history import CaseHistory, without_bans
from gateway.settlement.held_cases import MODERATOR
from policies.decision_codes import OTHER, QUESTION, DecisionKind
from policies.errors import CaseOvertaken, StateConflict
from policies.loader import Board
from policies.moderation import Moderation
from policies.vocabulary import Reason

ACCEPTED: Final = 202
"""The status of a decision that is noted, and waits for another moderator."""

_log = logger()


class RequestedDecision(NamedTuple):
    """A decision as its moderator made it, on a version of the case."""

    kind: DecisionKind
    body: NewDecision
    version: int


class DecisionAnswer(NamedTuple):
    """The answer to a decision, and whether it was made before."""

    decided: Decided
    version: int
    is_replay: bool = False


def decision_handler(kind: DecisionKind, summary: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of a kind of decision. `summary` describes it in the API's reference."""

    async def handler(request: web.Request) -> web.Response:
        sent = await read_body(request, TEXT_BODY)  # before the credential, which may end while it arrives
        edge, board, submission, moderator = await case_of(request, Ability.DECIDE)
        version = expected_version(request)
        body = parse_body(sent, NewDecision)
        asked = RequestedDecision(kind, body, version)
        answer = await decide_case(edge, board, submission, moderator, asked)
        headers = {"ETag": etag(answer.version), **replay_header(is_replay=answer.is_replay)}
        status = ACCEPTED if answer.decided.missing else 200
        return json_response(answer.decided, status=status, headers=headers)

    handler.__name__, handler.__doc__ = kind.value, summary
    return handler


approve = decision_handler(DecisionKind.APPROVE, "Promote a held submission.")
reject = decision_handler(DecisionKind.REJECT, "Reject a held submission.")
hold = decision_handler(DecisionKind.HOLD, "Hold a submission, or ask the player of a held one a question.")
revoke = decision_handler(
    DecisionKind.REVOKE, "Take a promoted submission off the board. The player's next best takes its place."
)
reinstate = decision_handler(DecisionKind.REINSTATE, "Let a revoked submission count again.")
undo = decision_handler(DecisionKind.UNDO, "Undo the last decision on a submission.")


async def decide_case(
    edge: Edge, board: Board, submission: StoredSubmission, moderator: Moderator, asked: RequestedDecision
) -> DecisionAnswer:
    """Make a decision, and return its answer; the same decision on the same version has the same answer.

    Raises `schema-violation`, `self-approval`, `scope-forbidden`, `precondition-failed` if something else
    changed the case, `case-claimed` if another moderator is in it, and `state-conflict` if its state forbids
    the decision.
    """
    detail = detail_of(board.policy.moderation, asked)
    history = await _history(edge, submission)
    if history[-1]["seq"] != asked.version:
        facts = (edge, board, submission, moderator, history, detail, asked.version)
        if answer := await answer_of_check(*facts):
            return _answer_to_check(answer)
        return await _made_before(edge, submission, moderator, detail, history, asked.version)
    by = Decider(moderator, board, submission.submission_id, history, edge.clock())
    request = by.request(decision_on(by, asked.kind, detail))
    settled = await settle_case(edge.ledger, edge.index, board, request)
    if isinstance(settled, CaseOvertaken):
        history = await _history(edge, submission)
        return await _made_before(edge, submission, moderator, detail, history, asked.version)
    if isinstance(settled, StateConflict):
        raise refusal(settled)
    state = settled.change.state.value
    _log.info(Event.DECISION, submission=submission.submission_id, state=state, moderator=moderator.name)
    return _answer(submission, state, settled.change.seq, settled.missing)


def detail_of(moderation: Moderation, asked: RequestedDecision) -> dict[str, Any]:
    """Return what the event of a decision keeps of it. Raises `schema-violation`."""
    kind, body = asked.kind, asked.body
    codes = moderation.codes_of(kind)
    if body.code not in codes:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"code: expected one of {', '.join(codes)}")
    if body.code == OTHER and not body.note.strip():
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, f"note: say in the note what it is, since the code is `{OTHER}`"
        )
    if body.code == QUESTION and kind is DecisionKind.HOLD and body.message is None:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "message: write the question that the player gets")
    message = None if body.message is None else moderation.message_of(body.message)
    template = None if body.message is None else moderation.template_of(body.message)
    return {
        "decision": kind.value,
        "code": body.code,
        "note": body.note,
        "message": message,
        "template": template,
    }


async def _history(edge: Edge, submission: StoredSubmission) -> CaseHistory:
    return await edge.ledger.read(queries.history_of(submission.submission_id), ReadKind.MODERATION)


async def _made_before(
    edge: Edge,
    submission: StoredSubmission,
    moderator: Moderator,
    detail: Mapping[str, Any],
    history: CaseHistory,
    version: int,
) -> DecisionAnswer:
    """Return the answer to a decision that this moderator made on this version, in these words.

    Raises `precondition-failed` if the case was changed by anything else.
    """
    of_no_ban = {event["seq"] for event in without_bans(history)}
    later = [event for event in history if event["seq"] > version and event["seq"] in of_no_ban]
    is_resend = len(later) == 1 and any(event["seq"] == version for event in history)
    for made in later if is_resend else ():
        if made["actor"] == f"{MODERATOR}{moderator.name}" and detail.items() <= made["detail"].items():
            missing = SECOND_APPROVAL if made["reason"] == Reason.APPROVED_ONCE else None
            return _answer(submission, made["to"], made["seq"], missing, is_replay=True)
    if answer := await answer_given(edge, submission, moderator, detail, version):
        return _answer_to_check(answer, is_replay=True)
    raise Problem(ProblemType.PRECONDITION_FAILED, "the case has changed since you read it; read it again")


def _answer(
    submission: StoredSubmission,
    state: str,
    version: int,
    missing: str | None,
    *,
    is_replay: bool = False,
) -> DecisionAnswer:
    decided = Decided(submission=submission.submission_id, state=state, etag=etag(version), missing=missing)
    return DecisionAnswer(decided, version, is_replay)


def _answer_to_check(decided: Decided, *, is_replay: bool = False) -> DecisionAnswer:
    return DecisionAnswer(decided, int(decided.etag.strip('"')), is_replay)
