"""Creates players, signs them in by their identities, and links identities to whoever is signed in."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final, TypeVar

from aiohttp import web

from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import SMALL_BODY, read_body
from gateway.edge.http.request import parse_body, player_of, while_good
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.identities.own_tokens import token_for
from gateway.edge.identities.recovery_codes import new_recovery_code, read_recovery_code
from gateway.edge.identities.shown_identity import (
    ShownIdentity,
    charge_sign_in,
    device_identity,
    shown_identity,
    sign_in_failed,
)
from gateway.edge.players.friends import charge_profile
from gateway.edge.players.names import display_name
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.bodies import NewPlayer
from gateway.edge.wire.identity_answers import SignedIn
from gateway.edge.wire.identity_bodies import SignIn
from gateway.edge.wire.outcomes import PlayerCreated
from gateway.ledger import queries
from gateway.ledger.acts import Act
from gateway.ledger.name_keys import search_key
from gateway.ledger.players import identities as stored
from gateway.ledger.players.identities import DEVICE, RECOVERY, Identity, NewcomersName, PlayerSignedIn
from gateway.ledger.players.player_names import unnamed
from gateway.ledger.transaction import Operation
from policies.errors import CredentialUsed, IdentitiesFull, IdentityTaken, NameTaken

T = TypeVar("T")

CREDENTIAL_BODY: Final = 20_000
"""Bytes of a sign-in: tokens and tickets are longer than other small bodies."""

_PRIVATE: Final = {"Cache-Control": "no-store"}


async def create_player(request: web.Request) -> web.Response:
    """Answer 201 with a new anonymous player and its token, or with the player whom this device has."""
    edge = request.app[EDGE]
    body = parse_body(await read_body(request, SMALL_BODY), NewPlayer)
    await charge_sign_in(request)
    newcomer = await _newcomer(edge, body.name)
    code = new_recovery_code() if body.recovery_code else None
    if body.device_key is None and code is None:
        return await _add_anonymous(edge, newcomer)
    recovery = None if code is None else recovery_identity(edge, code)
    device = None if body.device_key is None else device_identity(request, body.device_key)
    first = device or recovery
    assert first is not None
    with_code = recovery if device else None
    signed_in = await stored_or_refused(
        edge, stored.sign_in(first, newcomer, act_of(edge, newcomer.player), recovery=with_code)
    )
    assert signed_in is not None
    return _created(edge, signed_in, code if signed_in.is_new else None)


async def sign_in(request: web.Request) -> web.Response:
    """Answer 200 with the player whom a credential shows, who is created if there is none.

    With a bearer, the identity is linked to the bearer's player.
    """
    edge = request.app[EDGE]
    bearer = await player_of(request) if "Authorization" in request.headers else None
    body = parse_body(await read_body(request, CREDENTIAL_BODY), SignIn)
    shown = await shown_identity(request, body.provider, body.credential)
    if bearer is not None:
        return _signed_in(edge, await _linked(request, shown, bearer))
    newcomer = None if body.provider in {DEVICE, RECOVERY} else await _newcomer(edge, body.name)
    act = act_of(edge, newcomer.player if newcomer else "")
    signed_in = await stored_or_refused(edge, stored.sign_in(shown.identity, newcomer, act, once=shown.once))
    if signed_in is None:
        raise sign_in_failed()
    return _signed_in(edge, signed_in)


async def _linked(request: web.Request, shown: ShownIdentity, bearer: Bearer) -> PlayerSignedIn:
    edge, player = request.app[EDGE], bearer.subject
    await charge_profile(request, player)
    linking = stored.link(shown.identity, player, act_of(edge, player), once=shown.once)
    linked = await stored_or_refused(edge, while_good(bearer, linking))
    if linked is None:
        raise sign_in_failed()
    return linked


async def stored_or_refused(edge: Edge, work: Operation[T]) -> T:
    """Return what a sign-in comes to. Raises the problem of what the ledger refuses."""
    try:
        return await edge.ledger.write(work)
    except NameTaken:
        raise Problem(ProblemType.NAME_TAKEN, "choose another name") from None
    except IdentityTaken:
        detail = "it shows another player than the one you are signed in as; to be one player, merge them"
        raise Problem(ProblemType.IDENTITY_TAKEN, detail) from None
    except IdentitiesFull:
        detail = f"a player has at most {stored.IDENTITIES_LIMIT} identities; take one away"
        raise Problem(ProblemType.LIST_FULL, detail) from None
    except CredentialUsed:
        raise sign_in_failed("it was used before: get a fresh one from the provider") from None


async def _newcomer(edge: Edge, wish: str | None) -> NewcomersName:
    """Return the id and the name that a new player gets. Raises `schema-violation`."""
    player = "p" + secrets.token_hex(10)
    name = display_name(wish) if wish and wish.strip() else unnamed(player)
    await asyncio.to_thread(search_key, name)  # the first key of a process loads a table
    return NewcomersName(player, name, edge.settings.unique_names)


async def _add_anonymous(edge: Edge, new: NewcomersName) -> web.Response:
    adding = queries.add_player(new.player, new.name, now_ms=edge.clock(), is_unique=new.is_unique)
    try:
        await edge.ledger.write(adding)
    except NameTaken:
        raise Problem(ProblemType.NAME_TAKEN, "choose another name") from None
    return _created(edge, PlayerSignedIn(new.player, new.name, 0, is_new=True), None)


def _created(edge: Edge, signed_in: PlayerSignedIn, code: str | None) -> web.Response:
    player, name, generation, is_new = signed_in
    token = token_for(edge, player, generation=generation)
    answer = PlayerCreated(player=player, name=name or unnamed(player), token=token, recovery_code=code)
    return json_response(answer, status=201, headers=_PRIVATE | replay_header(is_replay=not is_new))


def _signed_in(edge: Edge, signed_in: PlayerSignedIn) -> web.Response:
    player, name, generation, is_new = signed_in
    token = token_for(edge, player, generation=generation)
    answer = SignedIn(player=player, name=name or unnamed(player), token=token, is_new=is_new)
    return json_response(answer, headers=_PRIVATE)


def recovery_identity(edge: Edge, code: str) -> Identity:
    """Return the identity of a recovery code of ours."""
    read = read_recovery_code(code)
    assert read is not None
    return edge.identities.digests.identity(RECOVERY, read)


def act_of(edge: Edge, player: str) -> Act:
    """Return what a player does now as an act."""
    return Act(f"player:{player}", edge.clock())
