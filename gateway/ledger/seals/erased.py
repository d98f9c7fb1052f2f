"""Events from which texts were erased: what is left is sealed by a later event, which names both leaves.

Without that event a row of `erased_rows` says nothing: whoever wants to change the log unnoticed would have
to add an event to it, which everybody sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.schema import erased_rows, events
from gateway.ledger.submission_rows import detail_from
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import Reason

ROWS: Final = "erased"
"""The key, in the detail of an erasure's event, of [seq, sealed leaf, kept leaf] of each row, in hex."""

_x, _e = erased_rows.c, events.c
_LEAVES = Query(
    select(_x.sealed, _x.kept, _e.detail)
    .select_from(erased_rows.join(events, _e.seq == _x.by_seq))
    .where(_x.seq == bindparam("erased"), _e.reason == Reason.ERASED.value)
)


class ErasedRow(NamedTuple):
    """An event from which texts are erased, by the leaves of what was and of what is left."""

    seq: int
    sealed: bytes
    kept: bytes

    @property
    def named(self) -> list[Any]:
        """Return the row as the detail of the erasure's event has it."""
        return [self.seq, self.sealed.hex(), self.kept.hex()]


def erased_leaves(seq: int) -> Operation[set[tuple[bytes, bytes]]]:
    """Return (sealed, kept) leaves of an event whose texts were erased, if an event tells of it."""

    async def work(tx: Transaction) -> set[tuple[bytes, bytes]]:
        return {
            (sealed, kept)
            for sealed, kept, detail in await tx.rows(_LEAVES, erased=seq)
            if ErasedRow(seq, sealed, kept).named in detail_from(detail).get(ROWS, [])
        }

    return work


async def add_erased(tx: Transaction, rows: Sequence[ErasedRow], by_seq: int) -> None:
    """Note the leaves of events before their texts are erased. The event `by_seq` names them."""
    await tx.insert(erased_rows, [(*row, by_seq) for row in rows])
