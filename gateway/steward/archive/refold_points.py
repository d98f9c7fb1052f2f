"""Gives the points of a rollup anew on all boards of its family, in slices, after a change of policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.ledger.archive.windows import among_archived
from gateway.ledger.boards.lookups import names_after
from gateway.ledger.ledger import Ledger
from gateway.ledger.queries import newest_seq
from gateway.ledger.standings.rollup_moves import fold_points, move_points
from gateway.ledger.standings.rollup_points import MOVES, RollupChange
from gateway.ledger.transaction import Operation, Transaction
from policies.family import Family
from policies.ranking import Ranking
from policies.windows import Window

BOARDS: Final = 64
"""Boards that are read, and compared in one transaction unless the points of many players change."""

_UNNOTED: Final = 0
"""The event of a change that nobody noted: following it strikes no note of a real one."""


class _Slot(NamedTuple):
    """A window of a board that is still to be compared."""

    board: Ranking
    window: Window


class _Compared(NamedTuple):
    """How many of some slots were compared, and how many points changed."""

    slots: int
    moved: int


async def refold_points(ledger: Ledger, rollup: Ranking, family: Family, windows: Sequence[Window]) -> int:
    """Compare the ranks of all boards of a family with the points given for them; return how many changed.

    Points and standings change together, so the rollup is consistent wherever this ends. A second call
    compares all boards again. Raises LedgerUnavailable.
    """
    moved, after = 0, ""
    while names := await ledger.read(names_after(family.name, after, count=BOARDS)):
        rankings = map(family.ranking_of, names)
        slots = [_Slot(ranking, window) for ranking in rankings for window in windows]
        while slots:
            compared = await ledger.write(_compare(rollup, slots))
            slots, moved = slots[compared.slots :], moved + compared.moved
        after = names[-1]
    return moved


def _compare(rollup: Ranking, slots: Sequence[_Slot]) -> Operation[_Compared]:
    """Compare slots until the points of enough players have changed for one transaction."""

    async def work(tx: Transaction) -> _Compared:
        seq = await newest_seq()(tx)  # no event is the cause
        archived = await among_archived(tx, rollup.policy.board, [slot.window.name for slot in slots])
        moved = 0
        for number, (board, window) in enumerate(slots):
            if window.name in archived:
                continue
            change = RollupChange(rollup.policy.board, board.policy.board, window.name, _UNNOTED)
            moves, is_whole = await move_points(tx, rollup, board, change)
            for move in moves:
                await fold_points(tx, rollup, move, window, seq)
            moved += len(moves)
            if not is_whole or moved >= MOVES:
                return _Compared(number + is_whole, moved)
        return _Compared(len(slots), moved)

    return work
