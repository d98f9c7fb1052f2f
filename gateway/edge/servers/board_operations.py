"""Handles the opening, changing and ending of families' boards by trusted servers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

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

_NOT_OPENED: Final = "it was refused when this operation was done; send it under another id"
"""Why a repeated operation has no board where the asset was missing, whether it is stored by now or not."""

_ASSET_MISSING: Final = Problem(
    ProblemType.ASSET_MISSING, "asset: no file has this digest; PUT it to the family's assets first"
)


async def operate_boards(request: web.Request) -> web.Response:
    """Answer 200 with the outcome of each operation, once what is done is durable."""
    edge, family = request.app[EDGE], family_of(request)
    body = await read_body(request, BODY_BYTES)
    server = await authenticate_for_family(request, family.name, body)
    operation, values = _parsed(body)
    batch = _Batch(family, server, [_checked(family, value) for value in values])
    await batch.look_for_assets(edge)
    with ledger_refusals_as_problems():
        results, is_new = await edge.ledger.write(
            batch.performed_once(operation, _content_of(family, values))
        )
    edge.catalogue.forget(result.board.board for result in results.values() if result.board)
    opened = sum(result.outcome is BoardOutcome.OPENED for result in results.values())
    BOARDS_OPENED.labels(family.name, "server").inc(opened)
    shown = [batch.outcome(number, results.get(number)) for number in range(len(values))]
    refused = sum(outcome.problem is not None for outcome in shown)
    answer = BoardOperationsDone(family=family.name, refused=refused, results=shown)
    return json_response(answer, headers=replay_header(is_replay=not is_new))


class _Batch:
    """The operations of a request by their numbers, from 0: those that can be done, and others' problems."""

    def __init__(
        self, family: Family, server: ServerRequest, requests: Sequence[FamilyOperation | Problem]
    ) -> None:
        self._family = family
        self._server = server
        numbered = dict(enumerate(requests))
        self._problems = {at: each for at, each in numbered.items() if isinstance(each, Problem)}
        self._requests = {at: each for at, each in numbered.items() if not isinstance(each, Problem)}
        self._without_asset: set[int] = set()

    async def look_for_assets(self, edge: Edge) -> None:
        """Look for the assets that boards are opened with."""
        assets = {at: asset for at, each in self._requests.items() if (asset := _asset_of(each))}
        with aside():
            unstored = await edge.assets.unstored(set(assets.values()))
        self._without_asset = {at for at, asset in assets.items() if asset in unstored}

    def performed_once(
        self, operation: str, content_digest: bytes
    ) -> Operation[tuple[dict[int, BoardResult], bool]]:
        """Perform the operations in one commit, unless that was done before; return whether it is new.

        Raises KeyRevoked, NonceReused and OperationReused.
        """
        doable = [at for at in self._requests if at not in self._without_asset]
        requests = [self._requests[at] for at in doable]
        perform_all = perform(self._family, requests, actor=self._server.credential, at_ms=self._server.at_ms)
        operation_id = operation_submission(self._server.key_id, operation)

        async def work(tx: Transaction) -> tuple[dict[int, BoardResult], bool]:
            results: dict[int, BoardResult] = {}
            refused = dict.fromkeys(self._without_asset, (BoardOutcome.UNKNOWN.value, _NOT_OPENED))

            async def perform_doable() -> None:
                results.update(zip(doable, await perform_all(tx), strict=True))
                refused.update(
                    (at, (result.outcome.value, result.detail))
                    for at, result in results.items()
                    if result.outcome in _PROBLEMS
                )

            is_new = await operations.once(
                tx,
                self._server,
                perform_doable,
                board=self._family.name,
                player="",
                operation_id=operation_id,
                content_digest=content_digest,
                refused=refused,
            )
            return (results, True) if is_new else (await self._as_they_are(tx, operation_id), False)

        return work

    async def _as_they_are(self, tx: Transaction, operation_id: str) -> dict[int, BoardResult]:
        """Return the boards of an operation that was done: what it refused then stays refused."""
        self._without_asset = set()
        known = await operations.known_operation(tx, operation_id)
        assert known is not None
        boards = await load_boards(tx, [request.board for request in self._requests.values()])
        results = {}
        for at, request in self._requests.items():
            outcome, why = known.refused.get(at, (BoardOutcome.SAME.value, ""))
            stored = boards.get(request.board)
            results[at] = BoardResult(BoardOutcome(outcome), stored.board if stored else None, why)
        return results

    def outcome(self, number: int, result: BoardResult | None) -> BoardOperationOutcome:
        """Return the answer for an operation, whose result is None if it was not attempted."""
        if result is not None:
            return _outcome(self._requests[number], result)
        problem = self._problems.get(number, _ASSET_MISSING)
        return _refused(problem.kind, problem.detail)


def _content_of(family: Family, values: Sequence[Any]) -> bytes:
    """Return what tells apart requests of one id. The values are as they came, with integers of any size."""
    text = json.dumps([family.name, values], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


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


def _asset_of(request: FamilyOperation) -> bytes | None:
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
