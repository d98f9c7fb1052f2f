"""The pages for admins: who moderates, what they may do where, and how they get in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderators import EVERYWHERE, Ability, ModeratorRole
from gateway.edge.console.forms import Form, read_form, send_as_api
from gateway.edge.console.page_drawing import draw, go_to
from gateway.edge.console.visits import visit_of
from gateway.edge.console.wording import without_field
from gateway.edge.context import EDGE
from gateway.edge.http.request import moderator_of
from gateway.edge.moderation import people
from gateway.edge.moderation.own_account import tokens_shown
from gateway.edge.moderation.own_sessions import sessions_shown
from gateway.edge.problems import Problem, ProblemType

PEOPLE: Final = "/console/people"

PAGE: Final = 50
"""Accounts of a page."""

GRANTS: Final = 50
"""Most scopes that a form has room for."""

EMPTY_ROWS: Final = 2
"""Rows of the form for further grants."""

_SHOWN: Final = frozenset(
    {
        ProblemType.NOT_FOUND,
        ProblemType.PRECONDITION_FAILED,
        ProblemType.SCHEMA_VIOLATION,
        ProblemType.STATE_CONFLICT,
    }
)
"""Refusals that are shown above the form that was sent."""

_TURNS: Final = {
    "disable": people.disable_person,
    "enable": people.enable_person,
    "invite": people.invite_person,
    "reset": people.reset_person,
}


async def show_people(request: web.Request) -> web.Response:
    """Draw the accounts, by name."""
    return await _people(request)


async def add_person(request: web.Request) -> web.Response:
    """Add an account, and show its invitation."""
    form = await read_form(request)
    body = {"name": form.get("name", "").strip().lower(), "grants": _grants(form)}
    try:
        made = await send_as_api(request, people.add_person, body)
    except Problem as problem:
        if problem.kind not in _SHOWN:
            raise
        return await _people(request, problem=problem, form=form)
    return await _people(request, invitation=made)


async def show_person(request: web.Request) -> web.Response:
    """Draw an account."""
    return await _person(request)


async def change_person(request: web.Request) -> web.Response:
    """Replace what an account is granted, and its own players."""
    form = await read_form(request)
    body = {"grants": _grants(form), "players": form.get("players", "").split()}
    return await _sent(request, people.change_person, body, form.get("etag"))


async def turn_person(request: web.Request) -> web.Response:
    """Disable or enable an account, invite its owner, or reset it."""
    form, turn = await read_form(request), request.match_info["turn"]
    if turn not in _TURNS:
        raise Problem(ProblemType.NOT_FOUND, "there is no such thing to do with an account")
    return await _sent(request, _TURNS[turn], None, form.get("etag"))


async def end_sessions_of_person(request: web.Request) -> web.Response:
    """End all sessions of an account."""
    await read_form(request)
    return await _sent(request, people.end_sessions_of_person, None, None)


async def revoke_token_of_person(request: web.Request) -> web.Response:
    """Revoke a token of an account."""
    await read_form(request)
    return await _sent(request, people.revoke_token_of_person, None, None)


async def _sent(
    request: web.Request,
    handler: Callable[[web.Request], Awaitable[web.Response]],
    body: dict[str, Any] | None,
    version: str | None,
) -> web.Response:
    try:
        answer = await send_as_api(request, handler, body, version=version)
    except Problem as problem:
        if problem.kind not in _SHOWN:
            raise
        return await _person(request, problem=problem)
    if "page" in answer:
        return await _person(request, invitation=answer)
    return go_to(request, f"{PEOPLE}/{request.match_info['moderator']}")


def _grants(form: Form) -> dict[str, str]:
    """Return the roles by scope that the rows of a form name; a row without a scope grants nothing."""
    rows = ((form.get(f"scope-{row}", "").strip(), form.get(f"role-{row}", "")) for row in range(GRANTS))
    return {scope: role for scope, role in rows if scope}


async def _people(
    request: web.Request, *, problem: Problem | None = None, form: Form | None = None, invitation: Any = None
) -> web.Response:
    await moderator_of(request, Ability.ADMINISTER, EVERYWHERE)
    after = request.query.get("after", "")
    shown = await people.people_shown(request.app[EDGE], after, PAGE)
    return draw(
        request,
        "people.html",
        status=problem.kind.status if problem else 200,
        visit=await visit_of(request),
        current=PEOPLE,
        people=shown.moderators,
        next_after=shown.moderators[-1].moderator if shown.next else "",
        is_first=not after,
        roles=list(ModeratorRole),
        fault=without_field(problem),
        name=(form or {}).get("name", ""),
        invitation=_link(request, invitation),
    )


async def _person(
    request: web.Request, *, problem: Problem | None = None, invitation: Any = None
) -> web.Response:
    edge, visit = request.app[EDGE], await visit_of(request)
    await moderator_of(request, Ability.ADMINISTER, EVERYWHERE)
    account = await people.account_named(edge, request.match_info["moderator"])
    person = people.moderator_shown(account)
    return draw(
        request,
        "person.html",
        status=problem.kind.status if problem else 200,
        visit=visit,
        current=PEOPLE,
        person=person,
        grants=[*person.grants.items(), *[("", "viewer")] * min(EMPTY_ROWS, GRANTS - len(person.grants))],
        roles=list(ModeratorRole),
        sessions=(await sessions_shown(edge, account.name)).sessions,
        tokens=(await tokens_shown(edge, account.name)).tokens,
        is_self=person.moderator == visit.moderator.name,
        fault=without_field(problem),
        invitation=_link(request, invitation),
    )


def _link(request: web.Request, invitation: Any) -> dict[str, str]:
    """Return whom an invitation is for, with the whole address of its page, to be handed on."""
    if not invitation:
        return {}
    address = f"{request.headers.get('Origin', '')}{invitation['page']}"
    return {"moderator": invitation["moderator"], "address": address}
