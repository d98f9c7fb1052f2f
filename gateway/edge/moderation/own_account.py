"""Handles what moderators change of their own: password, second factor, personal tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderator_credentials import Session, session_of
from gateway.edge.auth.moderator_secrets import TOKEN_PREFIX, digest_of, new_id, new_secret
from gateway.edge.auth.moderators import Ability
from gateway.edge.auth.passwords import check_new_password
from gateway.edge.auth.second_factors import address_of, spelled
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import SMALL_BODY, read_body
from gateway.edge.http.request import moderator_credential, parse_body
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.account_refusals import account_refusals_as_problems
from gateway.edge.moderation.logins import (
    check_again,
    check_password,
    login_client_of,
    refuse_without_passwords,
    step_of_first_code,
)
from gateway.edge.players.names import displayed
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import moderation_people as wire
from gateway.ledger.acts import Act
from gateway.ledger.moderation import api_tokens, invitations, second_factors, sessions
from gateway.ledger.moderation.api_tokens import TokenRecord
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.runtime.clock import rfc3339

DAY_MS: Final = 24 * 3600 * 1000

TOKEN_BODY: Final = 8_192
"""Bytes of the longest body of a new token: with all its scopes."""


async def change_password(request: web.Request) -> web.Response:
    """Set another password of one's own. All sessions and tokens end."""
    edge, session = request.app[EDGE], await session_of(request)
    new = parse_body(await read_body(request, SMALL_BODY), wire.NewPassword)
    account = session.account
    refuse_without_passwords(edge)
    await check_password(edge, account, new.password, login_client_of(request))
    check_new_password(new.new, account.name)
    hashed = await edge.logins.passwords.hashed(new.new)
    change = invitations.change_password(account.name, account.password, hashed, _act(edge, session))
    await _write(edge, session, change)
    return json_response(wire.PasswordSet(moderator=account.name))


async def begin_second_factor(request: web.Request) -> web.Response:
    """Return the secret of a second factor, which has no effect before a code of it is confirmed."""
    edge, session = request.app[EDGE], await session_of(request)
    await _show_password(request, session)
    name, secret = session.account.name, edge.logins.second_factors.new_secret()
    sealed = edge.logins.second_factors.sealed(secret, name)
    await _write(edge, session, second_factors.begin_second_factor(name, sealed))
    return json_response(
        wire.SecondFactorBegun(secret=spelled(secret), address=address_of(secret, name)), status=201
    )


async def confirm_second_factor(request: web.Request) -> web.Response:
    """Have one's logins take a code from now on."""
    edge, session = request.app[EDGE], await session_of(request)
    code = parse_body(await read_body(request, SMALL_BODY), wire.SecondFactorCode).code
    account = session.account
    step = await step_of_first_code(edge, account, code, login_client_of(request))
    assert account.second_factor is not None
    await _write(
        edge,
        session,
        second_factors.confirm_second_factor(account.name, account.second_factor, step, _act(edge, session)),
    )
    return json_response(wire.SecondFactorShown(second_factor=True))


async def remove_second_factor(request: web.Request) -> web.Response:
    """Have one's logins take no code any more."""
    edge, session = request.app[EDGE], await session_of(request)
    await _show_password(request, session)
    removal = second_factors.remove_second_factor(session.account.name, _act(edge, session))
    await _write(edge, session, removal)
    return json_response(wire.SecondFactorShown(second_factor=False))


async def list_tokens(request: web.Request) -> web.Response:
    """Return one's own tokens that are in force."""
    credential = await moderator_credential(request)
    return json_response(await tokens_shown(request.app[EDGE], credential.account.name))


async def issue_token(request: web.Request) -> web.Response:
    """Return a new personal token, whose text is shown this once. A token cannot issue others."""
    edge, session = request.app[EDGE], await session_of(request)
    new = parse_body(await read_body(request, TOKEN_BODY), wire.NewToken)
    label = displayed(new.label, "label")
    for scope in new.scopes:
        if not session.moderator.reaches(scope):
            raise Problem(ProblemType.SCOPE_FORBIDDEN, f"scopes: you have no role on {scope}")
    await check_again(edge, session, new.password, login_client_of(request))
    now_ms = edge.clock()
    text, record = new_token(
        session.account.name, label, Ability(new.ability), new.scopes, now_ms, now_ms + new.days * DAY_MS
    )
    await _write(edge, session, api_tokens.issue_token(record, _act(edge, session)))
    shown = _token_shown(record)
    return json_response(wire.TokenIssued(**shown.model_dump(), text=text), status=201)


async def revoke_token(request: web.Request) -> web.Response:
    """Revoke one of one's own tokens. A token can revoke itself alone."""
    credential = await moderator_credential(request)
    if credential.token and credential.token.token_id != request.match_info["token"]:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "a token revokes itself alone: log in for the others")
    edge, name, token_id = request.app[EDGE], credential.account.name, request.match_info["token"]
    revoking = api_tokens.revoke_token(name, token_id, Act(ACTOR + name, edge.clock()))
    return token_revoked(token_id, is_revoked=await edge.ledger.write(revoking))


def token_revoked(token_id: str, *, is_revoked: bool) -> web.Response:
    """Return the answer to the revoking of a token. Raises `not-found` if there was none."""
    if not is_revoked:
        raise Problem(ProblemType.NOT_FOUND, "there is no such token")
    return json_response(wire.TokenRevoked(token=token_id))


async def tokens_shown(edge: Edge, name: str) -> wire.TokenList:
    """Return the tokens of an account that are in force."""
    now_ms = edge.clock()
    records = await edge.ledger.read(api_tokens.tokens_of(name), ReadKind.MODERATION)
    shown = [_token_shown(record) for record in records if now_ms < record.expires_at_ms]
    return wire.TokenList(moderator=name, tokens=shown)


def new_token(
    moderator: str, label: str, ability: Ability, scopes: Sequence[str], now_ms: int, expires_at_ms: int
) -> tuple[str, TokenRecord]:
    """Return the text of a new token, and what the ledger stores of it."""
    text = new_secret(TOKEN_PREFIX)
    record = TokenRecord(
        digest_of(text), new_id(), moderator, label, ability.value, tuple(scopes), now_ms, expires_at_ms
    )
    return text, record


async def _show_password(request: web.Request, session: Session) -> None:
    password = parse_body(await read_body(request, SMALL_BODY), wire.PasswordShown).password
    await check_password(request.app[EDGE], session.account, password, login_client_of(request))


async def _write(edge: Edge, session: Session, work: Operation[object]) -> None:
    """Do what a session asks for, unless it has ended by then. Raises what the ledger refuses."""
    with account_refusals_as_problems():
        await edge.ledger.write(sessions.while_open(session.record.digest, work))


def _act(edge: Edge, session: Session) -> Act:
    return Act(ACTOR + session.account.name, edge.clock())


def _token_shown(record: TokenRecord) -> wire.TokenShown:
    return wire.TokenShown(
        token=record.token_id,
        label=record.label,
        ability=record.ability,
        scopes=list(record.scopes),
        created_at=rfc3339(record.created_at_ms),
        expires_at=rfc3339(record.expires_at_ms),
    )
