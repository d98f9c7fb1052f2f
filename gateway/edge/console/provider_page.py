"""The pages between the console and the identity provider: on the way there, and on the way back."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.edge.auth.login_attempts import ATTEMPT_MS
from gateway.edge.auth.own_pages import address_at, refuse_foreign_pages, refuse_plain_http
from gateway.edge.console.forms import read_form
from gateway.edge.console.page_drawing import draw
from gateway.edge.console.refusal_pages import own_path
from gateway.edge.console.sign_in_page import QUEUE, refused_sign_in
from gateway.edge.context import EDGE
from gateway.edge.moderation.logins import login_client_of
from gateway.edge.moderation.own_sessions import set_cookie
from gateway.edge.moderation.provider_logins import REDIRECT, begin_login, end_login
from gateway.edge.problems import Problem, ProblemType

ATTEMPT_COOKIE: Final = "__Host-scoregate-login"
"""The cookie of a login under way. The provider's site sends people back, so it is not `Strict`."""

_ON_THE_PAGE: Final = frozenset(
    {
        ProblemType.DEPENDENCY_UNAVAILABLE,
        ProblemType.INSECURE_ORIGIN,
        ProblemType.LOGIN_FAILED,
        ProblemType.QUOTA_EXCEEDED,
        ProblemType.STATE_CONFLICT,
    }
)
"""Refusals that are shown above the form to sign in."""


async def begin_at_provider(request: web.Request) -> web.Response:
    """Send somebody to the provider, to log in, or to prove once more who they are."""
    refuse_foreign_pages(request, is_cookie=True)
    form = await read_form(request)
    next_page = own_path(form.get("next"), QUEUE)
    return await _leave(request, next_page=next_page, is_again=form.get("again") == "true")


async def accept_at_provider(request: web.Request) -> web.Response:
    """Send somebody who is invited to the provider, through which they log in from then on."""
    refuse_foreign_pages(request, is_cookie=True)
    await read_form(request)
    return await _leave(request, next_page=QUEUE, invitation=request.match_info["token"])


async def come_back(request: web.Request) -> web.Response:
    """Open the session of who comes back from the provider.

    The page goes on by itself. A redirect would still count as the provider's, and browsers would not send
    the session's `Strict` cookie with it.
    """
    edge, client = request.app[EDGE], login_client_of(request)
    cookie = request.cookies.get(ATTEMPT_COOKIE, "")
    try:
        login = await end_login(edge, client, _redirect(request), request.query, cookie)
    except Problem as problem:
        if problem.kind not in _ON_THE_PAGE:
            raise
        response = refused_sign_in(request, problem)
    else:
        response = draw(request, "leaving.html", title="You are signed in", address=login.next)
        set_cookie(response, login.session)
    _put_attempt(response, "", 0)
    return response


async def _leave(
    request: web.Request, *, next_page: str, invitation: str = "", is_again: bool = False
) -> web.Response:
    """Return a page that leads to the provider.

    It is no redirect, which `form-action 'self'` would stop: the console's forms send to no other site.
    """
    edge, client = request.app[EDGE], login_client_of(request)
    try:
        refuse_plain_http(request)
        address, attempt = await begin_login(
            edge, client, _redirect(request), next_page=next_page, invitation=invitation, is_again=is_again
        )
    except Problem as problem:
        if problem.kind not in _ON_THE_PAGE:
            raise
        return refused_sign_in(request, problem)
    response = draw(
        request, "leaving.html", title=f"On the way to {edge.settings.oidc_name}", address=address
    )
    _put_attempt(response, attempt, ATTEMPT_MS // 1000)
    return response


def _redirect(request: web.Request) -> str:
    """Return the address to which the provider sends people back: at the host where they began."""
    return address_at(request.host.lower(), REDIRECT)


def _put_attempt(response: web.StreamResponse, text: str, age_s: int) -> None:
    response.set_cookie(
        ATTEMPT_COOKIE, text, max_age=age_s, path="/", secure=True, httponly=True, samesite="Lax"
    )
