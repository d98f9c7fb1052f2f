"""Boards of families as rows and as events: what each of them has, and how a row follows from events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from gateway.ledger.schema import boards
from gateway.ledger.transaction import Cells, Row
from gateway.runtime.lanes import lane_of
from policies.opened_board import BoardState, NarrowedBounds, OpenedBoard, canonical_json
from validators.judge import RULES_VERSION

NOTHING: Final = ""
"""The state of a board before it is opened, and the submission and player of an event of its life."""

WHY: Final = "why"
"""The key of an operator's own words in an event's detail."""

NEVER_PLAYED: Final = 0
"""The `plays` of a board without a run, less than that of any other."""


class LifeChange(StrEnum):
    """The reason of an event of a board's life."""

    OPENED = "board-opened"
    CHANGED = "board-changed"
    CLOSED = "board-closed"
    REOPENED = "board-reopened"
    DELETED = "board-deleted"


class BoardOutcome(StrEnum):
    """What became of one board of a batch. The last four change nothing."""

    OPENED = "opened"
    CHANGED = "changed"
    SAME = "same"
    """It is so already, as after a request that is sent again."""
    CONFLICT = "conflict"
    """The name has other content, or the board was changed since it was read."""
    REFUSED = "refused"
    """The family does not allow it, or the board is in another state."""
    UNKNOWN = "unknown"
    """No board has the name."""


class BoardResult(NamedTuple):
    """The outcome of one board of a batch, the board as it is now, and why it was refused."""

    outcome: BoardOutcome
    board: OpenedBoard | None
    detail: str = ""


UNKNOWN_BOARD: Final = BoardResult(BoardOutcome.UNKNOWN, None, "no board of the family has this name")


class FamilyTerms(NamedTuple):
    """What the ledger has to know of a family: its name, its policy's digest, and two of its rules.

    `fields` are the names of metadata by which its boards are filtered. `frees_names` tells whether the name
    of a deleted board may be opened again.
    """

    family: str
    policy_digest: str
    fields: tuple[str, ...] = ()
    frees_names: bool = False


class LifeEvent(NamedTuple):
    """A change of a board's life: who made it, when (Unix ms), and what it changed, as JSON."""

    seq: int
    actor: str
    at_ms: int
    reason: LifeChange
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredBoard:
    """A row of `boards`: the board, the events that opened it and changed it last, and its plays."""

    board: OpenedBoard
    opened_seq: int
    seq: int
    plays: int = NEVER_PLAYED


COLUMNS: Final = tuple(boards.columns)
"""The columns that `stored_board` reads, in their order."""

CHANGING: Final = ("title", "metadata", "bounds", "opens_at_ms", "closes_at_ms")
"""What a board may change while it is open."""

KEPT: Final = ("parameters", "asset")
"""What a board is opened with, and never changes."""


def stored_board(row: Row) -> StoredBoard:
    """Return the board of a row. Raises ValueError for a row that nobody of ours wrote."""
    board, _, family, title, metadata, parameters, asset, bounds, state, *rest = row
    opens_at_ms, closes_at_ms, opened_at_ms, opened_by, opened_seq, version, seq, plays = rest
    opened = OpenedBoard(
        board,
        family,
        title,
        MappingProxyType(orjson.loads(metadata)),
        parameters,
        asset,
        _bounds(orjson.loads(bounds)) if bounds is not None else None,
        opens_at_ms,
        closes_at_ms,
        BoardState(state),
        version,
        opened_at_ms,
        opened_by,
        opened_seq,
    )
    return StoredBoard(opened, opened_seq, seq, plays)


def board_row(stored: StoredBoard) -> Cells:
    """Return the row of `boards` that keeps a board."""
    board = stored.board
    return (
        board.board,
        lane_of(board.board),
        board.family,
        board.title,
        canonical_json(board.metadata).decode(),
        board.parameters,
        board.asset,
        canonical_json(board.bounds.as_json()).decode() if board.bounds else None,
        board.state.value,
        board.opens_at_ms,
        board.closes_at_ms,
        board.opened_at_ms,
        board.opened_by,
        stored.opened_seq,
        board.version,
        stored.seq,
        stored.plays,
    )


def content_of(board: OpenedBoard) -> Mapping[str, Any]:
    """Return what a board was given, as JSON: its title, metadata, parameters, asset, bounds and times."""
    return {
        "title": board.title,
        "metadata": orjson.loads(canonical_json(board.metadata)),
        "parameters": board.parameters.decode(),
        "asset": board.asset.hex() if board.asset is not None else None,
        "bounds": board.bounds.as_json() if board.bounds else None,
        "opens_at_ms": board.opens_at_ms,
        "closes_at_ms": board.closes_at_ms,
    }


def with_content(board: OpenedBoard, content: Mapping[str, Any]) -> OpenedBoard:
    """Return the board with some of what `content_of` has."""
    values = {name: _READERS[name](value) if name in _READERS else value for name, value in content.items()}
    return replace(board, **values)


def content_changes(before: OpenedBoard, after: OpenedBoard) -> dict[str, Any]:
    """Return the changed part of what `content_of` has."""
    # As text, because Python takes True for 1 and 1.0 for 1, and readers of JSON do not.
    old = content_of(before)
    return {name: value for name, value in content_of(after).items() if _text(value) != _text(old[name])}


def keeps_its_content(before: OpenedBoard, after: OpenedBoard) -> bool:
    """Return whether parameters and asset stay as they were when the board was opened."""
    return all(getattr(before, name) == getattr(after, name) for name in KEPT)


def event_row(life: LifeEvent, terms: FamilyTerms, board: OpenedBoard, from_state: str) -> Cells:
    """Return the row of `events` for a change that made a board what it is now."""
    return (
        life.seq,
        NOTHING,
        board.board,
        NOTHING,
        from_state,
        board.state.value,
        life.actor,
        life.reason.value,
        terms.policy_digest,
        RULES_VERSION,
        detail_text(life.detail),
        life.at_ms,
    )


def detail_text(detail: Mapping[str, Any]) -> str:
    """Return the JSON of an event's detail, with its keys in order."""
    return _text(dict(detail)).decode()


def _text(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def board_after(before: StoredBoard | None, board: str, life: LifeEvent, to_state: str) -> StoredBoard:
    """Return a board after an event of its life; before the first there is none.

    Raises ValueError for an event that cannot follow.
    """
    version = before.board.version + 1 if before else 1
    if life.reason is LifeChange.OPENED:
        family = board.partition(".")[0]
        blank = OpenedBoard(
            board,
            family,
            "",
            version=version,
            opened_at_ms=life.at_ms,
            opened_by=life.actor,
            opened_seq=life.seq,
        )
        return StoredBoard(with_content(blank, life.detail), life.seq, life.seq)
    if before is None:
        raise ValueError(f"event {life.seq} changes a board that was never opened")
    content = {name: value for name, value in life.detail.items() if name != WHY}
    changed = replace(with_content(before.board, content), state=BoardState(to_state), version=version)
    return replace(before, board=changed, seq=life.seq)


def _bounds(value: Any) -> NarrowedBounds:
    return NarrowedBounds.model_validate_json(orjson.dumps(value))


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "metadata": MappingProxyType,
    "parameters": str.encode,
    "asset": lambda value: bytes.fromhex(value) if value is not None else None,
    "bounds": lambda value: _bounds(value) if value is not None else None,
}
