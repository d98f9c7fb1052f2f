"""The page of one's own account: password, second factor, personal tokens, sessions."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.console.forms import read_form, send_as_api
from gateway.edge.console.page_drawing import draw, go_to
from gateway.edge.console.refusal_pages import SIGN_IN
from gateway.edge.console.visits import visit_of
from gateway.edge.console.wording import without_field
from gateway.edge.context import EDGE
from gateway.edge.moderation import own_account, own_sessions
from gateway.edge.problems import Problem, ProblemType

ACCOUNT: Final = "/console/account"

_SHOWN: Final = frozenset(
    {
        ProblemType.LOGIN_FAILED,
        ProblemType.NOT_FOUND,
        ProblemType.QUOTA_EXCEEDED,
        ProblemType.REDUCED_CAPACITY,
        ProblemType.SCHEMA_VIOLATION,
        ProblemType.SCOPE_FORBIDDEN,
        ProblemType.STATE_CONFLICT,
    }
)
"""Refusals that are shown above the form that was sent."""


async def show_account(request: web.Request) -> web.Response:
    """Draw the account of who asks."""
    return await _account(request)


async def change_password(request: web.Request) -> web.Response:
    """Set another password. All sessions end, and this one too."""
    form = await read_form(request)
    if form.get("new", "") != form.get("again", ""):
        different = Problem(ProblemType.SCHEMA_VIOLATION, "the two new passwords are not the same")
        return await _refused(request, different, "password")
    try:
        body = {"password": form.get("password", ""), "new": form.get("new", "")}
        await send_as_api(request, own_account.change_password, body)
    except Problem as problem:
        return await _refused(request, problem, "password")
    return go_to(request, SIGN_IN)


async def begin_second_factor(request: web.Request) -> web.Response:
    """Show the secret for an authenticator app."""
    form = await read_form(request)
    try:
        body = {"password": form.get("password", "")}
        begun = await send_as_api(request, own_account.begin_second_factor, body)
    except Problem as problem:
        return await _refused(request, problem, "second-factor")
    return await _account(request, begun=begun)


async def confirm_second_factor(request: web.Request) -> web.Response:
    """Have logins take a code from now on."""
    form = await read_form(request)
    try:
        body = {"code": form.get("code", "")}
        await send_as_api(request, own_account.confirm_second_factor, body)
    except Problem as problem:
        return await _refused(request, problem, "second-factor")
    return go_to(request, f"{ACCOUNT}#second-factor")


async def remove_second_factor(request: web.Request) -> web.Response:
    """Have logins take no code any more."""
    form = await read_form(request)
    try:
        body = {"password": form.get("password", "")}
        await send_as_api(request, own_account.remove_second_factor, body)
    except Problem as problem:
        return await _refused(request, problem, "second-factor")
    return go_to(request, f"{ACCOUNT}#second-factor")


async def issue_token(request: web.Request) -> web.Response:
    """Issue a personal token, and show its text this once."""
    form = await read_form(request)
    days = form.get("days", "")
    body = {
        "password": form.get("password", ""),
        "label": form.get("label", ""),
        "ability": form.get("ability", ""),
        "scopes": form.get("scopes", "").split(),
        "days": int(days) if days.isascii() and days.isdigit() and len(days) < 5 else 0,  # noqa: PLR2004
    }
    try:
        issued = await send_as_api(request, own_account.issue_token, body)
    except Problem as problem:
        return await _refused(request, problem, "tokens")
    return await _account(request, issued=issued)


async def revoke_token(request: web.Request) -> web.Response:
    """Revoke one of one's own tokens."""
    await read_form(request)
    try:
        await send_as_api(request, own_account.revoke_token)
    except Problem as problem:
        return await _refused(request, problem, "tokens")
    return go_to(request, f"{ACCOUNT}#tokens")


async def end_session(request: web.Request) -> web.Response:
    """End one of one's own sessions."""
    await read_form(request)
    try:
        await send_as_api(request, own_sessions.end_session)
    except Problem as problem:
        return await _refused(request, problem, "sessions")
    return go_to(request, f"{ACCOUNT}#sessions")


async def end_sessions(request: web.Request) -> web.Response:
    """End all of one's own sessions, and this one too."""
    await read_form(request)
    await send_as_api(request, own_sessions.end_sessions)
    return go_to(request, SIGN_IN)


async def _refused(request: web.Request, problem: Problem, section: str) -> web.Response:
    if problem.kind not in _SHOWN:
        raise problem
    return await _account(request, problem=problem, section=section)


async def _account(
    request: web.Request,
    *,
    problem: Problem | None = None,
    section: str = "",
    begun: Any = None,
    issued: Any = None,
) -> web.Response:
    edge, visit = request.app[EDGE], await visit_of(request)
    name, session = visit.credential.account.name, visit.credential.session
    own = session.record.session_id if session else ""
    return draw(
        request,
        "account.html",
        status=problem.kind.status if problem else 200,
        headers=problem.headers if problem else {},
        visit=visit,
        current=ACCOUNT,
        who=own_sessions.who_am_i(visit.credential),
        tokens=(await own_account.tokens_shown(edge, name)).tokens,
        sessions=(await own_sessions.sessions_shown(edge, name, own)).sessions,
        abilities=[ability for ability in Ability if visit.moderator.scopes(ability)],
        fault=without_field(problem),
        section=section,
        begun=begun,
        issued=issued,
    )
