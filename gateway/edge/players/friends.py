"""Whom players follow: their own changes, the lists that trusted servers bring, and the copy that boards are read by."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.auth.trusted_servers import (
    authenticate_for_every_board,
    ledger_refusals_as_problems,
    operation_submission,
)
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import client_names, parse_body, player_of, read_body
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies, fields, outcomes
from gateway.ledger import index_pages
from gateway.ledger.players import friends as stored
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions import operations
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.transaction import Operation, Transaction
from gateway.records import FriendList
from policies.errors import FriendsFull, IndexUnavailable
from policies.limits import Rate

PROFILE_RATE: Final = Rate(per_minute=60, burst=120)
"""Changes that one player makes to whom they follow, to their groups, and to the boards they are on."""

ADDRESS_RATE: Final = Rate(per_minute=120, burst=1200)
"""The same of all players of one address; of a network `NETWORK_SHARE` times as many. Each may be a row for ever."""

LIST_BODY: Final = stored.FRIENDS_LIMIT * 80 + 1_024
"""A list of the longest ids, quoted and set apart."""

_PLAYER: Final[TypeAdapter[str]] = TypeAdapter(fields.PlayerId)


async def list_friends(request: web.Request) -> web.Response:
    """Whom the bearer follows, from the ledger."""
    edge, bearer = request.app[EDGE], player_of(request)
    found = await edge.ledger.read(stored.friends_of(bearer.subject), ReadKind.PLAYERS)
    names = await edge.ledger.read(index_pages.names_of(found.friends), ReadKind.PLAYERS)
    shown = [outcomes.FriendShown(player=each, name=names.get(each, each)) for each in found.friends]
    answer = outcomes.FriendsShown(player=found.player, total=len(shown), friends=shown)
    return json_response(answer, headers={"Cache-Control": "private, no-store"})


async def follow_player(request: web.Request) -> web.Response:
    """200 once the bearer follows the player, as before if they did."""
    edge, player = request.app[EDGE], player_of(request).subject
    friend = named_player(request)
    if friend == player:
        raise Problem(ProblemType.NOT_FOUND, "everybody is among their own friends already")
    return await _change(request, player, stored.follow(player, friend, now_ms=edge.clock()))


async def unfollow_player(request: web.Request) -> web.Response:
    """200 once the bearer does not follow the player, as before if they did not."""
    edge, player = request.app[EDGE], player_of(request).subject
    return await _change(request, player, stored.unfollow(player, named_player(request), now_ms=edge.clock()))


async def replace_friends(request: web.Request) -> web.Response:
    """200 once the player follows these and nobody else; sending the same operation again changes nothing."""
    edge, player = request.app[EDGE], named_player(request)
    body = await read_body(request, LIST_BODY)
    server = await authenticate_for_every_board(request, body)
    asked = parse_body(body, bodies.NewFriends)
    wanted = set(asked.friends) - {player}
    with ledger_refusals_as_problems():
        is_new = await edge.ledger.write(_replacing(server, asked.operation, player, wanted))
    if is_new:
        await _show(edge, await edge.ledger.read(stored.friends_of(player), ReadKind.PLAYERS))
    answer = outcomes.FriendsChanged(player=player, total=len(wanted))
    return json_response(answer, headers=replay_header(is_replay=not is_new))


async def friends_of(edge: Edge, player: str) -> FriendList:
    """Whom a player follows: the copy in the index, made anew from the ledger where there is none."""
    kept = await edge.friends.kept(player)
    if kept is None:
        kept = await edge.ledger.read(stored.friends_of(player), ReadKind.PLAYERS)
        await edge.friends.keep(kept)
    return kept


async def charge_profile(request: web.Request, player: str) -> None:
    """Raises `quota-exceeded` if the player, or all behind an address, have changed too much about themselves."""
    edge = request.app[EDGE]
    wait_ms = await edge.profile_limit.wait_ms(player)
    if wait_ms:
        raise quota_exceeded("profile", PROFILE_RATE, wait_ms)
    wait_ms = await edge.profile_changes.wait_ms(*client_names(edge, request))
    if wait_ms:
        raise quota_exceeded("address", ADDRESS_RATE, wait_ms)


def named_player(request: web.Request) -> str:
    """The player of the path. Raises `not-found` for what is no player id."""
    try:
        return _PLAYER.validate_python(request.match_info["player"])
    except ValidationError:
        raise Problem(ProblemType.NOT_FOUND, "no player has such an id") from None


async def _change(request: web.Request, player: str, change: Operation[FriendList]) -> web.Response:
    edge = request.app[EDGE]
    await charge_profile(request, player)
    try:
        changed = await edge.ledger.write(change)
    except FriendsFull:
        detail = f"a player follows at most {stored.FRIENDS_LIMIT} others"
        raise Problem(ProblemType.LIST_FULL, detail) from None
    await _show(edge, changed)
    return json_response(outcomes.FriendsChanged(player=player, total=len(changed.friends)))


def _replacing(server: ServerRequest, operation: str, player: str, wanted: set[str]) -> Operation[bool]:
    """True if the list was replaced now. Raises as `once` does."""
    said = orjson.dumps({"player": player, "friends": sorted(wanted)})

    async def work(tx: Transaction) -> bool:
        async def replace() -> None:
            held = await stored.load_friends(tx, player)
            await stored.change_friends(tx, held, wanted, now_ms=server.at_ms)

        return await operations.once(
            tx,
            server,
            replace,
            board="",
            player=player,
            operation_id=operation_submission(server.key_id, operation),
            content_digest=hashlib.sha256(said).digest(),
        )

    return work


async def _show(edge: Edge, friends: FriendList) -> None:
    """Puts the list in the place of its copy; without Redis the copy that is there expires."""
    with suppress(IndexUnavailable):
        await edge.friends.keep(friends)
