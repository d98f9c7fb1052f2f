"""The groups of a board that players are in: set by servers, or by players where the policy allows it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import orjson
from aiohttp import web

from gateway.edge.auth.trusted_servers import authenticate, ledger_refusals_as_problems, operation_submission
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import SMALL_BODY, read_body, read_signed
from gateway.edge.http.request import board_of, parse_body, player_of, while_good
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.players.friends import charge_profile, named_player
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies, outcomes
from gateway.ledger import index_pages
from gateway.ledger.players import memberships as stored
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions import operations
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.transaction import Operation, Transaction
from gateway.shared_records import Membership
from policies.errors import IndexUnavailable
from policies.loader import Board


async def show_memberships(request: web.Request) -> web.Response:
    """Return the groups that a player is in, from the ledger."""
    edge, board, player = request.app[EDGE], await board_of(request), named_player(request)
    return _shown(board, await edge.ledger.read(stored.membership_of(board.name, player), ReadKind.PLAYERS))


async def declare_membership(request: web.Request) -> web.Response:
    """Answer 200 once the bearer is in the group, in every window at once."""
    edge, board, bearer = request.app[EDGE], await board_of(request), await player_of(request)
    player = bearer.subject
    segment = request.match_info["segment"]
    value = parse_body(await read_body(request, SMALL_BODY), bodies.NewDeclaration).value
    _refuse_undeclared(board, [segment], ProblemType.NOT_FOUND)
    if segment not in board.policy.self_declared:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "only registered servers may set this group")
    await charge_profile(request, player)
    change = stored.change_membership(board.name, player, {segment: value})
    changed = await edge.ledger.write(while_good(bearer, change))
    await _show(edge, board, changed)
    return _shown(board, changed)


async def write_membership(request: web.Request) -> web.Response:
    """Answer 200 once the player is in these groups, in every window at once. Resending changes nothing."""
    edge, board = request.app[EDGE], await board_of(request)
    server, body = await read_signed(request, SMALL_BODY, partial(authenticate, board=board))
    new = parse_body(body, bodies.NewMembership)
    _refuse_undeclared(board, new.segments, ProblemType.SCHEMA_VIOLATION)
    with ledger_refusals_as_problems(new.operation):
        is_new = await edge.ledger.write(_operation(board, server, new))
    now = await edge.ledger.read(stored.membership_of(board.name, new.player), ReadKind.PLAYERS)
    await _show(edge, board, now)
    return _shown(board, now, is_replay=not is_new)


def _refuse_undeclared(board: Board, segments: Iterable[str], kind: ProblemType) -> None:
    undeclared = sorted(set(segments) - set(board.policy.segments))
    if undeclared:
        declared = ", ".join(board.policy.segments) or "none"
        raise Problem(kind, f"segments: the board has {declared}, and no {', '.join(undeclared)}")


def _operation(board: Board, server: ServerRequest, new: bodies.NewMembership) -> Operation[bool]:
    """Change the membership, and return whether this request did. Raises like `once`."""
    content = {"board": board.name, "player": new.player, "segments": new.segments}

    async def work(tx: Transaction) -> bool:
        return await operations.once(
            tx,
            server,
            lambda: stored.change_membership(board.name, new.player, new.segments)(tx),
            board=board.name,
            player=new.player,
            operation_id=operation_submission(server.key_id, new.operation),
            content_digest=hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest(),
        )

    return work


async def _show(edge: Edge, board: Board, membership: Membership) -> None:
    """Move the player between the groups' boards."""
    # Without Redis the steward does it when it next compares index and ledger.
    live = index_pages.live_standings(board.name, membership.player, now_ms=edge.clock())
    windows = [standing.window for standing in await edge.ledger.read(live, ReadKind.PLAYERS)]
    with suppress(IndexUnavailable):
        await edge.of(board).segments.keep(membership, windows)


def _shown(board: Board, membership: Membership, *, is_replay: bool = False) -> web.Response:
    declared = {name: value for name, value in membership.segments.items() if name in board.policy.segments}
    answer = outcomes.MembershipShown(board=board.name, player=membership.player, segments=declared)
    return json_response(answer, headers=replay_header(is_replay=is_replay))
