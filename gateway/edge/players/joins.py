"""Boards that have to be joined: players join and leave, or servers do it for them."""

from __future__ import annotations

import hashlib
from functools import partial

import orjson
from aiohttp import web

from gateway.edge.auth.trusted_servers import authenticate, ledger_refusals_as_problems, operation_submission
from gateway.edge.context import EDGE
from gateway.edge.http.body import SMALL_BODY, read_signed
from gateway.edge.http.request import board_of, parse_body, player_of, while_good
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.players.friends import charge_profile
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies, outcomes
from gateway.ledger.players import joins as stored
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions import operations
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.transaction import Operation, Transaction
from gateway.settlement.joins import set_joined, show_joined
from policies.choices import Joins
from policies.loader import Board


async def show_join(request: web.Request) -> web.Response:
    """Tell whether the bearer is on the board, from the ledger."""
    edge, board, player = request.app[EDGE], await _joinable(request), (await player_of(request)).subject
    return _shown(
        board,
        player,
        joins_now=await edge.ledger.read(stored.has_joined(board.name, player), ReadKind.PLAYERS),
    )


async def join_board(request: web.Request) -> web.Response:
    """Answer 200 once the bearer is on the board, with all their earlier scores there."""
    return await _change(request, joins_now=True)


async def leave_board(request: web.Request) -> web.Response:
    """Answer 200 once the bearer is off the board. Joining again restores their scores."""
    return await _change(request, joins_now=False)


async def write_join(request: web.Request) -> web.Response:
    """Answer 200 once the player is on the board, or off it.

    Sending the same operation again changes nothing.
    """
    edge, board = request.app[EDGE], await _joinable(request)
    server, body = await read_signed(request, SMALL_BODY, partial(authenticate, board=board))
    new = parse_body(body, bodies.NewJoin)
    with ledger_refusals_as_problems(new.operation):
        is_new = await edge.ledger.write(_operation(board, server, new))
    await show_joined(edge.ledger, edge.index.of(board), new.player, now_ms=edge.clock())
    now = await edge.ledger.read(stored.has_joined(board.name, new.player), ReadKind.PLAYERS)
    return _shown(board, new.player, joins_now=now, is_replay=not is_new)


async def _change(request: web.Request, *, joins_now: bool) -> web.Response:
    edge, board, bearer = request.app[EDGE], await _joinable(request), await player_of(request)
    player = bearer.subject
    await charge_profile(request, player)
    now_ms = edge.clock()
    change = set_joined(board, player, joins_now=joins_now, actor=f"player:{player}", now_ms=now_ms)
    await edge.ledger.write(while_good(bearer, change))
    await show_joined(edge.ledger, edge.index.of(board), player, now_ms=now_ms)
    return _shown(board, player, joins_now=joins_now)


async def _joinable(request: web.Request) -> Board:
    """Return the board of the path. Raises `state-conflict` if it does not have to be joined."""
    board = await board_of(request)
    if board.policy.joins is not Joins.REQUIRED:
        raise Problem(ProblemType.STATE_CONFLICT, "this board has every player; there is no need to join")
    return board


def _operation(board: Board, server: ServerRequest, new: bodies.NewJoin) -> Operation[bool]:
    """Set it, and return whether this request did. Raises like `once`."""
    content = {"board": board.name, "player": new.player, "joined": new.joined}
    actor, now_ms = server.credential, server.at_ms

    async def work(tx: Transaction) -> bool:
        change = set_joined(board, new.player, joins_now=new.joined, actor=actor, now_ms=now_ms)
        return await operations.once(
            tx,
            server,
            lambda: change(tx),
            board=board.name,
            player=new.player,
            operation_id=operation_submission(server.key_id, new.operation),
            content_digest=hashlib.sha256(orjson.dumps(content)).digest(),
        )

    return work


def _shown(board: Board, player: str, *, joins_now: bool, is_replay: bool = False) -> web.Response:
    answer = outcomes.JoinShown(board=board.name, player=player, joined=joins_now)
    return json_response(answer, headers=replay_header(is_replay=is_replay))
