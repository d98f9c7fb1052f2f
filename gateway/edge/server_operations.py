"""Trusted servers' writes, corrections and removals: canonical at once, one by one or in a batch."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, Final

import orjson
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge import strict_json, wire
from gateway.edge.answers import counted, json_response, replayed, score_accepted
from gateway.edge.context import EDGE
from gateway.edge.credentials.signed import invalid
from gateway.edge.problems import PROBLEM_BASE, Problem, ProblemType
from gateway.edge.reading import NDJSON, board_of, parse_body, read_body, schema_violation
from gateway.edge.runs import SMALL_BODY
from gateway.edge.servers import authenticate
from gateway.ledger.operations import ServerRequest
from gateway.ledger.records import NewSubmission, Receipt
from gateway.operations import Done, OperationsRefused, Refusal, Refused, ServerOperation, perform
from policies.errors import KeyRevoked, NonceReused
from policies.loader import Board
from policies.vocabulary import Claim, Reason, State
from validators.bounds import is_score_possible
from validators.judge import Judgement
from validators.submission import Submission

BATCH_BODY: Final = wire.BATCH_LIMIT * 1024

_PROBLEM_OF: Final = {
    Refused.OTHER_CONTENT: ProblemType.IDEMPOTENCY_MISMATCH,
    Refused.STALE: ProblemType.STALE_VERSION,
    Refused.CONFLICT: ProblemType.STATE_CONFLICT,
}

Asked = wire.NewEntry | wire.NewRemoval

_OPERATION: Final[TypeAdapter[wire.BatchedEntry | wire.BatchedRemoval]] = TypeAdapter(wire.BatchedOperation)


async def write_entry(request: web.Request) -> web.Response:
    """202 once the score is durable and settled; sending the same operation again changes nothing."""
    board = board_of(request)
    body = await read_body(request, SMALL_BODY)
    server = await authenticate(request, board, body)
    entry = parse_body(body, wire.NewEntry)
    _refuse_impossible(board, entry)
    done = await _perform_one(request, board, server, entry)
    return score_accepted(_receipt(board, server, entry, done), State.PROMOTED, outcome="trusted")


async def remove_entries(request: web.Request) -> web.Response:
    """200 once nothing of it counts any more; sending the same operation again changes nothing."""
    board = board_of(request)
    body = await read_body(request, SMALL_BODY)
    server = await authenticate(request, board, body)
    removal = parse_body(body, wire.NewRemoval)
    done = await _perform_one(request, board, server, removal)
    return json_response(_removed(board, removal, done), headers=replayed(is_replay=not done.is_new))


async def write_batch(request: web.Request) -> web.Response:
    """200 once every operation is durable and settled; a refusal names each that cannot be done, and none is."""
    board = board_of(request)
    body = await read_body(request, BATCH_BODY, NDJSON)
    server = await authenticate(request, board, body)
    asked = _parse_batch(board, _values(request, body))
    try:
        done = await _perform(request, board, server, asked)
    except OperationsRefused as refused:
        raise _batch_refused([_error_of(refusal) for refusal in refused.refusals]) from None
    results = [_result(board, server, each, result) for each, result in zip(asked, done, strict=True)]
    is_replay = not any(result.is_new for result in done)
    return json_response(
        wire.BatchDone(board=board.name, results=results), headers=replayed(is_replay=is_replay)
    )


async def _perform_one(request: web.Request, board: Board, server: ServerRequest, asked: Asked) -> Done:
    try:
        [done] = await _perform(request, board, server, [asked])
    except OperationsRefused as refused:
        [refusal] = refused.refusals
        raise Problem(_PROBLEM_OF[refusal.kind], refusal.detail) from None
    return done


async def _perform(
    request: web.Request, board: Board, server: ServerRequest, asked: Sequence[Asked]
) -> list[Done]:
    """What became of the operations. Raises OperationsRefused."""
    edge = request.app[EDGE]
    operations = [_operation(board, server, each) for each in asked]
    try:
        return await perform(edge.ledger, edge.index, board, server, operations)
    except KeyRevoked:
        raise invalid() from None
    except NonceReused:
        raise Problem(ProblemType.NONCE_REUSED) from None


def _values(request: web.Request, body: bytes) -> list[Any]:
    """The operations as JSON values: those of an array, or one a line."""
    if NDJSON.fullmatch(request.headers["Content-Type"]):
        lines = enumerate(body.split(b"\n"), start=1)
        values = [_value_of(number, line) for number, line in lines if line.strip()]
    else:
        values = strict_json.parse(body, containers=2 * wire.BATCH_LIMIT)
    if not isinstance(values, list) or not 1 <= len(values) <= wire.BATCH_LIMIT:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"body: expected 1 to {wire.BATCH_LIMIT} operations")
    return values


def _value_of(number: int, line: bytes) -> Any:
    try:
        return strict_json.parse(line)
    except Problem as problem:
        raise Problem(problem.kind, f"line {number}: {problem.detail}") from None


def _parse_batch(board: Board, values: Sequence[Any]) -> list[Asked]:
    """The operations. Raises `batch-refused` with what is wrong with each that cannot be one."""
    asked: list[Asked] = []
    errors = []
    for at, value in enumerate(values):
        try:
            asked.append(_parse_operation(board, value))
        except Problem as problem:
            errors.append(_error(at, problem.kind, problem.detail))
    if errors:
        raise _batch_refused(errors)
    return asked


def _parse_operation(board: Board, value: Any) -> Asked:
    try:
        asked = _OPERATION.validate_python(value)
    except ValidationError as error:
        raise schema_violation(error, skip=1) from None  # the outermost part is the action
    _refuse_impossible(board, asked)
    return asked


def _refuse_impossible(board: Board, asked: Asked) -> None:
    if isinstance(asked, wire.NewEntry) and not is_score_possible(asked.score, board.policy):
        raise Problem(ProblemType.BOUNDS_VIOLATION)


def _batch_refused(errors: Sequence[dict[str, Any]]) -> Problem:
    return Problem(
        ProblemType.BATCH_REFUSED, f"{len(errors)} cannot be done, so none is", errors=list(errors)
    )


def _error(index: int, kind: ProblemType, detail: str | None) -> dict[str, Any]:
    return {"index": index, "type": PROBLEM_BASE + kind.slug, "detail": detail or kind.title}


def _error_of(refusal: Refusal) -> dict[str, Any]:
    return _error(refusal.at, _PROBLEM_OF[refusal.kind], refusal.detail)


def _operation(board: Board, server: ServerRequest, asked: Asked) -> ServerOperation:
    operation_id = operation_submission(server.key_id, asked.operation)
    content_digest = _content_digest(board, asked)
    if isinstance(asked, wire.NewRemoval):
        why = asked.reason or ""
        return ServerOperation(
            operation_id, asked.player, content_digest, asked.version, target=asked.submission, why=why
        )
    new = _new_submission(board, server, asked, operation_id, content_digest)
    return ServerOperation(
        operation_id, asked.player, content_digest, asked.version, new=new, target=asked.replaces
    )


def _content_digest(board: Board, asked: Asked) -> bytes:
    """The SHA-256 of what is asked for; the same for an operation by itself and in a batch."""
    said = {"board": board.name, "removes": isinstance(asked, wire.NewRemoval)} | asked.model_dump(
        exclude={"action"}
    )
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).digest()


def _new_submission(
    board: Board, server: ServerRequest, entry: wire.NewEntry, submission_id: str, content_digest: bytes
) -> NewSubmission:
    at_ms = server.at_ms
    claim = Claim(entry.score, 0)
    submission = Submission(
        submission_id, board.name, entry.player, "", 0, at_ms, at_ms, claim, has_recording=False
    )
    return NewSubmission(
        submission,
        Judgement(State.PENDING, Reason.TRUSTED),
        credential=server.credential,
        nonce=server.nonce,
        content_digest=content_digest,
        recording=None,
        recording_digest=None,
        recording_bytes=0,
        simulator="",
        policy_digest=board.digest,
    )


def _result(
    board: Board, server: ServerRequest, asked: Asked, done: Done
) -> wire.ScoreAccepted | wire.Removed:
    if isinstance(asked, wire.NewRemoval):
        return _removed(board, asked, done)
    return counted(_receipt(board, server, asked, done), State.PROMOTED, outcome="trusted")


def _removed(board: Board, removal: wire.NewRemoval, done: Done) -> wire.Removed:
    return wire.Removed(board=board.name, player=removal.player, removed=list(done.revoked))


def _receipt(board: Board, server: ServerRequest, entry: wire.NewEntry, done: Done) -> Receipt:
    operation = done.operation
    return Receipt(
        operation.operation_id,
        board.name,
        entry.player,
        entry.score,
        State.PROMOTED,
        server.nonce,
        operation.content_digest,
        is_new=done.is_new,
    )


def operation_submission(key_id: str, operation: str) -> str:
    """The submission id of a server's operation: the same operation always has the same one."""
    digest = hashlib.sha256(f"{key_id}\0{operation}".encode()).digest()
    return "op" + base64.b32encode(digest[:15]).decode().lower()
