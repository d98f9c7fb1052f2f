"""Handles logins, one's own sessions, and invitations."""

from __future__ import annotations

from aiohttp import web

from gateway.edge.auth.moderator_credentials import (
    COOKIE,
    LIFETIME_MS,
    Credential,
    Session,
    is_open,
    session_of,
)
from gateway.edge.auth.own_pages import refuse_foreign_pages, refuse_plain_http
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import SMALL_BODY, read_body
from gateway.edge.http.request import moderator_credential, parse_body
from gateway.edge.http.responses import json_response
from gateway.edge.moderation import logins
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import moderation_people as wire
from gateway.ledger.acts import Act
from gateway.ledger.moderation import sessions
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339


async def open_session(request: web.Request) -> web.Response:
    """Log in with name, password and code, and answer with the cookie of a new session."""
    edge = request.app[EDGE]
    refuse_foreign_pages(request, is_cookie=False)
    refuse_plain_http(request)
    new = parse_body(await read_body(request, SMALL_BODY), wire.NewLogin)
    client = logins.login_client_of(request)
    session = await logins.log_in(edge, new.name, new.password, new.code, client)
    response = json_response(session_shown(session), status=201)
    set_cookie(response, session)
    return response


async def show_session(request: web.Request) -> web.Response:
    """Return who sends the request, and what they may do."""
    return json_response(who_am_i(await moderator_credential(request)))


async def close_session(request: web.Request) -> web.Response:
    """Log out: end the session of the cookie, and take the cookie back."""
    await logins.log_out(request.app[EDGE], await session_of(request))
    response = json_response(wire.SessionsEnded(ended=1))
    forget_cookie(response)
    return response


async def list_sessions(request: web.Request) -> web.Response:
    """Return one's own open sessions."""
    credential = await moderator_credential(request)
    own = credential.session.record.session_id if credential.session else ""
    return json_response(await sessions_shown(request.app[EDGE], credential.account.name, own))


async def end_sessions(request: web.Request) -> web.Response:
    """End all of one's own sessions. A token cannot."""
    return await _end(request, None)


async def end_session(request: web.Request) -> web.Response:
    """End one of one's own sessions. A token cannot."""
    return await _end(request, request.match_info["session"])


async def show_invitation(request: web.Request) -> web.Response:
    """Return whom an invitation is for."""
    edge = request.app[EDGE]
    await edge.logins.charge(logins.login_client_of(request))
    name = await logins.invited_moderator(edge, request.match_info["invitation"])
    return json_response(wire.InvitationShown(moderator=name))


async def accept_invitation(request: web.Request) -> web.Response:
    """Set the password of whom an invitation is for."""
    refuse_foreign_pages(request, is_cookie=False)
    password = parse_body(await read_body(request, SMALL_BODY), wire.InvitationAccepted).password
    token, client = request.match_info["invitation"], logins.login_client_of(request)
    account = await logins.accept_invitation(request.app[EDGE], token, password, client)
    return json_response(wire.PasswordSet(moderator=account.name))


def set_cookie(response: web.StreamResponse, session: Session) -> None:
    """Give the browser the cookie of a session."""
    _put_cookie(response, session.token, LIFETIME_MS // 1000)


def forget_cookie(response: web.StreamResponse) -> None:
    """Take the cookie of a session back from the browser."""
    _put_cookie(response, "", 0)


def _put_cookie(response: web.StreamResponse, token: str, age_s: int) -> None:
    response.set_cookie(COOKIE, token, max_age=age_s, path="/", secure=True, httponly=True, samesite="Strict")


def session_shown(session: Session) -> wire.WhoAmI:
    """Return a session as an answer to its owner."""
    return who_am_i(Credential(session.moderator, session.account, session=session))


def who_am_i(credential: Credential) -> wire.WhoAmI:
    """Return who has a credential, and what it allows."""
    moderator, session, token = credential.moderator, credential.session, credential.token
    ends_ms = [each.expires_at_ms for each in (session and session.record, token) if each]
    return wire.WhoAmI(
        moderator=moderator.name,
        by="session" if session else "token",
        grants={scope: role.value for scope, role in moderator.grants.items()},
        players=sorted(moderator.players),
        second_factor=credential.account.has_second_factor,
        has_identity=credential.account.identity is not None,
        csrf=session.csrf if session else None,
        expires_at=rfc3339(min(ends_ms)),
    )


async def sessions_shown(edge: Edge, name: str, own: str = "") -> wire.SessionList:
    """Return the open sessions of an account; `own` is the one that asks."""
    now_ms = edge.clock()
    records = await edge.ledger.read(sessions.sessions_of(name), ReadKind.MODERATION)
    shown = [
        wire.SessionShown(
            session=record.session_id,
            is_this=record.session_id == own,
            browser=record.browser,
            address=record.address,
            created_at=rfc3339(record.created_at_ms),
            used_at=rfc3339(record.used_at_ms),
            expires_at=rfc3339(record.expires_at_ms),
        )
        for record in records
        if is_open(record, now_ms)
    ]
    return wire.SessionList(moderator=name, sessions=shown)


async def _end(request: web.Request, session_id: str | None) -> web.Response:
    edge, name = request.app[EDGE], (await session_of(request)).account.name
    act = Act(ACTOR + name, edge.clock())
    ended = await edge.ledger.write(sessions.end_sessions(name, act, session_id=session_id))
    if session_id is not None and not ended:
        raise Problem(ProblemType.NOT_FOUND, "you have no such session")
    return json_response(wire.SessionsEnded(ended=ended))
