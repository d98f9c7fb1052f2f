"""Boards of a batch as its operations leave them, in memory, and what the batch writes once at its end.

However often operations of a batch turn one board, its row, its fields and its archive are written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from sqlalchemy import bindparam, update

from gateway.ledger.archive.windows import rules_of_alltime, withdraw
from gateway.ledger.boards.board_rows import (
    CHANGING,
    NOTHING,
    FamilyTerms,
    LifeChange,
    LifeEvent,
    StoredBoard,
    board_row,
    event_row,
)
from gateway.ledger.boards.field_filters import FieldValues, put_all_fields, values_of
from gateway.ledger.boards.filter_filling import fill_again
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.derived.board_duties import BoardDuty, DueDuty, note
from gateway.ledger.derived.folded_rules import fold_again
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import boards, events
from gateway.ledger.transaction import Cells, Query, Transaction
from policies.choices import WindowKind
from policies.opened_board import BoardState, OpenedBoard

FIRST_LOOK_MS: Final = 10_000
"""Time from a board's closing to the first look at its archive: every catalogue has it as closed by then."""

_CHANGED: Final = (*CHANGING, "state", "version", "seq")
_CHANGE = Query(
    update(boards)
    .where(boards.c.board == bindparam("of_board"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGED})
)
_ANEW: Final = tuple(
    column.name for column in boards.columns if column.name not in {"board", "lane", "family"}
)
_OPEN_AGAIN = Query(
    update(boards)
    .where(boards.c.board == bindparam("of_board"))
    .values({name: bindparam(f"new_{name}") for name in _ANEW})
)


class BoardBatch:
    """A batch of operations on boards of one family, by one actor at one time (Unix ms)."""

    def __init__(
        self,
        tx: Transaction,
        terms: FamilyTerms,
        known: Mapping[str, StoredBoard],
        actor: str,
        at_ms: int,
        newest_seq: int,
    ) -> None:
        self.tx = tx
        self.terms = terms
        self.boards = dict(known)
        """Every board of the batch that was ever opened, as the operations so far leave it."""
        self.actor = actor
        self.at_ms = at_ms
        self._before = known
        self._seq = newest_seq
        self._events: list[Cells] = []
        self._changed: set[str] = set()
        self._filed: set[str] = set()
        self._deleted: dict[str, StoredBoard] = {}
        self._withdrawn: set[str] = set()
        self._closings: dict[str, DueDuty] = {}

    @classmethod
    async def begin(
        cls, tx: Transaction, terms: FamilyTerms, names: Sequence[str], actor: str, at_ms: int
    ) -> Self:
        """Read the boards of a batch, each once."""
        known = await load_boards(tx, list(dict.fromkeys(names)))
        return cls(tx, terms, known, actor, at_ms, await newest_seq()(tx))

    @property
    def next_seq(self) -> int:
        """Return the sequence number of the next event."""
        return self._seq + 1

    def of_family(self, name: str) -> StoredBoard | None:
        """Return a board as it is now, None if the family has none of this name."""
        stored = self.boards.get(name)
        return stored if stored and stored.board.family == self.terms.family else None

    def put(self, after: OpenedBoard, reason: LifeChange, detail: Mapping[str, Any]) -> StoredBoard:
        """Make a board what it becomes by an event, which has this detail, and return it."""
        self._seq += 1
        name, before = after.board, self.boards.get(after.board)
        life = LifeEvent(self._seq, self.actor, self.at_ms, reason, detail)
        self._events.append(
            event_row(life, self.terms, after, before.board.state.value if before else NOTHING)
        )
        if before is None or reason is LifeChange.OPENED:
            stored = StoredBoard(after, self._seq, self._seq)
        else:
            stored = StoredBoard(after, before.opened_seq, self._seq, before.plays)
        self.boards[name] = stored
        self._changed.add(name)
        if after.state is BoardState.DELETED:
            self._deleted[name] = stored
        if reason is LifeChange.OPENED or "metadata" in detail or after.state is BoardState.DELETED:
            self._filed.add(name)
        return stored

    def archive(self, board: OpenedBoard) -> None:
        """Have the `alltime` of a board that was just closed archived."""
        due_at_ms, alltime = self.at_ms + FIRST_LOOK_MS, WindowKind.ALLTIME.value
        self._closings[board.board] = DueDuty(
            BoardDuty.ARCHIVE, board.board, alltime, due_at_ms, self._seq, self._seq
        )

    def withdraw(self, board: OpenedBoard) -> None:
        """Take the `alltime` of a board that was just reopened or deleted out of the archive."""
        self._withdrawn.add(board.board)
        self._closings.pop(board.board, None)

    async def store(self) -> None:
        """Write what has changed: each board as it is now, and every event."""
        changed = [self.boards[name] for name in sorted(self._changed)]
        new = [each for each in changed if each.board.board not in self._before]
        known = [each for each in changed if each.board.board in self._before]
        again = [each for each in known if self._is_opened_again(each)]
        rest = [each for each in known if not self._is_opened_again(each)]
        await self.tx.insert(boards, [board_row(each) for each in new])
        # The schema lets only the row of a deleted board be that of a new one.
        ended = [self._deleted[each.board.board] for each in again if not self._was_deleted(each)]
        await self.tx.run_each(_CHANGE, [_values(each, _CHANGED) for each in ended])
        await self.tx.run_each(_OPEN_AGAIN, [_values(each, _ANEW) for each in again])
        await self.tx.run_each(_CHANGE, [_values(each, _CHANGED) for each in rest])
        await self._file()
        await self.tx.insert(events, self._events)
        await self._withdraw()
        await note(self.tx, self._closings.values())

    async def _withdraw(self) -> None:
        """Take boards out of the archive; have the family folded if its rule has changed meanwhile."""
        withdrawn = sorted(self._withdrawn)
        reopened = [name for name in withdrawn if self.boards[name].board.state is BoardState.OPEN]
        rules = await rules_of_alltime(self.tx, reopened)
        await withdraw(self.tx, withdrawn)
        if rules:
            await fold_again(self.tx, self.terms.family, rules)

    async def _file(self) -> None:
        """Have boards found by their metadata as it is now."""
        filed = [(self.boards[name], self._fields(name)) for name in sorted(self._filed)]
        await put_all_fields(self.tx, filed)
        if filed:
            await fill_again(self.tx, self.terms, [stored for stored, _ in filed])

    def _is_opened_again(self, stored: StoredBoard) -> bool:
        return stored.opened_seq != self._before[stored.board.board].opened_seq

    def _was_deleted(self, stored: StoredBoard) -> bool:
        return self._before[stored.board.board].board.state is BoardState.DELETED

    def _fields(self, name: str) -> FieldValues:
        """Return the values by which a board is found. A deleted one is not."""
        board = self.boards[name].board
        is_read = board.state is not BoardState.DELETED
        return values_of(board.metadata, self.terms.fields) if is_read else frozenset()


def _values(stored: StoredBoard, names: Sequence[str]) -> dict[str, Any]:
    """Return what `_CHANGE` and `_OPEN_AGAIN` bind."""
    row = dict(zip(boards.columns.keys(), board_row(stored), strict=True))
    return {"of_board": stored.board.board, **{f"new_{name}": row[name] for name in names}}
