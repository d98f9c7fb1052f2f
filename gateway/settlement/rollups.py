"""Rollups of a family: folded in the transaction that changes a standing on one of its boards.

Each change of a rollup is an event of the rollup without a submission, so that a rebuild and the steward find
it as they find any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import orjson
from sqlalchemy import insert

from gateway.ledger import queries
from gateway.ledger.archive.windows import mark_windows
from gateway.ledger.schema import events, outbox
from gateway.ledger.standings.folds import fold_anew, fold_rollup
from gateway.ledger.standings.rollup_borders import (
    Borders,
    PointsOfPercentiles,
    forget_all_borders,
    give_to_mover,
)
from gateway.ledger.standings.rollup_moves import fold_points, move_points
from gateway.ledger.standings.rollup_points import (
    RollupChange,
    note_changes,
    players_to_follow,
)
from gateway.ledger.standings.rollups import ShareChange, is_deleted, rollup_of, windows_of
from gateway.ledger.standings.slots import StandingFold
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import Change, Standing
from policies.choices import WindowKind
from policies.loader import Board
from policies.ranking import Ranking
from policies.rollups import RollupTake
from policies.vocabulary import Reason, State
from policies.windows import Window, window_named
from validators.judge import RULES_VERSION

PLAYERS: Final = 100
"""Players of a deleted board who are folded in one transaction, which other writes wait for."""

ACTOR: Final = "rollup"
"""The actor of a rollup's events: no person or process decides on them."""

_ADD_EVENT = Query(insert(events))
_ADD_WORK = Query(insert(outbox))


async def roll_up(
    tx: Transaction, board: Board, folds: Sequence[StandingFold], *, cause: int, at_ms: int
) -> list[Change]:
    """Fold the changed standings of one player on a board into its rollups; return their changes.

    `cause` is the event that changed the standings. Points by rank follow later, when a steward has compared
    the board's ranks.
    """
    if not board.rollups or not folds:
        return []
    changes: list[Change] = []
    is_gone = await is_deleted(tx, board.name)
    for rollup in board.rollups:
        counting = [fold for fold in folds if _counts(rollup, fold.standing.window)]
        if rollup_of(rollup.ranking).take is RollupTake.POINTS:
            await _note(tx, rollup, counting, cause)
        seq = await queries.newest_seq()(tx) + 1
        shares = await _shares(tx, board, rollup, counting, cause, is_gone=is_gone)
        standings = [
            standing
            for window, share in shares
            if (standing := await fold_rollup(tx, rollup.ranking, share, window, seq))
        ]
        if standings:
            changes.append(await _write(tx, rollup, standings, {"of": board.name, "event": cause}, at_ms))
    return changes


async def _shares(
    tx: Transaction, board: Board, rollup: Board, folds: Sequence[StandingFold], cause: int, *, is_gone: bool
) -> list[tuple[Window, ShareChange]]:
    """Return the shares that folds change at once, with their windows. A deleted board gives no new ones."""
    take = rollup_of(rollup.ranking)
    windows = [window_named(rollup.policy, fold.standing.window) for fold in folds]
    if take.take is not RollupTake.POINTS:
        return [] if is_gone else list(zip(windows, (fold.share for fold in folds), strict=True))
    shares: list[tuple[Window, ShareChange]] = []
    if take.percentiles:
        of = PointsOfPercentiles(board.ranking, rollup.ranking, take.percentiles)
        for window, fold in zip(windows, folds, strict=True):
            where = RollupChange(rollup.name, board.name, window.name, cause)
            if move := await give_to_mover(tx, of, where, fold):
                shares.append((window, fold.share._replace(before=move.before, after=move.after)))
    return shares


def by_board(board: Board, changes: Sequence[Change]) -> list[tuple[Board, list[Change]]]:
    """Return the changes of a board and of each of its rollups, as far as there are any."""
    parts = [
        (of, [change for change in changes if change.board == of.name]) for of in (board, *board.rollups)
    ]
    return [(of, some) for of, some in parts if some]


async def note_deletions(tx: Transaction, rollups: Sequence[Board], deleted: Mapping[str, int]) -> None:
    """Note that boards were deleted, in the transaction that deletes them, so that their rollups lose them.

    `deleted` has the event of each board's deletion, by its name.
    """
    kinds = sorted({kind for rollup in rollups for kind in rollup.policy.windows})
    windows = [each for kind in kinds for each in await windows_of(tx, kind, list(deleted))]
    changes = [
        RollupChange(rollup.name, board, window, deleted[board])
        for board, window in windows
        for rollup in rollups
        if _counts(rollup, window)
    ]
    await note_changes(tx, changes)


def follow_change(
    rollup: Board, board: Ranking, change: RollupChange, wanted: Borders, *, at_ms: int
) -> Operation[list[Change]]:
    """Have a rollup follow a slice of a board's change, with an event for each player whom it concerns.

    It stays noted until nothing of it is left. Return what changed.

    `board` is the ranking of the board of the family. Points are compared with its ranks; `wanted` are the
    borders of percentiles there (`borders_of`), read after the change. For a rollup of another kind, the
    players of a deleted board are folded anew.
    """
    window = window_named(rollup.policy, change.window)
    cause = {"of": change.board, "event": change.seq}

    async def work(tx: Transaction) -> list[Change]:
        changes = []
        if rollup_of(rollup.ranking).take is RollupTake.POINTS:
            moves, _ = await move_points(tx, rollup.ranking, board, change, wanted)
            for move in moves:
                seq = await queries.newest_seq()(tx) + 1
                if standing := await fold_points(tx, rollup.ranking, move, window, seq):
                    changes.append(await _write(tx, rollup, [standing], cause, at_ms))
            return changes
        for player in await players_to_follow(tx, change, count=PLAYERS):
            seq = await queries.newest_seq()(tx) + 1
            if standing := await fold_anew(tx, rollup.ranking, player, window, seq):
                changes.append(await _write(tx, rollup, [standing], cause, at_ms))
        return changes

    return work


async def _note(tx: Transaction, rollup: Board, folds: Sequence[StandingFold], cause: int) -> None:
    changes = [
        RollupChange(rollup.name, fold.standing.board, fold.standing.window, cause)
        for fold in folds
        if fold.before.place != fold.place
    ]
    await note_changes(tx, changes)
    if not rollup_of(rollup.ranking).percentiles:
        # Another process may have a policy with percentiles, and follow this before one of ours does.
        await forget_all_borders(tx, changes)


def has_window(rollup: Board, window: str) -> bool:
    """Return whether a rollup has a window of this name. Its policy may have had other seasons before."""
    try:
        return _counts(rollup, window) and bool(window_named(rollup.policy, window))
    except ValueError:
        return False


def _counts(rollup: Board, window: str) -> bool:
    """Return whether the rollup has windows of this one's kind."""
    return WindowKind(window.partition(":")[0]) in rollup.policy.windows


async def _write(
    tx: Transaction, rollup: Board, standings: Sequence[Standing], detail: dict[str, object], at_ms: int
) -> Change:
    """Write the event and the outbox row of a rollup's change."""
    seq, player = standings[0].seq, standings[0].player
    subject = {"seq": seq, "submission_id": "", "board": rollup.name, "player": player}
    await tx.run(
        _ADD_EVENT,
        **subject,
        from_state=State.PROMOTED.value,
        to_state=State.PROMOTED.value,
        actor=ACTOR,
        reason=Reason.ROLLED_UP.value,
        policy=rollup.digest,
        rules_version=RULES_VERSION,
        detail=orjson.dumps(detail).decode(),
        at_ms=at_ms,
    )
    await tx.run(
        _ADD_WORK, **subject, kind="project", due_at_ms=at_ms + PROJECT_AFTER_MS, priority=0, handed_out=0
    )
    await mark_windows(tx, rollup.name, [standing.window for standing in standings], seq)
    return Change(seq, "", rollup.name, player, State.PROMOTED, tuple(standings))
