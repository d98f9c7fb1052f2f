"""Handles trusted servers' batches: all operations or none, or each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge.auth.trusted_servers import authenticate_writer, ledger_refusals_as_problems
from gateway.edge.context import EDGE
from gateway.edge.http import strict_json
from gateway.edge.http.body import NDJSON, read_signed
from gateway.edge.http.request import board_of, schema_violation
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.problems import PROBLEM_BASE, Problem, ProblemType
from gateway.edge.servers.server_operations import show_for
from gateway.edge.servers.server_requests import (
    OperationBody,
    operation_of,
    problem_of,
    refuse_impossible,
    result_of,
)
from gateway.edge.wire import bodies, outcomes
from gateway.ledger.submissions.operations import ServerRequest
from gateway.settlement.server_operations import (
    OperationsRefused,
    PerformedOperation,
    RefusedOperation,
    find_refusals,
    perform,
    perform_each,
)
from policies.loader import Board

OPERATION_BYTES: Final = 1_024
"""Bytes of a batch's body that each operation may take."""

_OPERATION: Final[TypeAdapter[bodies.BatchedEntry | bodies.BatchedRemoval | bodies.BatchedIncrement]] = (
    TypeAdapter(bodies.BatchedOperation)
)


async def write_batch(request: web.Request) -> web.Response:
    """Answer 200 once every operation is durable and settled.

    If any is impossible, do none and name those that are.
    """
    edge, board = request.app[EDGE], await board_of(request)
    server, values = await _read(request, board, bodies.BATCH_LIMIT)
    parsed = [_parse_or_problem(board, server, value) for value in values]
    accepted = [body for body in parsed if not isinstance(body, Problem)]
    operations = [operation_of(board, server, body) for body in accepted]
    if len(accepted) < len(parsed):
        with ledger_refusals_as_problems():
            refusals = await find_refusals(edge.ledger, board, server, operations)
        raise _batch_refused(_errors_of(parsed, accepted, refusals))
    try:
        with ledger_refusals_as_problems():
            done = await perform(edge.ledger, board, server, operations, show_for(edge, board, accepted))
    except OperationsRefused as refused:
        raise _batch_refused(_errors_of(parsed, accepted, refused.refusals)) from None
    results = [result_of(board, server, body, result) for body, result in zip(accepted, done, strict=True)]
    is_replay = not any(result.is_new for result in done)
    return json_response(
        outcomes.BatchDone(board=board.name, results=results), headers=replay_header(is_replay=is_replay)
    )


async def write_each(request: web.Request) -> web.Response:
    """Answer 200 with the outcome of each operation: durable and settled, or refused by itself.

    Resending is safe.
    """
    edge, board = request.app[EDGE], await board_of(request)
    server, values = await _read(request, board, bodies.EACH_LIMIT)
    parsed = [_parse_or_problem(board, server, value) for value in values]
    accepted = [body for body in parsed if not isinstance(body, Problem)]
    operations = [operation_of(board, server, body) for body in accepted]
    with ledger_refusals_as_problems():
        results = await perform_each(edge.ledger, board, server, operations, show_for(edge, board, accepted))
    answers = list(_outcomes(board, server, parsed, iter(results)))
    refused = sum(answer.problem is not None for answer in answers)
    return json_response(outcomes.OperationsDone(board=board.name, refused=refused, results=answers))


async def _read(request: web.Request, board: Board, limit: int) -> tuple[ServerRequest, list[Any]]:
    """Return the authenticated request, and its operations as JSON values: an array, or one on each line."""
    writer = partial(authenticate_writer, board=board)
    server, body = await read_signed(request, limit * OPERATION_BYTES, writer, NDJSON)
    if NDJSON.fullmatch(request.headers["Content-Type"]):
        lines = enumerate(body.split(b"\n"), start=1)
        values = [_value_of(number, line) for number, line in lines if line.strip()]
    else:
        values = strict_json.parse(body, containers=2 * limit)
    if not isinstance(values, list) or not 1 <= len(values) <= limit:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"body: expected 1 to {limit} operations")
    return server, values


def _value_of(number: int, line: bytes) -> Any:
    try:
        return strict_json.parse(line)
    except Problem as problem:
        raise Problem(problem.kind, f"line {number}: {problem.detail}") from None


def _errors_of(
    parsed: Sequence[OperationBody | Problem],
    accepted: Sequence[OperationBody],
    refusals: Sequence[RefusedOperation],
) -> list[dict[str, Any]]:
    """Return what is wrong with a batch, in its order.

    `refusals` count only the operations that could be parsed, which are `accepted`.
    """
    places = [at for at, body in enumerate(parsed) if not isinstance(body, Problem)]
    errors = [_error(places[each.at], problem_of(accepted[each.at], each)) for each in refusals]
    errors += [_error(at, body) for at, body in enumerate(parsed) if isinstance(body, Problem)]
    return sorted(errors, key=itemgetter("index"))


def _parse_or_problem(board: Board, server: ServerRequest, value: Any) -> OperationBody | Problem:
    try:
        body = _OPERATION.validate_python(value)
        refuse_impossible(board, server, body)
    except ValidationError as error:
        return schema_violation(
            error, skip=1, fields=bodies.FIELDS_OF_ACTIONS
        )  # the outermost part is the action
    except Problem as problem:
        return problem
    return body


def _outcomes(
    board: Board,
    server: ServerRequest,
    parsed: Sequence[OperationBody | Problem],
    results: Iterator[PerformedOperation | RefusedOperation],
) -> Iterator[outcomes.OperationOutcome]:
    """Yield the outcome of each operation: its own problem, or the next of `results`, which skip problems."""
    for body in parsed:
        if isinstance(body, Problem):
            yield _refused(body)
            continue
        outcome = next(results)
        if isinstance(outcome, RefusedOperation):
            yield _refused(problem_of(body, outcome))
        else:
            result = result_of(board, server, body, outcome)
            yield outcomes.OperationOutcome(status="done", is_replay=not outcome.is_new, result=result)


def _refused(problem: Problem) -> outcomes.OperationOutcome:
    kind = problem.kind
    refusal = outcomes.Refusal(
        type=PROBLEM_BASE + kind.slug, title=kind.title, status=kind.status, detail=problem.detail
    )
    return outcomes.OperationOutcome(status="refused", problem=refusal)


def _batch_refused(errors: Sequence[dict[str, Any]]) -> Problem:
    return Problem(
        ProblemType.BATCH_REFUSED,
        f"{len(errors)} of the operations cannot be done, so none was",
        errors=list(errors),
    )


def _error(index: int, problem: Problem) -> dict[str, Any]:
    kind = problem.kind
    return {"index": index, "type": PROBLEM_BASE + kind.slug, "detail": problem.detail or kind.title}
