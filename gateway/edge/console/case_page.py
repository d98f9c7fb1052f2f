"""The page of a case: everything that a decision rests on, and the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.console.expected_ranges import range_figure
from gateway.edge.console.forms import read_form, send_as_api
from gateway.edge.console.page_drawing import draw, go_to, is_fragment
from gateway.edge.console.possible_decisions import possible_decisions
from gateway.edge.console.queue_page import QUEUE, path_of_next
from gateway.edge.console.settled_cases import settled_case
from gateway.edge.console.visits import visit_of
from gateway.edge.http.preconditions import expected_version
from gateway.edge.moderation import claims, decisions
from gateway.edge.moderation.cases import case_of, read_case
from gateway.edge.moderation.surroundings import read_surroundings
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.outcomes import CaseFile
from gateway.runtime.clock import parse_rfc3339
from policies.decision_codes import DecisionKind
from policies.loader import Board

_HANDLERS: Final = {
    DecisionKind.APPROVE: decisions.approve,
    DecisionKind.REJECT: decisions.reject,
    DecisionKind.HOLD: decisions.hold,
    DecisionKind.REVOKE: decisions.revoke,
    DecisionKind.REINSTATE: decisions.reinstate,
    DecisionKind.UNDO: decisions.undo,
}

_CLAIMS: Final = {
    "claim": claims.claim,
    "release": claims.release,
    "skip": claims.skip,
    "cannot-tell": claims.cannot_tell,
}


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
    case = await read_case(edge, board, submission)
    moderation, playback = board.policy.moderation, case.playback
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
        playback=playback.model_dump_json() if playback and case.has_recording else "",
        claimed=orjson.dumps(
            {"board": board.name, **case.submission.model_dump(include={"score", "ticks", "stats"})}
        ).decode(),
        decisions=possible_decisions(case, moderation, moderator),
        templates=moderation.all_templates,
        undecidable=_undecidable(case, moderator),
        settled=await settled_case(request),
        is_in_flow="flow" in request.query,
    )


async def decide(request: web.Request) -> web.Response:
    """Decide a case; then open the next one, or the queue."""
    form, kind = await read_form(request), _kind_of(request)
    body = {"code": form.get("code", ""), "note": form.get("note", "").strip()}
    message = form.get("message", "").strip()
    try:
        await send_as_api(
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
    if kind in {DecisionKind.UNDO, DecisionKind.HOLD}:
        return go_to(request, f"/console/cases/{submission}")
    if form.get("flow"):
        return go_to(request, await path_of_next(request, settled=submission))
    return go_to(request, f"{QUEUE}?settled={submission}")


async def move_claim(request: web.Request) -> web.Response:
    """Enter a case, or leave it."""
    form, what = await read_form(request), request.match_info["claim"]
    if what not in _CLAIMS:
        raise Problem(ProblemType.NOT_FOUND, "there is no such thing to do with a case")
    await send_as_api(request, _CLAIMS[what])
    if what == "claim":
        return go_to(request, f"/console/cases/{request.match_info['submission']}")
    return go_to(request, await path_of_next(request) if form.get("flow") else QUEUE)


def _kind_of(request: web.Request) -> DecisionKind:
    try:
        return DecisionKind(request.match_info["decision"])
    except ValueError:
        raise Problem(ProblemType.NOT_FOUND, "there is no such decision") from None


async def _changed(request: web.Request, problem: Problem) -> web.Response:
    """Draw what happened to a case since the page that decided was read."""
    seen = expected_version(request)
    edge, board, submission, _ = await case_of(request)
    case = await read_case(edge, board, submission)
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


def _undecidable(case: CaseFile, moderator: Moderator) -> str:
    """Return why this moderator can decide nothing here."""
    if not moderator.may(Ability.DECIDE, case.submission.board):
        return "Your role on this board is to read. A moderator of the board decides."
    return "Nothing waits for a moderator here, and nothing stands on the board that could be taken off."
