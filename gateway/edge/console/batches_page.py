"""The pages of batches: select, look at the preview, apply it, and take it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderator_secrets import new_id
from gateway.edge.auth.moderators import Ability
from gateway.edge.console.forms import Form, read_form, send_as_api
from gateway.edge.console.page_drawing import draw, go_to, is_fragment
from gateway.edge.console.visits import visit_of
from gateway.edge.console.wording import without_field
from gateway.edge.http.request import moderator_anywhere
from gateway.edge.moderation import batches
from gateway.edge.moderation.batches import batch_page, batches_listed
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.moderation.batch_items import LeftOut
from gateway.ledger.moderation.batches import BatchState
from gateway.settlement.batches import MOVES
from policies.decision_codes import CODES

BATCHES: Final = "/console/batches"

WORKING: Final = frozenset(
    state.value for state in (BatchState.SELECTING, BatchState.APPLYING, BatchState.REVERSING)
)
"""States that end by themselves, while a page tells how far they are."""

LEFT_OUT: Final[Mapping[str, str]] = {
    LeftOut.DECIDED_SINCE.value: "Decided on since the preview",
    LeftOut.NO_POLICY.value: "On a board without a policy",
    LeftOut.CLAIMED.value: "A colleague is in the case",
    LeftOut.NOT_YOURS.value: "Your own, or of your board",
    LeftOut.SECOND_APPROVAL.value: "Two moderators have to approve it",
    LeftOut.REFUSED.value: "The ledger takes no such decision on it",
    LeftOut.INCONCLUSIVE.value: "Judged again, it was inconclusive",
    LeftOut.DECIDED_BY_PERSON.value: "A person decided on it",
}
"""The reasons for which a batch leaves a submission, in words."""

_FIELDS: Final = ("board", "family", "player", "key", "build", "reason", "finding")
_TIMES: Final = ("received_since", "received_until", "achieved_since", "achieved_until")
_MINUTES: Final = len("2026-11-20T14:00")
_TURNS: Final = {
    "apply": batches.apply_batch,
    "reverse": batches.reverse_batch,
    "abandon": batches.abandon_batch,
}
_SHOWN: Final = frozenset(
    {
        ProblemType.IDEMPOTENCY_MISMATCH,
        ProblemType.NOT_FOUND,
        ProblemType.PRECONDITION_FAILED,
        ProblemType.SCHEMA_VIOLATION,
        ProblemType.SCOPE_FORBIDDEN,
        ProblemType.STATE_CONFLICT,
    }
)
"""Refusals that are shown above the form that was sent."""


async def show_batches(request: web.Request) -> web.Response:
    """Draw the batches, newest first, and the form for another."""
    return await _batches(request)


async def preview(request: web.Request) -> web.Response:
    """Make a batch of what a form selects, and open its preview."""
    form = await read_form(request)
    await moderator_anywhere(request, Ability.OVERRULE)
    try:
        made = await send_as_api(request, batches.make_batch, _body_of(form))
    except Problem as problem:
        if problem.kind not in _SHOWN:
            raise
        return await _batches(request, problem=problem, form=form)
    return go_to(request, f"{BATCHES}/{made['batch']}")


async def show_batch(request: web.Request) -> web.Response:
    """Draw a batch, or for htmx how far it is."""
    return await _batch(request)


async def turn_batch(request: web.Request) -> web.Response:
    """Apply a batch, reverse it, or let it go."""
    form, way = await read_form(request), request.match_info["way"]
    await moderator_anywhere(request, Ability.OVERRULE)
    try:
        await send_as_api(request, _TURNS[way], version=form.get("etag"))
    except Problem as problem:
        if problem.kind not in _SHOWN - {ProblemType.NOT_FOUND}:
            raise
        return await _batch(request, problem=problem)
    return go_to(request, BATCHES if way == "abandon" else f"{BATCHES}/{request.match_info['batch']}")


def _body_of(form: Form) -> dict[str, Any]:
    """Return what the API takes; a field that is empty selects nothing."""
    action, _, code = form.get("decision", "").partition(":")
    selection = {name: form.get(name, "").strip() for name in _FIELDS}
    selection |= {name: _moment(form.get(name, "").strip()) for name in _TIMES}
    return {
        "operation": form.get("operation", ""),
        "action": action,
        "code": code,
        "note": form.get("note", "").strip(),
        "message": form.get("message", "").strip() or None,
        "selection": {name: text for name, text in selection.items() if text},
    }


def _moment(text: str) -> str:
    """Return what a field of a day and a time says, which are of UTC."""
    return f"{text}:00Z" if len(text) == _MINUTES else f"{text}Z" if text else ""


async def _batches(
    request: web.Request, *, problem: Problem | None = None, form: Form | None = None
) -> web.Response:
    moderator = await moderator_anywhere(request, Ability.READ)
    shown = await batches_listed(request)
    return draw(
        request,
        "batches.html",
        status=problem.kind.status if problem else 200,
        visit=await visit_of(request),
        current=BATCHES,
        batches=shown.batches,
        next=shown.next,
        is_first="cursor" not in request.query,
        codes={kind.value: CODES[kind] for kind in MOVES},
        may_overrule=bool(moderator.scopes(Ability.OVERRULE)),
        operation=new_id(),
        entered=form or {},
        fault=without_field(problem),
    )


async def _batch(request: web.Request, *, problem: Problem | None = None) -> web.Response:
    moderator = await moderator_anywhere(request, Ability.READ)
    page = await batch_page(request)
    is_working = page.batch.state in WORKING
    if is_fragment(request) and request.method == "GET" and not is_working:
        return go_to(request, request.path)  # with what can be done with it now
    return draw(
        request,
        "batch_progress.html" if is_fragment(request) and request.method == "GET" else "batch.html",
        status=problem.kind.status if problem else 200,
        visit=await visit_of(request),
        current=BATCHES,
        batch=page.batch,
        items=page.items,
        next=page.next,
        is_first="cursor" not in request.query,
        is_working=is_working,
        may_turn=all(moderator.may(Ability.OVERRULE, scope) for scope in page.batch.scopes),
        left_out=LEFT_OUT,
        fault=without_field(problem),
    )
