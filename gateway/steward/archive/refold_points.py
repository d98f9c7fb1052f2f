"""Gives the points of a rollup anew on all boards of its family, in slices, after a change of policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.ledger.archive.windows import among_archived
from gateway.ledger.boards.lookups import names_after
from gateway.ledger.ledger import Ledger
from gateway.ledger.queries import newest_seq
from gateway.ledger.standings.rollup_borders import Borders, PointsOfPercentiles, compare_players
from gateway.ledger.standings.rollup_moves import borders_of, fold_points, move_points
from gateway.ledger.standings.rollup_points import MOVES, PointsMove, RollupChange, note_change
from gateway.ledger.standings.rollups import rollup_of
from gateway.ledger.transaction import Operation, Transaction
from policies.family import Family
from policies.ranking import Ranking
from policies.windows import Window

BOARDS: Final = 64
"""Boards that are read at once."""

SLOTS: Final = 8
"""Windows of boards compared in one transaction, unless the points of many players change before.

Each costs a few statements also where nothing changes, and other writes wait for them.
"""

_UNNOTED: Final = 0
"""The event of a change that nobody noted: following it strikes no note of a real one."""


class _Slot(NamedTuple):
    """A window of a board that is still to be compared.

    `wanted` is where its borders of percentiles belonged when `read_at` was the newest event, None once they
    are there. `after` is the last player who was compared with them.
    """

    board: Ranking
    window: Window
    wanted: Borders | None
    read_at: int
    after: str = ""


class _Compared(NamedTuple):
    """What is left of some slots to be compared, and how many points changed."""

    left: Sequence[_Slot]
    moved: int


async def refold_points(ledger: Ledger, rollup: Ranking, family: Family, windows: Sequence[Window]) -> int:
    """Compare the ranks of all boards of a family with the points given for them; return how many changed.

    Points and standings change together, so the rollup is consistent wherever this ends. A second call
    compares all boards again. Raises LedgerUnavailable.
    """
    moved, after = 0, ""
    while names := await ledger.read(names_after(family.name, after, count=BOARDS)):
        slots: Sequence[_Slot] = [
            slot for name in names for slot in await _slots(ledger, rollup, family.ranking_of(name), windows)
        ]
        while slots:
            compared = await ledger.write(_compare(rollup, slots))
            slots, moved = compared.left, moved + compared.moved
        after = names[-1]
    return moved


async def _slots(ledger: Ledger, rollup: Ranking, board: Ranking, windows: Sequence[Window]) -> list[_Slot]:
    if not rollup_of(rollup).percentiles:
        return [_Slot(board, window, {}, 0) for window in windows]

    async def work(tx: Transaction) -> list[_Slot]:
        seq = await newest_seq()(tx)
        borders = await borders_of(rollup, [(board, window.name) for window in windows])(tx)
        return [_Slot(board, window, wanted, seq) for window, wanted in zip(windows, borders, strict=True)]

    return await ledger.read(work)


def _compare(rollup: Ranking, slots: Sequence[_Slot]) -> Operation[_Compared]:
    """Compare slots until they are enough for one transaction, or the players whose points have changed."""

    async def work(tx: Transaction) -> _Compared:
        seq = await newest_seq()(tx)  # no event is the cause
        archived = await among_archived(tx, rollup.policy.board, [slot.window.name for slot in slots[:SLOTS]])
        moved = 0
        for number, slot in enumerate(slots[:SLOTS], start=1):
            if slot.window.name in archived:
                continue
            moves, rest = await _compare_slice(tx, rollup, slot, seq)
            for move in moves:
                await fold_points(tx, rollup, move, slot.window, seq)
            moved += len(moves)
            if rest or moved >= MOVES:
                return _Compared([*([rest] if rest else []), *slots[number:]], moved)
        return _Compared(slots[SLOTS:], moved)

    return work


async def _compare_slice(
    tx: Transaction, rollup: Ranking, slot: _Slot, seq: int
) -> tuple[Sequence[PointsMove], _Slot | None]:
    """Compare as much of a slot as one transaction may; return whose points changed, and what is left."""
    change = RollupChange(rollup.policy.board, slot.board.policy.board, slot.window.name, _UNNOTED)
    percentiles = rollup_of(rollup).percentiles
    moves: Sequence[PointsMove] = []
    if slot.wanted is not None:
        if percentiles and seq != slot.read_at:
            # Another steward may have followed a change since, and these borders are from before it.
            await note_change(tx, change._replace(seq=seq))
        moves, is_whole = await move_points(tx, rollup, slot.board, change, slot.wanted)
        if not is_whole:
            return moves, slot
        if not percentiles:
            return moves, None
        slot = slot._replace(wanted=None)
    if len(moves) >= MOVES:
        return moves, slot
    of = PointsOfPercentiles(slot.board, rollup, percentiles)
    more, last = await compare_players(tx, of, change, slot.after, count=MOVES - len(moves))
    return [*moves, *more], slot._replace(after=last) if last else None
