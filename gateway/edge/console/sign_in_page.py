"""The pages for who is not signed in: sign in, sign out, and take an invitation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.edge.auth.moderator_credentials import session_of
from gateway.edge.auth.own_pages import refuse_foreign_pages, refuse_plain_http
from gateway.edge.console.forms import read_form
from gateway.edge.console.page_drawing import draw, go_to
from gateway.edge.console.refusal_pages import SIGN_IN, own_path
from gateway.edge.console.wording import without_field
from gateway.edge.context import EDGE
from gateway.edge.http.request import parse_body
from gateway.edge.moderation.logins import (
    accept_invitation,
    invited_moderator,
    log_in,
    log_out,
    login_client_of,
    open_session,
)
from gateway.edge.moderation.own_sessions import forget_cookie, set_cookie
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import moderation_people as wire

QUEUE: Final = "/console/queue"

_ON_THE_FORM: Final = {
    ProblemType.LOGIN_FAILED: "The name, the password or the code is wrong.",
    ProblemType.SECOND_FACTOR_REQUIRED: "Enter your password again, with the code of your authenticator app.",
    ProblemType.QUOTA_EXCEEDED: None,
    ProblemType.SCHEMA_VIOLATION: None,
    ProblemType.REDUCED_CAPACITY: None,
    ProblemType.INSECURE_ORIGIN: None,
    ProblemType.DEPENDENCY_UNAVAILABLE: None,
}
"""Refusals that the form itself shows, with what was entered; None shows the refusal's own words."""


async def show_sign_in(request: web.Request) -> web.Response:
    """Draw the form to sign in."""
    return _sign_in(request, {"next": request.query.get("next", ""), "name": ""})


async def sign_in(request: web.Request) -> web.Response:
    """Open a session, and go where somebody was going."""
    refuse_foreign_pages(request, is_cookie=True)
    form = await read_form(request)
    sent = orjson.dumps({field: form.get(field, "") for field in ("name", "password", "code")})
    try:
        refuse_plain_http(request)
        new, client = parse_body(sent, wire.NewLogin), login_client_of(request)
        session = await log_in(request.app[EDGE], new.name, new.password, new.code, client)
    except Problem as problem:
        if problem.kind not in _ON_THE_FORM:
            raise
        return _sign_in(request, form, problem)
    response = go_to(request, own_path(form.get("next"), QUEUE))
    set_cookie(response, session)
    return response


async def sign_out(request: web.Request) -> web.Response:
    """End the session."""
    await read_form(request)
    try:
        await log_out(request.app[EDGE], await session_of(request))
    except Problem as problem:
        if problem.kind is not ProblemType.TOKEN_INVALID:
            raise
    response = go_to(request, SIGN_IN)
    forget_cookie(response)
    return response


async def show_invitation(request: web.Request) -> web.Response:
    """Draw the form with which an invited moderator sets their password."""
    await request.app[EDGE].logins.charge(login_client_of(request))
    return await _invitation(request)


async def take_invitation(request: web.Request) -> web.Response:
    """Set the password of who is invited, and open a session, unless it takes a code too."""
    refuse_foreign_pages(request, is_cookie=True)
    edge, form, client = request.app[EDGE], await read_form(request), login_client_of(request)
    password = form.get("password", "")
    if password != form.get("again", ""):
        await edge.logins.charge(client)
        different = Problem(ProblemType.SCHEMA_VIOLATION, "the two passwords are not the same")
        return await _invitation(request, different)
    try:
        refuse_plain_http(request)
        account = await accept_invitation(edge, request.match_info["token"], password, client)
    except Problem as problem:
        if problem.kind not in _ON_THE_FORM or problem.kind is ProblemType.QUOTA_EXCEEDED:
            raise  # who is over the limit costs no reading either
        return await _invitation(request, problem)
    if account.has_second_factor:
        return go_to(request, SIGN_IN)
    response = go_to(request, QUEUE)
    set_cookie(response, await open_session(edge, account, client))
    return response


def _sign_in(
    request: web.Request, form: Mapping[str, str], problem: Problem | None = None, *, fault: str = ""
) -> web.Response:
    return draw(
        request,
        "sign_in.html",
        status=problem.kind.status if problem else 200,
        headers=problem.headers if problem else {},
        name=form.get("name", ""),
        next=own_path(form.get("next"), ""),
        fault=fault or _words_of(problem),
        needs_code=problem is not None and problem.kind is ProblemType.SECOND_FACTOR_REQUIRED,
        **ways_in(request),
    )


def ways_in(request: web.Request) -> dict[str, Any]:
    """Return what a page has to know of how people sign in here."""
    edge = request.app[EDGE]
    provider = edge.settings.oidc_name if edge.logins.provider else ""
    return {"provider": provider, "takes_passwords": edge.logins.takes_passwords}


def refused_sign_in(request: web.Request, problem: Problem) -> web.Response:
    """Return the form to sign in, above which is why the identity provider let nobody in."""
    return _sign_in(request, {}, problem, fault=without_field(problem))


async def _invitation(request: web.Request, problem: Problem | None = None) -> web.Response:
    name = await invited_moderator(request.app[EDGE], request.match_info["token"])
    return draw(
        request,
        "invitation.html",
        status=problem.kind.status if problem else 200,
        name=name,
        token=request.match_info["token"],
        fault=_words_of(problem),
        **ways_in(request),
    )


def _words_of(problem: Problem | None) -> str:
    """Return a refusal for who entered something."""
    if problem is None:
        return ""
    return _ON_THE_FORM.get(problem.kind) or without_field(problem)
