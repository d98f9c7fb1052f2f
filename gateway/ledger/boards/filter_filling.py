"""Makes boards findable by the fields that their family's policy declares now, a slice of boards at a time.

When the fields of a family change, the rows of `board_fields` of the boards that it has already are those of
the earlier fields. A steward walks over the boards by when they were opened, and remembers how far it came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, select

from gateway.ledger.boards.board_rows import COLUMNS, FamilyTerms, StoredBoard, stored_board
from gateway.ledger.boards.field_filters import fitting_values, put_all_fields
from gateway.ledger.derived.log import move, position, positions
from gateway.ledger.schema import boards
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.opened_board import BoardState

FIELDS: Final = "board-filters"
"""Consumer whose progress is, for each family, a hash of the fields that its boards are filled with."""

FILLED: Final = "board-filters-filled"
"""Consumer whose progress is, for each family, the event that opened the last board that was filled."""

SLICE: Final = 32
"""Boards filled in one commit: one look-up, one insertion, and a deletion of each value that goes."""

_b = boards.c

_NEXT = Query(
    select(*COLUMNS)
    .where(
        _b.family == bindparam("of_family"),
        _b.state == bindparam("in_board_state"),
        _b.opened_seq > bindparam("after"),
    )
    .order_by(_b.opened_seq)
    .limit(bindparam("count"))
)


def fields_fingerprint(fields: Iterable[str]) -> int:
    """Return a number of 56 bits that stands for a family's fields, 0 for none."""
    text = "\n".join(sorted(fields))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]) if text else 0


def unfilled(fields: Mapping[str, Sequence[str]]) -> Operation[list[str]]:
    """Return those of these families that have boards to fill, with the fields that each declares.

    A family that declares none and never did has none.
    """

    async def work(tx: Transaction) -> list[str]:
        filled, reached = await positions(FIELDS)(tx), await positions(FILLED)(tx)
        due = []
        for family, declared in fields.items():
            is_same = filled.get(family, 0) == fields_fingerprint(declared)
            is_followed = bool(declared) or family in filled
            after = reached.get(family, 0)
            if not is_same or (is_followed and await _next_boards(tx, family, after, 1)):
                due.append(family)
        return due

    return work


def fill_next(family: str, fields: Sequence[str]) -> Operation[int]:
    """Fill the next boards of a family, SLICE at most, and return how many were looked at.

    It begins anew if the boards were being filled with other fields. A board whose metadata has more values
    than a board may have when it is opened is found by the first of them. Repeating it changes nothing.
    """
    fingerprint = fields_fingerprint(fields)

    async def work(tx: Transaction) -> int:
        after = await position(FILLED, family)(tx) or 0
        if await position(FIELDS, family)(tx) != fingerprint:
            await move(FIELDS, fingerprint, family)(tx)
            after = 0
        slice_ = await _next_boards(tx, family, after, SLICE)
        await put_all_fields(
            tx, [(stored, fitting_values(stored.board.metadata, fields)) for stored in slice_]
        )
        upto = slice_[-1].opened_seq if slice_ else after
        await move(FILLED, upto, family)(tx)
        return len(slice_)

    return work


async def fill_again(tx: Transaction, terms: FamilyTerms, filed: Iterable[StoredBoard]) -> None:
    """Have boards filled once more that were just filed by other fields than those of the filling.

    A process whose policy is older than the filling's would undo it for good.
    """
    if fields_fingerprint(terms.fields) == (await position(FIELDS, terms.family)(tx) or 0):
        return
    first = min(stored.opened_seq for stored in filed)
    if first <= (await position(FILLED, terms.family)(tx) or 0):
        await move(FILLED, first - 1, terms.family)(tx)


async def _next_boards(tx: Transaction, family: str, after: int, count: int) -> list[StoredBoard]:
    rows: list[StoredBoard] = []
    for state in (BoardState.OPEN, BoardState.CLOSED):
        span = {"of_family": family, "in_board_state": state.value, "after": after, "count": count}
        rows += map(stored_board, await tx.rows(_NEXT, **span))
    return sorted(rows, key=lambda stored: stored.opened_seq)[:count]
