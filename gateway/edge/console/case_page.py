"""The page of a case: everything that a decision rests on, and the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import orjson
from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.console.expected_ranges import range_figure
from gateway.edge.console.forms import read_form, send_as_api
from gateway.edge.console.offered_decisions import offered_decisions
from gateway.edge.console.page_drawing import draw, go_to, is_fragment
from gateway.edge.console.queue_page import QUEUE, filters_of, path_of_next
from gateway.edge.console.settled_cases import settled_case
from gateway.edge.console.visits import visit_of
from gateway.edge.http.preconditions import expected_version
from gateway.edge.http.request import moderator_anywhere
from gateway.edge.moderation import claims, decisions
from gateway.edge.moderation.cases import case_of, read_case, stay_in_case
from gateway.edge.moderation.queue import claim_shown, queue_request_of
from gateway.edge.moderation.surroundings import read_surroundings
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.outcomes import CaseFile
from gateway.runtime.clock import parse_rfc3339
from policies.decision_codes import QUESTION, DecisionKind
from policies.loader import Board

_HANDLERS: Final = {
    DecisionKind.APPROVE: decisions.approve,
    DecisionKind.REJECT: decisions.reject,
    DecisionKind.HOLD: decisions.hold,
    DecisionKind.REVOKE: decisions.revoke,
    DecisionKind.REINSTATE: decisions.reinstate,
    DecisionKind.UNDO: decisions.undo,
}

_LEAVING: Final = {
    "release": claims.release,
    "skip": claims.skip,
    "cannot-tell": claims.cannot_tell,
}


_ELSEWHERE: Final = frozenset(
    {
        ProblemType.CASE_CLAIMED,
        ProblemType.STATE_CONFLICT,
        ProblemType.SELF_APPROVAL,
        ProblemType.SCOPE_FORBIDDEN,
    }
)
"""Refusals of a claim: somebody else is in the case, it does not wait, or it is for others."""


@dataclass(frozen=True, slots=True)
class PlottedScore:
    """A score of the plot beside the player's others; `at_s` is its time in Unix seconds."""

    at: str
    at_s: int
    score: int
    plotted: float
    is_this: bool


async def show_case_page(request: web.Request) -> web.Response:
    """Draw a case."""
    edge, board, submission, moderator = await case_of(request)
    case = await read_case(edge, board, submission, moderator)
    playback = case.playback
    frame = board.policy.playback.frame_source
    return draw(
        request,
        "case.html",
        frames=[frame] if frame and case.has_recording else (),
        visit=await visit_of(request),
        current=QUEUE,
        case=case,
        board=board.policy,
        name=case.name or case.submission.player,
        findings=[
            (finding, range_figure(finding.value, finding.expected)) for finding in case.submission.findings
        ],
        scores=_plotted(case, board),
        around=await read_surroundings(edge, board, submission, moderator),
        statement=next((event for event in reversed(case.events) if "text" in event.detail), None),
        playback=playback.model_dump_json() if playback and case.has_recording else "",
        claimed=orjson.dumps(
            {"board": board.name, **case.submission.model_dump(include={"score", "ticks", "stats"})}
        ).decode(),
        decisions=offered_decisions(case, board.policy.moderation),
        settled=await settled_case(request),
        way=_way(request, "", **({"flow": "true"} if "flow" in request.query else {})),
    )


async def decide(request: web.Request) -> web.Response:
    """Decide a case; then open the next one, or the queue."""
    form, kind = await read_form(request), _kind_of(request)
    await _check_filters(request)
    body = {"code": form.get("code", ""), "note": form.get("note", "").strip()}
    message = form.get("message", "").strip()
    try:
        answer = await send_as_api(
            request,
            _HANDLERS[kind],
            body | ({"message": message} if message else {}),
            version=form.get("etag"),
        )
    except Problem as problem:
        if problem.kind is ProblemType.PRECONDITION_FAILED:
            return await _changed(request, problem)
        raise
    submission = request.match_info["submission"]
    is_back = kind is DecisionKind.UNDO or (kind is DecisionKind.HOLD and body["code"] != QUESTION)
    if is_back and not answer.get("check"):
        return go_to(request, _way(request, f"/console/cases/{submission}"))
    if "flow" in request.query:
        return go_to(request, await path_of_next(request, settled=submission))
    return go_to(request, _way(request, QUEUE, settled=submission))


async def enter_case(request: web.Request) -> web.Response:
    """Claim a case and open it, or for htmx say who is in it now. Who may not have it can still read it."""
    await read_form(request)
    edge, _, submission, moderator = await case_of(request, Ability.DECIDE)
    try:
        await claims.hold_case(edge, submission, moderator)
    except Problem as problem:
        if problem.kind not in _ELSEWHERE:
            raise
    if not is_fragment(request):
        return go_to(request, _way(request, f"/console/cases/{submission.submission_id}"))
    waiting = await stay_in_case(edge, submission, moderator)
    claim = claim_shown(waiting, now_ms=edge.clock()) if waiting else None
    return draw(request, "claim_line.html", visit=await visit_of(request), claim=claim)


async def leave_case(request: web.Request) -> web.Response:
    """Leave a case."""
    await read_form(request)
    await _check_filters(request)
    await send_as_api(request, _LEAVING[request.match_info["claim"]])
    return go_to(request, await path_of_next(request) if "flow" in request.query else _way(request, QUEUE))


async def _check_filters(request: web.Request) -> None:
    """Refuse the filters of the next page before anything is stored. Raises as `queue_request`."""
    queue_request_of(request, await moderator_anywhere(request, Ability.READ))


def _way(request: web.Request, path: str, **more: str) -> str:
    """Return an address with the filters of the queue from which the case was opened."""
    query = urlencode(more | filters_of(request))
    return f"{path}?{query}" if query else path


def _kind_of(request: web.Request) -> DecisionKind:
    try:
        return DecisionKind(request.match_info["decision"])
    except ValueError:
        raise Problem(ProblemType.NOT_FOUND, "there is no such decision") from None


async def _changed(request: web.Request, problem: Problem) -> web.Response:
    """Draw what happened to a case since the page that decided was read."""
    seen = expected_version(request)
    edge, board, submission, moderator = await case_of(request)
    case = await read_case(edge, board, submission, moderator)
    return draw(
        request,
        "case_changed_notice.html" if is_fragment(request) else "case_changed.html",
        status=problem.kind.status,
        case=case,
        events=[event for event in case.events if event.seq > seen],
    )


def _plotted(case: CaseFile, board: Board) -> Sequence[PlottedScore]:
    """Return the player's scores with that of the case, oldest first."""
    this, unit = case.submission, 10**board.policy.decimals
    moments = {score.submission: (score.achieved_at, score.score) for score in case.history}
    moments.setdefault(this.submission, (this.received_at, this.score))
    rows = [
        PlottedScore(at, (parse_rfc3339(at) or 0) // 1000, score, score / unit, submission == this.submission)
        for submission, (at, score) in moments.items()
    ]
    return sorted(rows, key=lambda row: row.at_s)
