"""Handles what admins change of accounts: who has one, what it is granted, and how it gets in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from aiohttp import web

from gateway.edge.auth.moderator_secrets import digest_of, new_secret
from gateway.edge.auth.moderators import EVERYWHERE, Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import read_body
from gateway.edge.http.preconditions import etag, expected_version
from gateway.edge.http.request import moderator_of, parse_body, whole_number
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.account_refusals import account_refusals_as_problems
from gateway.edge.moderation.own_account import token_revoked, tokens_shown
from gateway.edge.moderation.own_sessions import sessions_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import moderation_people as wire
from gateway.ledger.acts import Act
from gateway.ledger.moderation import accounts, api_tokens, invitations, sessions
from gateway.ledger.moderation.account_rows import Account
from gateway.ledger.moderation.invitations import Invitation
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.runtime.clock import rfc3339

T = TypeVar("T")

INVITATION_MS: Final = 72 * 3600 * 1000
"""The time in which an invitation can be accepted."""

INVITATION_PAGE: Final = "/console/invitations/"
"""The page on which an invitation is accepted; its token follows."""

ACCOUNT_BODY: Final = 16_384
"""Bytes of the longest body of an account: with all its scopes and players."""

PAGE_LIMIT: Final = 100

_LISTED: Final = ("moderators",)


async def list_people(request: web.Request) -> web.Response:
    """Return a page of the accounts, by name."""
    edge = request.app[EDGE]
    await _admin(request)
    [after] = edge.cursors.place_in(request, _LISTED) or [""]
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    return json_response(await people_shown(edge, after, count))


async def people_shown(edge: Edge, after: str, count: int) -> wire.ModeratorList:
    """Return a page of the accounts, by name, after one."""
    found = await edge.ledger.read(accounts.accounts_after(after, count=count + 1), ReadKind.MODERATION)
    shown, more = found[:count], found[count:]
    place = (shown[-1].name,) if more else None
    return wire.ModeratorList(
        moderators=[moderator_shown(account) for account in shown], next=edge.cursors.next_of(_LISTED, place)
    )


async def show_person(request: web.Request) -> web.Response:
    """Return an account. Its ETag is the version that changes name."""
    await _admin(request)
    return _shown(await account_named(request.app[EDGE], request.match_info["moderator"]))


async def add_person(request: web.Request) -> web.Response:
    """Add an account, and return its invitation."""
    edge, admin = request.app[EDGE], await _admin(request)
    new = parse_body(await read_body(request, ACCOUNT_BODY), wire.NewModerator)
    made = await add_moderator(edge, admin, new)
    return json_response(made, status=201, headers={"ETag": made.etag})


async def add_moderator(edge: Edge, admin: Moderator, new: wire.NewModerator) -> wire.InvitationMade:
    """Add an account, and return its invitation. Raises `schema-violation` and `state-conflict`."""
    await _check_scopes(edge, new.grants)
    token, invitation = new_invitation(edge.clock())
    adding = accounts.add_account(
        new.name, new.grants, _act(edge, admin), players=new.players, invitation=invitation
    )
    account = await _write(edge, admin, adding)
    return invitation_made(account, token, invitation)


async def change_person(request: web.Request) -> web.Response:
    """Replace what an account is granted, and its own players."""
    edge, admin = request.app[EDGE], await _admin(request)
    version, name = expected_version(request), request.match_info["moderator"]
    new = parse_body(await read_body(request, ACCOUNT_BODY), wire.ModeratorChange)
    return _shown(await change_moderator(edge, admin, name, new, version))


async def change_moderator(
    edge: Edge, admin: Moderator, name: str, new: wire.ModeratorChange, version: int
) -> Account:
    """Replace what an account is granted. Raises `state-conflict`, `precondition-failed`, `not-found`."""
    await _check_scopes(edge, new.grants)
    change = accounts.change_account(
        name, _act(edge, admin), grants=new.grants, players=new.players, version=version
    )
    return await _written(edge, admin, name, change)


async def disable_person(request: web.Request) -> web.Response:
    """Disable an account: its sessions, tokens and invitation end at once."""
    return await _turn(request, accounts.disable_account)


async def enable_person(request: web.Request) -> web.Response:
    """Let a disabled account log in again."""
    return await _turn(request, accounts.enable_account)


async def invite_person(request: web.Request) -> web.Response:
    """Return a new invitation for an account, in the place of an earlier one."""
    return await _invite(request, is_reset=False)


async def reset_person(request: web.Request) -> web.Response:
    """Take password, second factor, sessions and tokens from an account, and return a new invitation."""
    return await _invite(request, is_reset=True)


async def list_sessions_of_person(request: web.Request) -> web.Response:
    """Return the open sessions of an account."""
    edge = request.app[EDGE]
    await _admin(request)
    account = await account_named(edge, request.match_info["moderator"])
    return json_response(await sessions_shown(edge, account.name))


async def end_sessions_of_person(request: web.Request) -> web.Response:
    """End all sessions of an account."""
    edge, admin = request.app[EDGE], await _admin(request)
    account = await account_named(edge, request.match_info["moderator"])
    ended = await _write(edge, admin, sessions.end_sessions(account.name, _act(edge, admin)))
    return json_response(wire.SessionsEnded(ended=ended))


async def list_tokens_of_person(request: web.Request) -> web.Response:
    """Return the tokens of an account that are in force."""
    edge = request.app[EDGE]
    await _admin(request)
    account = await account_named(edge, request.match_info["moderator"])
    return json_response(await tokens_shown(edge, account.name))


async def revoke_token_of_person(request: web.Request) -> web.Response:
    """Revoke a token of an account."""
    edge, admin = request.app[EDGE], await _admin(request)
    name, token_id = request.match_info["moderator"], request.match_info["token"]
    revoking = api_tokens.revoke_token(name, token_id, _act(edge, admin))
    return token_revoked(token_id, is_revoked=await _write(edge, admin, revoking))


async def account_named(edge: Edge, name: str) -> Account:
    """Return an account. Raises `not-found`."""
    account = await edge.ledger.read(accounts.account_of(name), ReadKind.MODERATION)
    if account is None:
        raise Problem(ProblemType.NOT_FOUND, "no moderator has this name")
    return account


def new_invitation(now_ms: int) -> tuple[str, Invitation]:
    """Return the token of a new invitation, and what the ledger stores of it."""
    token = new_secret()
    return token, Invitation(digest_of(token), now_ms + INVITATION_MS)


def invitation_made(account: Account, token: str, invitation: Invitation) -> wire.InvitationMade:
    """Return an invitation as an answer."""
    return wire.InvitationMade(
        moderator=account.name,
        page=INVITATION_PAGE + token,
        expires_at=rfc3339(invitation.expires_at_ms),
        etag=etag(account.version),
    )


def moderator_shown(account: Account) -> wire.ModeratorShown:
    """Return an account as an answer, without its secrets."""
    return wire.ModeratorShown(
        moderator=account.name,
        grants=dict(account.grants),
        players=list(account.players),
        has_password=account.password is not None,
        has_identity=account.identity is not None,
        second_factor=account.has_second_factor,
        created_at=rfc3339(account.created_at_ms),
        disabled_at=None if account.disabled_at_ms is None else rfc3339(account.disabled_at_ms),
        etag=etag(account.version),
    )


async def _admin(request: web.Request) -> Moderator:
    return await moderator_of(request, Ability.ADMINISTER, EVERYWHERE)


async def _turn(request: web.Request, turn: Callable[..., Operation[Account]]) -> web.Response:
    edge, admin = request.app[EDGE], await _admin(request)
    name, version = request.match_info["moderator"], expected_version(request)
    return _shown(await _written(edge, admin, name, turn(name, _act(edge, admin), version=version)))


async def _invite(request: web.Request, *, is_reset: bool) -> web.Response:
    edge, admin = request.app[EDGE], await _admin(request)
    name, version = request.match_info["moderator"], expected_version(request)
    if name == admin.name:  # which would set a password without the old one, and without a code
        raise Problem(ProblemType.STATE_CONFLICT, "it is your own account: another admin has to invite you")
    token, invitation = new_invitation(edge.clock())
    work = invitations.invite(name, invitation, _act(edge, admin), is_reset=is_reset, version=version)
    made = invitation_made(await _written(edge, admin, name, work), token, invitation)
    return json_response(made, status=201, headers={"ETag": made.etag})


async def _written(edge: Edge, admin: Moderator, name: str, work: Operation[Account]) -> Account:
    """Return an account as a change leaves it. Raises `not-found`, and what the ledger refuses."""
    await account_named(edge, name)  # accounts are never removed
    return await _write(edge, admin, work)


async def _write(edge: Edge, admin: Moderator, work: Operation[T]) -> T:
    """Do what an admin asks for, unless they are none by then. Raises what the ledger refuses."""
    with account_refusals_as_problems():
        return await edge.ledger.write(accounts.while_admin(admin.name, work))


async def _check_scopes(edge: Edge, scopes: Iterable[str]) -> None:
    """Raise `schema-violation` for a scope that is no board and no family."""
    for scope in scopes:
        is_known = scope == EVERYWHERE or scope in edge.catalogue.policies.by_name
        if not is_known and await edge.catalogue.board(scope) is None:
            raise Problem(ProblemType.SCHEMA_VIOLATION, f"grants: there is no board or family {scope}")


def _shown(account: Account) -> web.Response:
    return json_response(moderator_shown(account), headers={"ETag": etag(account.version)})


def _act(edge: Edge, admin: Moderator) -> Act:
    return Act(ACTOR + admin.name, edge.clock())
