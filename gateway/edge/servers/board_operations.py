"""Handles the opening, changing and ending of families' boards by trusted servers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Literal

import orjson
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.catalogue.family_terms import terms_of
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
from gateway.edge.wire import board_bodies, outcomes
from gateway.edge.wire.board_answers import BoardOperationOutcome, BoardOperationsDone, OpenedBoardShown
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, BoardResult
from gateway.ledger.boards.life_changes import change_boards, set_states
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.submissions import operations
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339
from gateway.runtime.deadline import aside
from gateway.settlement.rollups import note_deletion
from policies.errors import SettingRefused
from policies.family import Family
from policies.opened_board import BoardState, NarrowedBounds, OpenedBoard, canonical_parameters

BODY_BYTES: Final = 2 * 2**20
"""Largest body: a thousand boards with two kilobytes each. Boards with more go in several requests."""

CONTAINERS: Final = 32 * board_bodies.OPERATIONS_LIMIT
"""Most objects and arrays of a body."""

_OPERATION: Final[TypeAdapter[board_bodies.BoardOperation]] = TypeAdapter(board_bodies.BoardOperation)
_STATES: Final = {
    "close": BoardState.CLOSED,
    "reopen": BoardState.OPEN,
    "delete": BoardState.DELETED,
}
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

_Request = board_bodies.OpenBoard | board_bodies.ChangeBoard | board_bodies.TurnBoard


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

    def __init__(self, family: Family, server: ServerRequest, requests: Sequence[_Request]) -> None:
        self.requests = requests
        self._family = family
        self._terms = terms_of(family)
        self._server = server

    def performed_once(
        self, operation: str, content_digest: bytes
    ) -> Operation[tuple[list[BoardResult], bool]]:
        """Perform the operations in one commit, unless that was done before; return whether it is new.

        Raises KeyRevoked, NonceReused and OperationReused.
        """

        async def work(tx: Transaction) -> tuple[list[BoardResult], bool]:
            results: list[BoardResult] = []

            async def perform() -> None:
                for _, group in groupby(self.requests, key=attrgetter("action")):
                    results.extend(await self._perform(tx, list(group)))

            is_new = await operations.once(
                tx,
                self._server,
                perform,
                board=self._family.name,
                player="",
                operation_id=operation_submission(self._server.key_id, operation),
                content_digest=content_digest,
            )
            return (results, True) if is_new else (await self._as_they_are(tx), False)

        return work

    async def _perform(self, tx: Transaction, group: Sequence[_Request]) -> list[BoardResult]:
        """Perform neighbouring operations of one kind."""
        actor, at_ms, terms = self._server.credential, self._server.at_ms, self._terms
        first = group[0]
        if isinstance(first, board_bodies.OpenBoard):
            opening = [self._opened(each) for each in group if isinstance(each, board_bodies.OpenBoard)]
            return await open_boards(terms, opening, actor=actor, at_ms=at_ms)(tx)
        if isinstance(first, board_bodies.ChangeBoard):
            changing = [each for each in group if isinstance(each, board_bodies.ChangeBoard)]
            return await self._change(tx, changing)
        state = _STATES[first.action]
        results = [
            result
            for why, some in groupby(group, key=attrgetter("reason"))
            for result in await set_states(
                terms, [each.board for each in some], state, actor=actor, at_ms=at_ms, why=why
            )(tx)
        ]
        for request, result in zip(group, results, strict=True):
            if state is BoardState.DELETED and result.outcome is BoardOutcome.CHANGED:
                await note_deletion(tx, self._family.rollups, request.board)
        return results

    async def _change(self, tx: Transaction, group: Sequence[board_bodies.ChangeBoard]) -> list[BoardResult]:
        results = []
        for request in group:  # one after the other, because two may be about one board
            known = await load_boards(tx, [request.board])
            stored = known.get(request.board)
            if stored is None:
                results.append(BoardResult(BoardOutcome.UNKNOWN, None))
                continue
            after = _changed(stored.board, request)
            try:
                self._family.refuse_change(stored.board, after)
            except SettingRefused as refused:
                results.append(BoardResult(BoardOutcome.REFUSED, stored.board, _detail(refused)))
                continue
            actor, at_ms = self._server.credential, self._server.at_ms
            results += await change_boards(self._terms, [after], actor=actor, at_ms=at_ms)(tx)
        return results

    async def _as_they_are(self, tx: Transaction) -> list[BoardResult]:
        known = await load_boards(tx, [request.board for request in self.requests])
        boards = [known.get(request.board) for request in self.requests]
        return [BoardResult(BoardOutcome.SAME, stored.board) if stored else _NOT_OPENED for stored in boards]

    def _opened(self, request: board_bodies.OpenBoard) -> OpenedBoard:
        return opened_board(self._family, request)


def opened_board(family: Family, request: board_bodies.OpenBoard) -> OpenedBoard:
    """Return the board that a request opens.

    Raises SettingRefused for parameters that are too large, and Problem for impossible times.
    """
    return OpenedBoard(
        request.board,
        family.name,
        request.title,
        request.metadata,
        canonical_parameters(request.parameters),
        _asset_of(request),
        _bounds(request.bounds),
        _at_ms("opens_at", request.opens_at),
        _at_ms("closes_at", request.closes_at),
    )


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


def _checked(family: Family, value: Any) -> _Request | Problem:
    """Return an operation that the ledger may be asked to do, or its problem."""
    try:
        request = _OPERATION.validate_python(value)
        if isinstance(request, board_bodies.OpenBoard):
            family.refuse(opened_board(family, request))
        if isinstance(request, board_bodies.ChangeBoard):
            _at_ms("opens_at", request.opens_at), _at_ms("closes_at", request.closes_at)
    except ValidationError as error:
        return schema_violation(error, skip=1)  # the outermost part is the action
    except SettingRefused as refused:
        return Problem(ProblemType.SCHEMA_VIOLATION, _detail(refused))
    except Problem as problem:
        return problem
    return request


async def _with_assets(edge: Edge, requests: Sequence[_Request | Problem]) -> list[_Request | Problem]:
    """Return the operations, with a problem for each board whose asset is not stored."""
    with aside():
        unstored = await edge.assets.unstored({asset for each in requests if (asset := _asset_of(each))})
    missing = Problem(ProblemType.ASSET_MISSING, "asset: no file has this digest; store it first")
    return [missing if _asset_of(each) in unstored else each for each in requests]


def _asset_of(request: _Request | Problem) -> bytes | None:
    """Return the digest of the asset that a board is opened with, None for none."""
    if not isinstance(request, board_bodies.OpenBoard) or not request.asset:
        return None
    return bytes.fromhex(request.asset.removeprefix("sha256:"))


def _changed(before: OpenedBoard, request: board_bodies.ChangeBoard) -> OpenedBoard:
    """Return the board with what a request gives instead."""
    given = request.model_fields_set
    changes: dict[str, Any] = {"version": request.version}
    if request.title is not None:
        changes["title"] = request.title
    if "metadata" in given:
        changes["metadata"] = request.metadata or {}
    if "bounds" in given:
        changes["bounds"] = _bounds(request.bounds)
    for name in ("opens_at", "closes_at"):
        if name in given:
            changes[f"{name}_ms"] = _at_ms(name, getattr(request, name))
    return replace(before, **changes)


def _detail(refused: SettingRefused) -> str:
    return f"{'.'.join(refused.location)}: {refused}"


def _bounds(bounds: board_bodies.NarrowBounds | None) -> NarrowedBounds | None:
    if bounds is None:
        return None
    try:
        return NarrowedBounds.model_validate(bounds.model_dump(exclude_none=True))
    except ValidationError as error:
        raise schema_violation(error) from None


def _at_ms(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    at_ms = parse_rfc3339(text)
    if at_ms is None:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"{name}: {fault_of_rfc3339(text)}")
    return at_ms


def _outcome(request: _Request, result: BoardResult) -> BoardOperationOutcome:
    shown = opened_board_shown(result.board) if result.board else None
    if result.outcome in _DONE:
        return BoardOperationOutcome(status=_DONE[result.outcome], board=shown)
    kind = _PROBLEMS[result.outcome]
    if result.outcome is BoardOutcome.REFUSED and isinstance(request, board_bodies.TurnBoard):
        kind = ProblemType.STATE_CONFLICT
    return _refused(kind, result.detail or None, shown)


def _refused(
    kind: ProblemType, detail: str | None, shown: OpenedBoardShown | None = None
) -> BoardOperationOutcome:
    problem = outcomes.Refusal(
        type=PROBLEM_BASE + kind.slug, title=kind.title, status=kind.status, detail=detail
    )
    return BoardOperationOutcome(status="refused", board=shown, problem=problem)
