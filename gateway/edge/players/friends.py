"""Friend lists: changed by players, replaced by trusted servers, and copied to the index for reads."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.auth.tokens import Bearer
from gateway.edge.auth.trusted_servers import (
    authenticate_for_every_board,
    ledger_refusals_as_problems,
    operation_submission,
)
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import read_signed
from gateway.edge.http.request import client_names, parse_body, player_of, while_good
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies, fields, outcomes
from gateway.ledger import index_pages
from gateway.ledger.players import friends as stored
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions import operations
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.transaction import Operation, Transaction
from gateway.shared_records import FriendList
from policies.errors import FriendsFull, IndexUnavailable
from policies.limits import Rate

PROFILE_RATE: Final = Rate(per_minute=60, burst=120)
"""Changes that one player may make to friends, groups and joined boards."""

ADDRESS_RATE: Final = Rate(per_minute=120, burst=1200)
"""The same for all players of one address; a network gets `NETWORK_SHARE` times as many.

Each change may be a row for ever.
"""

LIST_BODY: Final = stored.FRIENDS_LIMIT * 80 + 1_024
"""Bytes of the longest list: the longest ids, quoted, with commas."""

_PLAYER: Final[TypeAdapter[str]] = TypeAdapter(fields.PlayerId)


async def list_friends(request: web.Request) -> web.Response:
    """Return the players whom the bearer follows, from the ledger."""
    edge, bearer = request.app[EDGE], await player_of(request)
    friends = await edge.ledger.read(stored.friends_of(bearer.subject), ReadKind.PLAYERS)
    names = await edge.ledger.read(index_pages.names_of(friends.friends), ReadKind.PLAYERS)
    shown = [
        outcomes.FriendShown(player=player, name=names.get(player, player)) for player in friends.friends
    ]
    answer = outcomes.FriendsShown(player=friends.player, total=len(shown), friends=shown)
    return json_response(answer, headers={"Cache-Control": "private, no-store"})


async def follow_player(request: web.Request) -> web.Response:
    """Answer 200 once the bearer follows the player. Following a friend again changes nothing."""
    edge, bearer, friend = request.app[EDGE], await player_of(request), named_player(request)
    if friend == bearer.subject:
        raise Problem(ProblemType.NOT_FOUND, "you are always among your own friends")
    return await _change(request, bearer, stored.follow(bearer.subject, friend, now_ms=edge.clock()))


async def unfollow_player(request: web.Request) -> web.Response:
    """Answer 200 once the bearer does not follow the player. Unfollowing a stranger changes nothing."""
    edge, bearer, friend = request.app[EDGE], await player_of(request), named_player(request)
    return await _change(request, bearer, stored.unfollow(bearer.subject, friend, now_ms=edge.clock()))


async def replace_friends(request: web.Request) -> web.Response:
    """Answer 200 once the player follows exactly these. Sending the same operation again changes nothing."""
    edge, player = request.app[EDGE], named_player(request)
    server, body = await read_signed(request, LIST_BODY, authenticate_for_every_board)
    new = parse_body(body, bodies.NewFriends)
    wanted = set(new.friends) - {player}
    with ledger_refusals_as_problems(new.operation):
        is_new = await edge.ledger.write(_replacement(server, new.operation, player, wanted))
    if is_new:
        await _show(edge, await edge.ledger.read(stored.friends_of(player), ReadKind.PLAYERS))
    answer = outcomes.FriendsChanged(player=player, total=len(wanted))
    return json_response(answer, headers=replay_header(is_replay=not is_new))


async def friends_of(edge: Edge, player: str) -> FriendList:
    """Return whom a player follows, from the index; copy it there from the ledger if it is missing."""
    friends = await edge.friends.kept(player)
    if friends is None:
        friends = await edge.ledger.read(stored.friends_of(player), ReadKind.PLAYERS)
        await edge.friends.keep(friends)
    return friends


async def charge_profile(request: web.Request, player: str) -> None:
    """Count a change of a profile. Raises `quota-exceeded` if the player or the address made too many."""
    edge = request.app[EDGE]
    wait_ms = await edge.profile_limit.wait_ms(player)
    if wait_ms:
        raise quota_exceeded("profile", PROFILE_RATE, wait_ms)
    wait_ms = await edge.profile_changes.wait_ms(*client_names(edge, request))
    if wait_ms:
        raise quota_exceeded("address", ADDRESS_RATE, wait_ms)


def named_player(request: web.Request) -> str:
    """Return the player of the path. Raises `not-found` for an impossible id."""
    try:
        return _PLAYER.validate_python(request.match_info["player"])
    except ValidationError:
        raise Problem(ProblemType.NOT_FOUND, "no player can have this id") from None


async def _change(request: web.Request, bearer: Bearer, change: Operation[FriendList]) -> web.Response:
    edge = request.app[EDGE]
    await charge_profile(request, bearer.subject)
    try:
        changed = await edge.ledger.write(while_good(bearer, change))
    except FriendsFull:
        detail = f"a player follows at most {stored.FRIENDS_LIMIT} others"
        raise Problem(ProblemType.LIST_FULL, detail) from None
    await _show(edge, changed)
    return json_response(outcomes.FriendsChanged(player=bearer.subject, total=len(changed.friends)))


def _replacement(server: ServerRequest, operation: str, player: str, wanted: set[str]) -> Operation[bool]:
    """Replace the list, and return whether this request did it. Raises like `once`."""
    content = orjson.dumps({"player": player, "friends": sorted(wanted)})

    async def work(tx: Transaction) -> bool:
        async def replace() -> None:
            friends = await stored.load_friends(tx, player)
            await stored.change_friends(tx, friends, wanted, now_ms=server.at_ms)

        return await operations.once(
            tx,
            server,
            replace,
            board="",
            player=player,
            operation_id=operation_submission(server.key_id, operation),
            content_digest=hashlib.sha256(content).digest(),
        )

    return work


async def _show(edge: Edge, friends: FriendList) -> None:
    """Replace the copy in the index."""
    # Without Redis the old copy stays until it expires.
    with suppress(IndexUnavailable):
        await edge.friends.keep(friends)
