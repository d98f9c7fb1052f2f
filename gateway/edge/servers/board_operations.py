"""Handles the opening, changing and ending of families' boards by trusted servers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import orjson
from aiohttp import web
from pydantic import ValidationError

from gateway.edge.auth.trusted_servers import (
    authenticate_for_family,
    ledger_refusals_as_problems,
    operation_submission,
)
from gateway.edge.context import EDGE, Edge
from gateway.edge.http import strict_json
from gateway.edge.http.request import family_of, read_body, schema_violation
from gateway.edge.http.responses import json_response, opened_board_shown, replay_header
from gateway.edge.problems import PROBLEM_BASE, Problem, ProblemType
from gateway.edge.servers.family_requests import operation_of
from gateway.edge.wire import board_bodies, outcomes
from gateway.edge.wire.board_answers import BoardOperationOutcome, BoardOperationsDone, OpenedBoardShown
from gateway.ledger.boards.board_rows import BoardOutcome, BoardResult
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.submissions import operations
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.deadline import aside
from gateway.runtime.telemetry import BOARDS_OPENED
from gateway.settlement.family_operations import BoardOpening, BoardTurn, FamilyOperation, perform
from policies.family import Family

BODY_BYTES: Final = 2 * 2**20
"""Largest body: a thousand boards with two kilobytes each. Boards with more go in several requests."""

CONTAINERS: Final = 32 * board_bodies.OPERATIONS_LIMIT
"""Most objects and arrays of a body."""

_DONE: Final[Mapping[BoardOutcome, Literal["opened", "changed", "same"]]] = {
    BoardOutcome.OPENED: "opened",
    BoardOutcome.CHANGED: "changed",
    BoardOutcome.SAME: "same",
}
_PROBLEMS: Final = {
    BoardOutcome.CONFLICT: ProblemType.STATE_CONFLICT,
    BoardOutcome.REFUSED: ProblemType.SCHEMA_VIOLATION,
    BoardOutcome.UNKNOWN: ProblemType.NOT_FOUND,
}
"""The problem type of each outcome that changes nothing."""

_NOT_OPENED: Final = BoardResult(
    BoardOutcome.UNKNOWN, None, "it was refused when this operation was done; send it under another id"
)
"""The outcome of a repeated operation for a board that it did not open then."""


async def operate_boards(request: web.Request) -> web.Response:
    """Answer 200 with the outcome of each operation, once what is done is durable."""
    edge, family = request.app[EDGE], family_of(request)
    body = await read_body(request, BODY_BYTES)
    server = await authenticate_for_family(request, family.name, body)
    operation, values = _parsed(body)
    requests = await _with_assets(edge, [_checked(family, value) for value in values])
    batch = _Batch(family, server, [each for each in requests if not isinstance(each, Problem)])
    content = hashlib.sha256(orjson.dumps([family.name, values], option=orjson.OPT_SORT_KEYS)).digest()
    with ledger_refusals_as_problems():
        results, is_new = await edge.ledger.write(batch.performed_once(operation, content))
    edge.catalogue.forget(result.board.board for result in results if result.board)
    opened = sum(result.outcome is BoardOutcome.OPENED for result in results)
    BOARDS_OPENED.labels(family.name, "server").inc(opened)
    outcomes_of_batch = iter(map(_outcome, batch.requests, results))
    shown = [
        _refused(each.kind, each.detail) if isinstance(each, Problem) else next(outcomes_of_batch)
        for each in requests
    ]
    refused = sum(outcome.problem is not None for outcome in shown)
    answer = BoardOperationsDone(family=family.name, refused=refused, results=shown)
    return json_response(answer, headers=replay_header(is_replay=not is_new))


class _Batch:
    """The operations of a request that can be done, in their order."""

    def __init__(self, family: Family, server: ServerRequest, requests: Sequence[FamilyOperation]) -> None:
        self.requests = requests
        self._family = family
        self._server = server
        self._perform = perform(family, requests, actor=server.credential, at_ms=server.at_ms)

    def performed_once(
        self, operation: str, content_digest: bytes
    ) -> Operation[tuple[list[BoardResult], bool]]:
        """Perform the operations in one commit, unless that was done before; return whether it is new.

        Raises KeyRevoked, NonceReused and OperationReused.
        """

        async def work(tx: Transaction) -> tuple[list[BoardResult], bool]:
            results: list[BoardResult] = []

            async def perform_all() -> None:
                results.extend(await self._perform(tx))

            is_new = await operations.once(
                tx,
                self._server,
                perform_all,
                board=self._family.name,
                player="",
                operation_id=operation_submission(self._server.key_id, operation),
                content_digest=content_digest,
            )
            return (results, True) if is_new else (await self._as_they_are(tx), False)

        return work

    async def _as_they_are(self, tx: Transaction) -> list[BoardResult]:
        known = await load_boards(tx, [request.board for request in self.requests])
        boards = [known.get(request.board) for request in self.requests]
        return [BoardResult(BoardOutcome.SAME, stored.board) if stored else _NOT_OPENED for stored in boards]


def _parsed(body: bytes) -> tuple[str, list[Any]]:
    """Return the operation's id, and its parts as they came. Raises `schema-violation`."""
    value = strict_json.parse(body, containers=CONTAINERS)
    parts = value.get("boards") if isinstance(value, dict) else None
    if not isinstance(parts, list) or not 1 <= len(parts) <= board_bodies.OPERATIONS_LIMIT:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, f"boards: expected 1 to {board_bodies.OPERATIONS_LIMIT} operations"
        )
    try:
        envelope = board_bodies.OperationEnvelope.model_validate({**value, "boards": []})
    except ValidationError as error:
        raise schema_violation(error) from None
    return envelope.operation, parts


def _checked(family: Family, value: Any) -> FamilyOperation | Problem:
    """Return an operation that the ledger may be asked to do, or its problem."""
    try:
        return operation_of(family, value)
    except Problem as problem:
        return problem


async def _with_assets(
    edge: Edge, requests: Sequence[FamilyOperation | Problem]
) -> list[FamilyOperation | Problem]:
    """Return the operations, with a problem for each board whose asset is not stored."""
    with aside():
        unstored = await edge.assets.unstored({asset for each in requests if (asset := _asset_of(each))})
    missing = Problem(
        ProblemType.ASSET_MISSING, "asset: no file has this digest; PUT it to the family's assets first"
    )
    return [missing if _asset_of(each) in unstored else each for each in requests]


def _asset_of(request: FamilyOperation | Problem) -> bytes | None:
    """Return the digest of the asset that a board is opened with, None for none."""
    return request.opened.asset if isinstance(request, BoardOpening) else None


def _outcome(request: FamilyOperation, result: BoardResult) -> BoardOperationOutcome:
    shown = opened_board_shown(result.board) if result.board else None
    if result.outcome in _DONE:
        return BoardOperationOutcome(status=_DONE[result.outcome], board=shown)
    kind = _PROBLEMS[result.outcome]
    if result.outcome is BoardOutcome.REFUSED and isinstance(request, BoardTurn):
        kind = ProblemType.STATE_CONFLICT
    return _refused(kind, result.detail or None, shown)


def _refused(
    kind: ProblemType, detail: str | None, shown: OpenedBoardShown | None = None
) -> BoardOperationOutcome:
    problem = outcomes.Refusal(
        type=PROBLEM_BASE + kind.slug, title=kind.title, status=kind.status, detail=detail
    )
    return BoardOperationOutcome(status="refused", board=shown, problem=problem)
