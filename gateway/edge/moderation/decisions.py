"""Handles moderators' decisions. Each is an event that names its moderator."""

from __future__ import annotations

from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.context import Edge
from gateway.edge.http.body import SMALL_BODY, read_body
from gateway.edge.http.preconditions import etag, expected_version
from gateway.edge.http.request import parse_body
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.moderation.cases import case_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies, outcomes
from gateway.ledger import queries
from gateway.ledger.reads import ReadKind
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.settle import Decision, settle
from policies.errors import CaseOvertaken, StateConflict
from policies.vocabulary import Reason, State

_log = logger()


async def approve(request: web.Request) -> web.Response:
    """Promote a held submission."""
    return await _decide(request, State.HELD, State.PROMOTED, Reason.APPROVED)


async def reject(request: web.Request) -> web.Response:
    """Reject a held submission."""
    return await _decide(request, State.HELD, State.REJECTED, Reason.REJECTED_BY_MODERATOR)


async def revoke(request: web.Request) -> web.Response:
    """Take a promoted submission off the board. The player's next best takes its place."""
    return await _decide(request, State.PROMOTED, State.REVOKED, Reason.REVOKED_BY_MODERATOR)


async def reinstate(request: web.Request) -> web.Response:
    """Let a revoked submission count again."""
    return await _decide(request, State.REVOKED, State.PROMOTED, Reason.REINSTATED)


async def _decide(request: web.Request, from_state: State, to_state: State, reason: Reason) -> web.Response:
    edge, board, submission, moderator = await case_of(request, Ability.DECIDE)
    version = expected_version(request)
    why = parse_body(await read_body(request, SMALL_BODY), bodies.NewDecision).reason
    if moderator.name == submission.player:
        raise Problem(ProblemType.SELF_APPROVAL, "you cannot decide on your own submission")
    decision = Decision(
        submission.submission_id,
        to_state,
        f"moderator:{moderator.name}",
        reason,
        edge.clock(),
        frozenset({from_state}),
        detail={"why": why},
        newest_event=version,
    )
    [settled] = await settle(edge.ledger, edge.index, board, [decision])
    if isinstance(settled, StateConflict):
        return await _already_decided(edge, decision, settled)
    _log.info(
        Event.DECISION, submission=submission.submission_id, state=to_state.value, moderator=moderator.name
    )
    return _decided(decision, settled.seq)


async def _already_decided(edge: Edge, decision: Decision, conflict: StateConflict) -> web.Response:
    """Return the answer to a decision that this moderator already made, on this version for this reason.

    Raises `precondition-failed` if something else changed the case, and `state-conflict` if its state forbids
    it.
    """
    if not isinstance(conflict, CaseOvertaken):
        [wanted] = decision.from_states
        raise Problem(ProblemType.STATE_CONFLICT, f"the submission is not {wanted.value}")
    *before, newest = await edge.ledger.read(queries.history_of(decision.submission_id), ReadKind.MODERATION)
    decided = (decision.actor, decision.to_state.value, decision.detail["why"])
    is_resend = before and before[-1]["seq"] == decision.newest_event
    if is_resend and decided == (newest["actor"], newest["to"], newest["detail"].get("why")):
        return _decided(decision, newest["seq"], is_replay=True)
    raise Problem(ProblemType.PRECONDITION_FAILED, "the case has changed since you read it; read it again")


def _decided(decision: Decision, version: int, *, is_replay: bool = False) -> web.Response:
    state, tag = decision.to_state.value, etag(version)
    answer = outcomes.Decided(submission=decision.submission_id, state=state, etag=tag)
    return json_response(answer, headers={"ETag": tag, **replay_header(is_replay=is_replay)})
