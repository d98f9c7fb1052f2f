"""Metadata by which a family's boards are filtered: rows of `board_fields`, one for each value of a field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update

from gateway.ledger.boards.board_rows import StoredBoard
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import board_fields
from gateway.ledger.transaction import Cells, Query, Transaction
from policies.errors import SettingRefused

FIELD_VALUES: Final = 16
"""Most values that a board has in all its filtered fields, since each is a row with three indexes."""

VALUE_LENGTH: Final = 128
"""Longest text of a filtered value."""

_f = board_fields.c
_OF_BOARDS = Query(select(_f.board, _f.field, _f.value, _f.opened_seq).where(is_listed(_f.board)))
_REMOVE = Query(
    delete(board_fields).where(
        _f.board == bindparam("board"), _f.field == bindparam("field"), _f.value == bindparam("value")
    )
)
_PLAYED = Query(
    update(board_fields).where(_f.board == bindparam("of_board")).values(plays=bindparam("new_plays"))
)

FieldValues = frozenset[tuple[str, str]]
"""Fields with their values. A field may have several, as tags do."""


def value_text(value: Any) -> str | None:
    """Return a scalar of metadata as the text that filters compare, or None for what has no such text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def values_of(metadata: Mapping[str, Any], fields: tuple[str, ...]) -> FieldValues:
    """Return the values of a board's filtered fields. A list gives each of its scalars.

    Raises SettingRefused if there are more than FIELD_VALUES, or one longer than VALUE_LENGTH.
    """
    values = frozenset(_values(metadata, fields))
    if len(values) > FIELD_VALUES:
        raise SettingRefused(f"has {len(values)} values to filter by, {FIELD_VALUES} are allowed", "metadata")
    for field, value in values:
        if len(value) > VALUE_LENGTH:
            raise SettingRefused(
                f"has a value to filter by of more than {VALUE_LENGTH} characters", "metadata", field
            )
    return values


def fitting_values(metadata: Mapping[str, Any], fields: Iterable[str]) -> FieldValues:
    """Return as many values of a board's filtered fields as a board may have, the first in order."""
    values = sorted(value for value in set(_values(metadata, fields)) if len(value[1]) <= VALUE_LENGTH)
    return frozenset(values[:FIELD_VALUES])


def _values(metadata: Mapping[str, Any], fields: Iterable[str]) -> Iterator[tuple[str, str]]:
    for field in fields:
        value = metadata.get(field)
        for scalar in value if isinstance(value, list | tuple) else (value,):
            text = value_text(scalar)
            if text is not None:
                yield field, text


def field_rows(stored: StoredBoard, values: FieldValues) -> list[Cells]:
    """Return the rows of `board_fields` by which a board is found."""
    board = stored.board
    return [
        (board.board, field, value, board.family, stored.opened_seq, stored.plays)
        for field, value in sorted(values)
    ]


async def put_all_fields(tx: Transaction, wanted: Sequence[tuple[StoredBoard, FieldValues]]) -> bool:
    """Have each board found by its values and no others, and return whether that changed anything."""
    rows = await fetch_listed(tx, _OF_BOARDS, [stored.board.board for stored, _ in wanted])
    # The rows of a board that was deleted are not those of one that got its name.
    after = {
        (stored.board.board, *value, stored.opened_seq): stored
        for stored, values in wanted
        for value in values
    }
    gone, new = set(rows) - after.keys(), sorted(after.keys() - set(rows))
    removed = [{"board": board, "field": field, "value": value} for board, field, value, _ in sorted(gone)]
    await tx.run_each(_REMOVE, removed)
    added = [row for key in new for row in field_rows(after[key], frozenset({(key[1], key[2])}))]
    await tx.insert(board_fields, added)
    return bool(gone or new)


async def note_plays(tx: Transaction, board: str, plays: int) -> None:
    """Store the plays of a board beside its fields, by which boards are ordered there too."""
    await tx.run(_PLAYED, of_board=board, new_plays=plays)
