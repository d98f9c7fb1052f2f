"""Moderators: what is held, with all evidence, and their decisions, each an event that names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.clock import rfc3339
from gateway.edge.answers import held_submission, json_response, shown_finding
from gateway.edge.context import EDGE, Edge
from gateway.edge.credentials.tokens import Bearer
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reading import board_of, moderator_of, parse_body, read_body, whole_number
from gateway.edge.runs import SMALL_BODY
from gateway.edge.wire import answers, bodies
from gateway.ledger import queries
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission, finding_from
from gateway.settlement import Decision, settle
from gateway.telemetry import Event, logger
from policies.errors import StateConflict
from policies.vocabulary import Reason, State

PAGE_LIMIT: Final = 100

_log = logger()


async def list_held(request: web.Request) -> web.Response:
    """A page of held submissions, oldest first."""
    edge, board = request.app[EDGE], board_of(request)
    moderator_of(request, board.name)
    after = whole_number(request, "after", 0, 0, 10**15)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    held = await edge.ledger.read(queries.held(board.name, after=after, count=count), ReadKind.MODERATION)
    replayed = await edge.ledger.read(
        queries.found_by_replay([each.submission_id for each in held]), ReadKind.MODERATION
    )
    shown = [held_submission(each, replayed.get(each.submission_id, ())) for each in held]
    return json_response(answers.HeldPage(board=board.name, submissions=shown))


async def show_case(request: web.Request) -> web.Response:
    """One submission with its findings and its whole history."""
    edge, found, _ = await _case(request)
    events = await edge.ledger.read(queries.history_of(found.submission_id), ReadKind.MODERATION)
    replayed = await edge.ledger.read(queries.found_by_replay([found.submission_id]), ReadKind.MODERATION)
    shown = held_submission(found, replayed.get(found.submission_id, ()))
    return json_response(answers.CaseFile(submission=shown, events=[_shown(event) for event in events]))


def _shown(event: Mapping[str, Any]) -> answers.EventShown:
    detail = dict(event["detail"])
    findings = [shown_finding(finding_from(each)) for each in detail.pop("findings", [])]
    return answers.EventShown(
        seq=event["seq"],
        from_state=event["from"],
        to_state=event["to"],
        actor=event["actor"],
        reason=event["reason"],
        policy=event["policy"],
        rules_version=event["rules_version"],
        detail=detail,
        findings=findings,
        at=rfc3339(event["at_ms"]),
    )


async def approve(request: web.Request) -> web.Response:
    """Promotes a held submission."""
    return await _decide(request, State.HELD, State.PROMOTED, Reason.APPROVED)


async def reject(request: web.Request) -> web.Response:
    """Rejects a held submission."""
    return await _decide(request, State.HELD, State.REJECTED, Reason.REJECTED_BY_MODERATOR)


async def revoke(request: web.Request) -> web.Response:
    """Takes a promoted submission off the board; the player's next best takes its place."""
    return await _decide(request, State.PROMOTED, State.REVOKED, Reason.REVOKED_BY_MODERATOR)


async def reinstate(request: web.Request) -> web.Response:
    """Lets a revoked submission count again."""
    return await _decide(request, State.REVOKED, State.PROMOTED, Reason.REINSTATED)


async def _decide(request: web.Request, from_state: State, to_state: State, reason: Reason) -> web.Response:
    edge, found, moderator = await _case(request)
    why = parse_body(await read_body(request, SMALL_BODY), bodies.NewDecision).reason
    if moderator.subject == found.player:
        raise Problem(ProblemType.SELF_APPROVAL, "nobody decides on their own submission")
    decision = Decision(
        found.submission_id,
        to_state,
        f"moderator:{moderator.subject}",
        reason,
        edge.clock(),
        frozenset({from_state}),
        detail={"why": why},
    )
    [settled] = await settle(edge.ledger, edge.index, edge.boards[found.board], [decision])
    if isinstance(settled, StateConflict):
        raise Problem(ProblemType.STATE_CONFLICT, f"the submission is not {from_state.value}")
    _log.info(
        Event.DECISION, submission=found.submission_id, state=to_state.value, moderator=moderator.subject
    )
    return json_response(answers.Decided(submission=found.submission_id, state=to_state.value))


async def _case(request: web.Request) -> tuple[Edge, StoredSubmission, Bearer]:
    edge = request.app[EDGE]
    found = await edge.ledger.read(queries.submission(request.match_info["submission"]), ReadKind.MODERATION)
    moderator = moderator_of(request, found.board if found else "")
    if found is None or found.board not in edge.boards:
        raise Problem(ProblemType.NOT_FOUND, "there is no such submission")
    return edge, found, moderator
