"""Reads operations on boards of families from JSON, as trusted servers and operators give them."""

from __future__ import annotations

from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from gateway.edge.http.request import schema_violation
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import board_bodies
from gateway.ledger.boards.board_differences import NEVER_CHANGE
from gateway.ledger.boards.board_rows import KEPT
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339
from gateway.settlement.family_operations import (
    BoardOpening,
    BoardRevision,
    BoardTurn,
    FamilyOperation,
    detail_of,
)
from policies.errors import SettingRefused
from policies.family import Family
from policies.opened_board import BoardState, NarrowedBounds, OpenedBoard, canonical_parameters
from policies.openings import with_scheduled_times

_OPERATION: Final[TypeAdapter[board_bodies.BoardOperation]] = TypeAdapter(board_bodies.BoardOperation)
_STATES: Final = {
    "close": BoardState.CLOSED,
    "reopen": BoardState.OPEN,
    "delete": BoardState.DELETED,
}


def operation_of(family: Family, value: Any) -> FamilyOperation:
    """Return an operation that the ledger may be asked to do.

    Raises Problem (`schema-violation`) for what no family takes, and for boards that this one does not allow.
    """
    try:
        return _operation(family, _OPERATION.validate_python(value))
    except ValidationError as error:
        if kept := _kept_by_a_change(value):
            raise Problem(ProblemType.SCHEMA_VIOLATION, f"{kept}: {NEVER_CHANGE}") from None
        raise schema_violation(
            error, skip=1, fields=board_bodies.FIELDS_OF_ACTIONS
        ) from None  # the outermost part is the action
    except SettingRefused as refused:
        raise Problem(ProblemType.SCHEMA_VIOLATION, detail_of(refused)) from None


def _kept_by_a_change(value: Any) -> str | None:
    """Return what a request wants to change of a board that no change changes, None if nothing."""
    is_change = isinstance(value, dict) and value.get("action") == "change"
    return next((name for name in KEPT if name in value), None) if is_change else None


def _operation(family: Family, request: board_bodies.BoardOperation) -> FamilyOperation:
    match request:
        case board_bodies.OpenBoard():
            opened = with_scheduled_times(family.policy, _opened(family, request))
            family.refuse(opened)
            return BoardOpening(opened)
        case board_bodies.ChangeBoard():
            return BoardRevision(request.board, request.version, _values(request))
        case _:
            return BoardTurn(request.board, _STATES[request.action], request.reason)


def _opened(family: Family, request: board_bodies.OpenBoard) -> OpenedBoard:
    return OpenedBoard(
        request.board,
        family.name,
        request.title,
        request.metadata,
        canonical_parameters(request.parameters),
        bytes.fromhex(request.asset.removeprefix("sha256:")) if request.asset else None,
        _bounds(request.bounds),
        _at_ms("opens_at", request.opens_at),
        _at_ms("closes_at", request.closes_at),
    )


def _values(request: board_bodies.ChangeBoard) -> dict[str, Any]:
    """Return the fields of a board that a request gives, with their new values."""
    given = request.model_fields_set
    values: dict[str, Any] = {}
    if request.title is not None:
        values["title"] = request.title
    if "metadata" in given:
        values["metadata"] = request.metadata or {}
    if "bounds" in given:
        values["bounds"] = _bounds(request.bounds)
    for name in ("opens_at", "closes_at"):
        if name in given:
            values[f"{name}_ms"] = _at_ms(name, getattr(request, name))
    return values


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
