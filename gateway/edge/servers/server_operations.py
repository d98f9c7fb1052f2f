"""Handles single writes, increments, corrections and removals of trusted servers, canonical at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from aiohttp import web

from gateway.edge.auth.trusted_servers import authenticate_writer, ledger_refusals_as_problems
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import SMALL_BODY, read_signed
from gateway.edge.http.request import board_of, parse_body
from gateway.edge.http.responses import json_response, replay_header, score_accepted
from gateway.edge.servers.server_requests import (
    OperationBody,
    operation_of,
    problem_of,
    receipt_of,
    refuse_impossible,
    removed,
)
from gateway.edge.wire import bodies
from gateway.ledger.submissions.operations import ServerRequest
from gateway.settlement.server_operations import (
    OperationsRefused,
    PerformedOperation,
    Show,
    perform,
)
from gateway.settlement.settle import project
from gateway.shared_records import Change
from policies.loader import Board
from policies.vocabulary import State


async def write_entry(request: web.Request) -> web.Response:
    """Answer 202 once the score is durable and settled. Sending the same operation again changes nothing."""
    return await _score(request, bodies.NewEntry)


async def increment_entry(request: web.Request) -> web.Response:
    """Answer 202 once the increment is durable and settled.

    Readers see it within the board's `staleness_s`.
    """
    return await _score(request, bodies.NewIncrement)


async def remove_entries(request: web.Request) -> web.Response:
    """Answer 200 once nothing of it counts any more. Sending the same operation again changes nothing."""
    board = await board_of(request)
    server, body = await read_signed(request, SMALL_BODY, partial(authenticate_writer, board=board))
    removal = parse_body(body, bodies.NewRemoval)
    done = await _perform_one(request, board, server, removal)
    return json_response(removed(board, removal, done), headers=replay_header(is_replay=not done.is_new))


def show_for(edge: Edge, board: Board, operations: Sequence[OperationBody]) -> Show:
    """Return the function that shows these operations in the index.

    Increments on a board that may be stale are shown together with others, everything else at once.
    """
    if board.policy.staleness_s and all(
        isinstance(operation, bodies.NewIncrement) for operation in operations
    ):
        return partial(edge.coalescers.show, board)

    async def show(changes: Sequence[Change]) -> None:
        if changes:
            await project(edge.ledger, edge.index, board, changes)

    return show


async def _score(request: web.Request, model: type[bodies.NewEntry | bodies.NewIncrement]) -> web.Response:
    board = await board_of(request)
    server, body = await read_signed(request, SMALL_BODY, partial(authenticate_writer, board=board))
    score = parse_body(body, model)
    refuse_impossible(board, server, score)
    done = await _perform_one(request, board, server, score)
    return score_accepted(receipt_of(board, server, score, done), State.PROMOTED, outcome="trusted")


async def _perform_one(
    request: web.Request, board: Board, server: ServerRequest, body: OperationBody
) -> PerformedOperation:
    edge = request.app[EDGE]
    operation = operation_of(board, server, body)
    try:
        with ledger_refusals_as_problems():
            [done] = await perform(edge.ledger, board, server, [operation], show_for(edge, board, [body]))
    except OperationsRefused as refused:
        [refusal] = refused.refusals
        raise problem_of(body, refusal) from None
    return done
