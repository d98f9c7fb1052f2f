"""The page of one's own account: password, second factor, personal tokens, sessions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.auth.moderators import Ability
from gateway.edge.console.forms import read_form, send_as_api
from gateway.edge.console.page_drawing import draw, go_to
from gateway.edge.console.refusal_pages import SIGN_IN
from gateway.edge.console.sign_in_page import ways_in
from gateway.edge.console.visits import visit_of
from gateway.edge.console.wording import without_field
from gateway.edge.context import EDGE
from gateway.edge.moderation import own_account, own_sessions
from gateway.edge.moderation.logins import is_proven_lately
from gateway.edge.problems import Problem, ProblemType

ACCOUNT: Final = "/console/account"

QUIET: Final = 4
"""Modules of white around a QR code (ISO/IEC 18004, section 6.3.8)."""

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

_ENTERED: Final = web.RequestKey("entered", dict[str, str])
"""What was typed into the form for a token, which a refusal leaves there."""


async def show_account(request: web.Request) -> web.Response:
    """Draw the account of who asks."""
    return await _account(request)


def _showing_refusals(section: str) -> Callable[[Handler], Handler]:
    """Return a wrapper of a form's handler that draws the account again, with a refusal above its section."""

    def wrapped(handler: Handler) -> Handler:
        @wraps(handler)
        async def showing(request: web.Request) -> web.StreamResponse:
            try:
                return await handler(request)
            except Problem as problem:
                if problem.kind not in _SHOWN:
                    raise
                return await _account(request, problem=problem, section=section)

        return showing

    return wrapped


@_showing_refusals("password")
async def change_password(request: web.Request) -> web.Response:
    """Set another password. All sessions end, and this one too."""
    form = await read_form(request)
    if form.get("new", "") != form.get("again", ""):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "the two new passwords are not the same")
    body = {"password": form.get("password", ""), "new": form.get("new", "")}
    await send_as_api(request, own_account.change_password, body)
    return go_to(request, SIGN_IN)


@_showing_refusals("second-factor")
async def begin_second_factor(request: web.Request) -> web.Response:
    """Show the secret for an authenticator app."""
    form = await read_form(request)
    body = {"password": form.get("password", "")}
    begun = await send_as_api(request, own_account.begin_second_factor, body)
    return await _account(request, begun=begun | {"picture": _qr_code(begun["address"])})


def _qr_code(text: str) -> str:
    """Return a QR code as the address of an image, in black on white whatever the page's colours are."""
    import segno  # noqa: PLC0415 - who sets up an app is the first to need it

    code = segno.make(text, error="m", micro=False)
    return str(code.svg_data_uri(border=QUIET, light="#fff", omitsize=True))


@_showing_refusals("second-factor")
async def confirm_second_factor(request: web.Request) -> web.Response:
    """Have logins take a code from now on."""
    form = await read_form(request)
    await send_as_api(request, own_account.confirm_second_factor, {"code": form.get("code", "")})
    return go_to(request, f"{ACCOUNT}#second-factor")


@_showing_refusals("second-factor")
async def remove_second_factor(request: web.Request) -> web.Response:
    """Have logins take no code any more."""
    form = await read_form(request)
    await send_as_api(request, own_account.remove_second_factor, {"password": form.get("password", "")})
    return go_to(request, f"{ACCOUNT}#second-factor")


@_showing_refusals("tokens")
async def issue_token(request: web.Request) -> web.Response:
    """Issue a personal token, and show its text this once."""
    form = request[_ENTERED] = dict(await read_form(request))
    days = form.get("days", "")
    body = {
        "password": form.get("password"),
        "label": form.get("label", ""),
        "ability": form.get("ability", ""),
        "scopes": form.get("scopes", "").split(),
        "days": int(days) if days.isascii() and days.isdigit() and len(days) < 5 else 0,  # noqa: PLR2004
    }
    return await _account(request, issued=await send_as_api(request, own_account.issue_token, body))


@_showing_refusals("tokens")
async def revoke_token(request: web.Request) -> web.Response:
    """Revoke one of one's own tokens."""
    await read_form(request)
    await send_as_api(request, own_account.revoke_token)
    return go_to(request, f"{ACCOUNT}#tokens")


@_showing_refusals("sessions")
async def end_session(request: web.Request) -> web.Response:
    """End one of one's own sessions."""
    await read_form(request)
    await send_as_api(request, own_sessions.end_session)
    return go_to(request, f"{ACCOUNT}#sessions")


async def end_sessions(request: web.Request) -> web.Response:
    """End all of one's own sessions, and this one too."""
    await read_form(request)
    await send_as_api(request, own_sessions.end_sessions)
    return go_to(request, SIGN_IN)


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
        fault=_fault(request, problem),
        entered={} if issued else request.get(_ENTERED, {}),
        section=section,
        begun=begun,
        issued=issued,
        is_proven=session is not None and is_proven_lately(session.record, edge.clock()),
        **ways_in(request),
    )


def _fault(request: web.Request, problem: Problem | None) -> str:
    """Return a refusal for who is signed in, and can only have mistyped a password or a code."""
    if problem is None or problem.kind is not ProblemType.LOGIN_FAILED:
        return without_field(problem)
    is_code = request.path.endswith("/confirm")
    return f"The {'code' if is_code else 'password'} is wrong."
