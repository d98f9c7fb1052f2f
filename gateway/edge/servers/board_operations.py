"""Handles the opening, changing and ending of families' boards by trusted servers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from aiohttp import web
from pydantic import ValidationError

from gateway.edge.auth.trusted_servers import (
    authenticate_for_family,
    ledger_refusals_as_problems,
    operation_submission,
)
from gateway.edge.context import EDGE, Edge
from gateway.edge.http import strict_json
from gateway.edge.http.body import read_signed
from gateway.edge.http.request import family_of, schema_violation
from gateway.edge.http.responses import json_response, opened_board_shown, replay_header
from gateway.edge.problems import PROBLEM_BASE, Problem, ProblemType
from gateway.edge.servers.family_requests import operation_of
from gateway.edge.wire import board_bodies, outcomes
from gateway.edge.wire.board_answers import BoardOperationOutcome, BoardOperationsDone
from gateway.ledger.boards.board_rows import BoardOutcome, BoardResult
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.submissions import operations
from gateway.ledger.submissions.operations import PartAnswer, ServerRequest
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.deadline import aside
from gateway.runtime.telemetry import BOARDS_OPENED
from gateway.settlement.family_operations import BoardOpening, BoardTurn, FamilyOperation, perform
from policies.family import Family
from policies.opened_board import OpenedBoard

BODY_BYTES: Final = 2 * 2**20
"""Largest body: a thousand boards with two kilobytes each. Boards with more go in several requests."""

CONTAINERS: Final = 32 * board_bodies.OPERATIONS_LIMIT
"""Most objects and arrays of a body."""

_DONE: Final[Mapping[str, Literal["opened", "changed", "same"]]] = {
    BoardOutcome.OPENED.value: "opened",
    BoardOutcome.CHANGED.value: "changed",
    BoardOutcome.SAME.value: "same",
}
"""The status of each outcome that is none of the problems below."""

_PROBLEMS: Final = {
    BoardOutcome.CONFLICT: ProblemType.STATE_CONFLICT,
    BoardOutcome.REFUSED: ProblemType.SCHEMA_VIOLATION,
    BoardOutcome.UNKNOWN: ProblemType.NOT_FOUND,
}
"""The problem type of each outcome that changes nothing."""

_KINDS: Final = {kind.slug: kind for kind in ProblemType}

_ASSET_MISSING: Final = Problem(
    ProblemType.ASSET_MISSING,
    "asset: no file has this digest; PUT it to the family's assets, then send it under another operation id",
)
_FOR_PLAYERS: Final = Problem(
    ProblemType.SCOPE_FORBIDDEN,
    "players open the boards of this family: its policy says `opened_by: players`",
)


async def operate_boards(request: web.Request) -> web.Response:
    """Answer 200 with the outcome of each operation, once what is done is durable."""
    edge, family = request.app[EDGE], family_of(request)
    server, body = await read_signed(
        request, BODY_BYTES, partial(authenticate_for_family, family=family.name)
    )
    operation, values = _parsed(body)
    batch = _Batch(family, server, values)
    await batch.look_for_assets(edge)
    with ledger_refusals_as_problems(operation):
        done = await edge.ledger.write(batch.performed_once(operation, _content_of(family, values)))
    edge.catalogue.forget(board.board for board in done.boards if board)
    if done.is_new:
        opened = sum(answer.word == BoardOutcome.OPENED for answer in done.answers)
        BOARDS_OPENED.labels(family.name, "server").inc(opened)
    shown = [_outcome(answer, board) for answer, board in zip(done.answers, done.boards, strict=True)]
    refused = sum(outcome.problem is not None for outcome in shown)
    answer = BoardOperationsDone(family=family.name, refused=refused, results=shown)
    return json_response(answer, headers=replay_header(is_replay=not done.is_new))


class _Done(NamedTuple):
    """What became of each operation of a request, its board as it is now, and whether the request is new."""

    answers: Sequence[PartAnswer]
    boards: Sequence[OpenedBoard | None]
    is_new: bool


class _Batch:
    """The operations of a request by their numbers, from 0: those that can be done, and others' problems."""

    def __init__(self, family: Family, server: ServerRequest, values: Sequence[Any]) -> None:
        self._family = family
        self._server = server
        self._values = values
        numbered = {at: _checked(family, value) for at, value in enumerate(values)}
        self._problems = {at: each for at, each in numbered.items() if isinstance(each, Problem)}
        self._requests = {at: each for at, each in numbered.items() if not isinstance(each, Problem)}

    async def look_for_assets(self, edge: Edge) -> None:
        """Refuse to open boards with assets that are not stored."""
        assets = {at: asset for at, each in self._requests.items() if (asset := _asset_of(each))}
        with aside():
            unstored = await edge.assets.unstored(set(assets.values()))
        for at in [at for at, asset in assets.items() if asset in unstored]:
            del self._requests[at]
            self._problems[at] = _ASSET_MISSING

    def performed_once(self, operation: str, content_digest: bytes) -> Operation[_Done]:
        """Perform the operations in one commit, or return what was answered when that was done before.

        Raises KeyRevoked, NonceReused and OperationReused.
        """
        requests = list(self._requests.values())
        perform_all = perform(self._family, requests, actor=self._server.credential, at_ms=self._server.at_ms)
        operation_id = operation_submission(self._server.key_id, operation)

        async def work(tx: Transaction) -> _Done:
            results: dict[int, BoardResult] = {}
            answers: list[PartAnswer] = []

            async def perform_requests() -> None:
                results.update(zip(self._requests, await perform_all(tx), strict=True))
                answers.extend(self._answer(at, results.get(at)) for at in range(len(self._values)))

            is_new = await operations.once(
                tx,
                self._server,
                perform_requests,
                board=self._family.name,
                player="",
                operation_id=operation_id,
                content_digest=content_digest,
                answers=answers,
            )
            if not is_new:
                return await self._answered(tx, operation_id)
            boards = [results[at].board if at in results else None for at in range(len(answers))]
            return _Done(answers, boards, is_new=True)

        return work

    async def _answered(self, tx: Transaction, operation_id: str) -> _Done:
        """Return what was answered to the operation before, whatever its family's policy says today."""
        known = await operations.known_operation(tx, operation_id)
        assert known is not None
        parts = list(zip(self._values, known.answers, strict=True))
        stored = await load_boards(tx, [value["board"] for value, answer in parts if answer.has_board])
        boards = [stored[value["board"]].board if answer.has_board else None for value, answer in parts]
        return _Done(known.answers, boards, is_new=False)

    def _answer(self, number: int, result: BoardResult | None) -> PartAnswer:
        """Return the answer about an operation, whose result is None if it was not attempted."""
        if result is not None:
            return _answer_of(self._requests[number], result)
        problem = self._problems[number]
        return PartAnswer(problem.kind.slug, problem.detail or "")


def _content_of(family: Family, values: Sequence[Any]) -> bytes:
    """Return what tells apart requests of one id: values as they came, but for digits beyond any field."""
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
        raise schema_violation(error, fields=("operation", "boards")) from None
    return envelope.operation, parts


def _checked(family: Family, value: Any) -> FamilyOperation | Problem:
    """Return an operation that the ledger may be asked to do, or its problem."""
    try:
        request = operation_of(family, value)
    except Problem as problem:
        return problem
    if isinstance(request, BoardOpening) and not family.policy.is_opened_by_servers:
        return _FOR_PLAYERS
    return request


def _asset_of(request: FamilyOperation) -> bytes | None:
    """Return the digest of the asset that a board is opened with, None for none."""
    return request.opened.asset if isinstance(request, BoardOpening) else None


def _answer_of(request: FamilyOperation, result: BoardResult) -> PartAnswer:
    has_board = result.board is not None
    if result.outcome not in _PROBLEMS:
        return PartAnswer(result.outcome.value, has_board=has_board)
    kind = _PROBLEMS[result.outcome]
    if result.outcome is BoardOutcome.REFUSED and isinstance(request, BoardTurn):
        kind = ProblemType.STATE_CONFLICT
    return PartAnswer(kind.slug, result.detail, has_board=has_board)


def _outcome(answer: PartAnswer, board: OpenedBoard | None) -> BoardOperationOutcome:
    shown = opened_board_shown(board) if board else None
    if answer.word in _DONE:
        return BoardOperationOutcome(status=_DONE[answer.word], board=shown)
    kind = _KINDS[answer.word]
    problem = outcomes.Refusal(
        type=PROBLEM_BASE + kind.slug, title=kind.title, status=kind.status, detail=answer.why or None
    )
    return BoardOperationOutcome(status="refused", board=shown, problem=problem)
