"""Rollups of a family: folded in the transaction that changes a standing on one of its boards.

Each change of a rollup is an event of the rollup without a submission, so that a rebuild and the steward find
it as they find any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson
from sqlalchemy import insert

from gateway.ledger import index_pages, queries
from gateway.ledger.archive.windows import mark_windows
from gateway.ledger.schema import events, outbox
from gateway.ledger.standings.folds import StandingFold, fold_anew, fold_rollup
from gateway.ledger.standings.rollup_points import RollupChange, give_points, note_change, players_to_follow
from gateway.ledger.standings.rollups import is_deleted
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import Change, Standing
from policies.loader import Board
from policies.model import WindowKind
from policies.vocabulary import Reason, State
from policies.windows import window_named
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

    `cause` is the event that changed the standings.
    """
    changes: list[Change] = []
    if not board.rollups or await is_deleted(tx, board.name):
        return changes
    for rollup in board.rollups:
        if rollup.policy.rollup and rollup.policy.rollup.points:
            await _note(tx, rollup, folds, cause)
            continue
        seq = await queries.newest_seq()(tx) + 1
        standings = [standing for fold in folds if (standing := await _fold(tx, rollup, fold, seq))]
        if standings:
            changes.append(await _write(tx, rollup, standings, {"of": board.name, "event": cause}, at_ms))
    return changes


def by_board(board: Board, changes: Sequence[Change]) -> list[tuple[Board, list[Change]]]:
    """Return the changes of a board and of each of its rollups, as far as there are any."""
    parts = [
        (of, [change for change in changes if change.board == of.name]) for of in (board, *board.rollups)
    ]
    return [(of, some) for of, some in parts if some]


async def note_deletion(tx: Transaction, rollups: Sequence[Board], board: str) -> None:
    """Note that a board was deleted, in the transaction that deletes it, so that its rollups lose it."""
    seq = await queries.newest_seq()(tx)
    for window in await index_pages.live_windows(board, now_ms=0)(tx):
        for rollup in rollups:
            if _counts(rollup, window):
                await note_change(tx, RollupChange(rollup.name, board, window, seq))


def follow_change(rollup: Board, change: RollupChange, *, at_ms: int) -> Operation[list[Change]]:
    """Have a rollup follow a slice of a board's change; return what changed.

    The first ranks of a board are compared with the points that its players have. The players of a deleted
    board are folded anew.
    """
    window = window_named(rollup.policy, change.window)
    scale = rollup.policy.rollup.points if rollup.policy.rollup else ()

    async def work(tx: Transaction) -> list[Change]:
        changes = []
        if scale:
            players = await give_points(tx, change, scale)
        else:
            players = set(await players_to_follow(tx, change, count=PLAYERS))
        for player in sorted(players):
            seq = await queries.newest_seq()(tx) + 1
            standing = await fold_anew(tx, rollup.ranking, player, window, seq)
            if standing:
                cause = {"of": change.board, "event": change.seq}
                changes.append(await _write(tx, rollup, [standing], cause, at_ms))
        return changes

    return work


async def _note(tx: Transaction, rollup: Board, folds: Sequence[StandingFold], cause: int) -> None:
    for fold in folds:
        window = fold.standing.window
        if _counts(rollup, window) and fold.before.place != fold.place:
            await note_change(tx, RollupChange(rollup.name, fold.standing.board, window, cause))


async def _fold(tx: Transaction, rollup: Board, fold: StandingFold, seq: int) -> Standing | None:
    if not _counts(rollup, fold.standing.window):
        return None
    window = window_named(rollup.policy, fold.standing.window)
    return await fold_rollup(tx, rollup.ranking, fold, window, seq)


def _counts(rollup: Board, window: str) -> bool:
    """Return whether the rollup has the window."""
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
