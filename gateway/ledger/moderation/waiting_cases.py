"""When the cases of the queue began to wait, as far as a moderator's boards reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.moderation.cases import case_counts_of_labels
from gateway.ledger.moderation.labels import EVERYTHING
from gateway.ledger.schema import cases
from gateway.ledger.transaction import Operation, Query, Transaction

MOST: Final = 10_000
"""Most cases that one read takes."""

_c = cases.c
_opened = select(_c.opened_at_ms).limit(bindparam("count"))
_OF_LABEL = Query(_opened.where(_c.label == bindparam("label")).order_by(_c.opened_at_ms))
_OF_BOARD = Query(_opened.where(_c.board == bindparam("board")))


class WaitingCases(NamedTuple):
    """Since when (Unix ms) each case has waited, in no order; not all of them if `is_cut`.

    `oldest_ms` is None if there is none, or if a board has too many cases to tell.
    """

    opened_at_ms: Sequence[int]
    is_cut: bool
    oldest_ms: int | None


def waiting_cases(scopes: frozenset[str], board: str | None) -> Operation[WaitingCases]:
    """Return when the cases of these scopes began to wait; `board` alone, or a family, if it is named.

    Checks are among them, as in the queue: a difference between the two would tell of them.
    """

    async def work(tx: Transaction) -> WaitingCases:
        wanted = scopes if board is None else frozenset({board})
        if EVERYTHING in wanted:
            wanted = frozenset(await case_counts_of_labels()(tx))
        opened: list[int] = []
        knows_oldest = True
        for scope in sorted(wanted):
            is_board = "." in scope
            if is_board and scope.partition(".")[0] in wanted:
                continue
            named: dict[str, Any] = {"board" if is_board else "label": scope}
            count = max(1, MOST + 1 - len(opened))
            rows = await tx.rows(_OF_BOARD if is_board else _OF_LABEL, **named, count=count)
            knows_oldest = knows_oldest and not (is_board and len(rows) == count)
            opened += [at_ms for (at_ms,) in rows]
        oldest = min(opened) if opened and knows_oldest else None
        return WaitingCases(opened[:MOST], len(opened) > MOST, oldest)

    return work
