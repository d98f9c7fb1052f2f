"""Trusted servers' operations in batches: done whole or not at all, or each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge.auth.trusted_servers import authenticate, ledger_refusals_as_problems
from gateway.edge.context import EDGE
from gateway.edge.http import strict_json
from gateway.edge.http.request import NDJSON, board_of, read_body, schema_violation
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.problems import PROBLEM_BASE, Problem, ProblemType
from gateway.edge.servers.server_operations import showing
from gateway.edge.servers.server_requests import PROBLEM_OF, Asked, operation_of, refuse_impossible, result_of
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
"""Room for one operation in the body of a batch."""

_OPERATION: Final[TypeAdapter[bodies.BatchedEntry | bodies.BatchedRemoval | bodies.BatchedIncrement]] = (
    TypeAdapter(bodies.BatchedOperation)
)


async def write_batch(request: web.Request) -> web.Response:
    """200 once every operation is durable and settled; a refusal names each that cannot be done, and none is."""
    edge, board = request.app[EDGE], board_of(request)
    server, values = await _read(request, board, bodies.BATCH_LIMIT)
    parsed = [_parse_or_problem(board, server, value) for value in values]
    asked = [each for each in parsed if not isinstance(each, Problem)]
    operations = [operation_of(board, server, each) for each in asked]
    if len(asked) < len(parsed):
        with ledger_refusals_as_problems():
            refusals = await find_refusals(edge.ledger, board, server, operations)
        raise _batch_refused(_errors_of(parsed, refusals))
    try:
        with ledger_refusals_as_problems():
            done = await perform(edge.ledger, board, server, operations, showing(edge, board, asked))
    except OperationsRefused as refused:
        raise _batch_refused([_error_of(refusal) for refusal in refused.refusals]) from None
    results = [result_of(board, server, each, result) for each, result in zip(asked, done, strict=True)]
    is_replay = not any(result.is_new for result in done)
    return json_response(
        outcomes.BatchDone(board=board.name, results=results), headers=replay_header(is_replay=is_replay)
    )


async def write_each(request: web.Request) -> web.Response:
    """200 with what became of each operation: durable and settled, or refused by itself; send again after any doubt."""
    edge, board = request.app[EDGE], board_of(request)
    server, values = await _read(request, board, bodies.EACH_LIMIT)
    parsed = [_parse_or_problem(board, server, value) for value in values]
    asked = [each for each in parsed if not isinstance(each, Problem)]
    operations = [operation_of(board, server, each) for each in asked]
    with ledger_refusals_as_problems():
        told = await perform_each(edge.ledger, board, server, operations, showing(edge, board, asked))
    results = list(_outcomes(board, server, parsed, iter(told)))
    refused = sum(each.problem is not None for each in results)
    return json_response(outcomes.OperationsDone(board=board.name, refused=refused, results=results))


async def _read(request: web.Request, board: Board, limit: int) -> tuple[ServerRequest, list[Any]]:
    """Whose batch it is, and its operations as JSON values: those of an array, or one a line."""
    body = await read_body(request, limit * OPERATION_BYTES, NDJSON)
    server = await authenticate(request, board, body)
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
    parsed: Sequence[Asked | Problem], refusals: Sequence[RefusedOperation]
) -> list[dict[str, Any]]:
    """What is wrong with each of a batch, in its order; `refusals` count only those that could be read."""
    places = [at for at, each in enumerate(parsed) if not isinstance(each, Problem)]
    errors = [_error_of(refusal._replace(at=places[refusal.at])) for refusal in refusals]
    errors += [
        _error(at, each.kind, each.detail) for at, each in enumerate(parsed) if isinstance(each, Problem)
    ]
    return sorted(errors, key=itemgetter("index"))


def _parse_or_problem(board: Board, server: ServerRequest, value: Any) -> Asked | Problem:
    try:
        asked = _OPERATION.validate_python(value)
        refuse_impossible(board, server, asked)
    except ValidationError as error:
        return schema_violation(error, skip=1)  # the outermost part is the action
    except Problem as problem:
        return problem
    return asked


def _outcomes(
    board: Board,
    server: ServerRequest,
    parsed: Sequence[Asked | Problem],
    told: Iterator[PerformedOperation | RefusedOperation],
) -> Iterator[outcomes.OperationOutcome]:
    """What is told of each operation: its own problem, or what `told` has of the next that was one."""
    for each in parsed:
        if isinstance(each, Problem):
            yield _refused(each.kind, each.detail)
            continue
        outcome = next(told)
        if isinstance(outcome, RefusedOperation):
            yield _refused(PROBLEM_OF[outcome.kind], outcome.detail)
        else:
            result = result_of(board, server, each, outcome)
            yield outcomes.OperationOutcome(status="done", is_replay=not outcome.is_new, result=result)


def _refused(kind: ProblemType, detail: str | None) -> outcomes.OperationOutcome:
    problem = outcomes.Refusal(
        type=PROBLEM_BASE + kind.slug, title=kind.title, status=kind.status, detail=detail
    )
    return outcomes.OperationOutcome(status="refused", problem=problem)


def _batch_refused(errors: Sequence[dict[str, Any]]) -> Problem:
    return Problem(
        ProblemType.BATCH_REFUSED, f"{len(errors)} cannot be done, so none is", errors=list(errors)
    )


def _error(index: int, kind: ProblemType, detail: str | None) -> dict[str, Any]:
    return {"index": index, "type": PROBLEM_BASE + kind.slug, "detail": detail or kind.title}


def _error_of(refusal: RefusedOperation) -> dict[str, Any]:
    return _error(refusal.at, PROBLEM_OF[refusal.kind], refusal.detail)
