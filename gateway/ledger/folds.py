"""Standings and baselines: folded from what is promoted, inside the transaction that changed what is promoted."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.records import baseline_from, sums_from
from gateway.ledger.schema import baselines, is_in, players, standings, submissions
from gateway.ledger.transaction import Query, Transaction
from gateway.records import Standing, StoredBaseline
from policies.model import Operator, Order, Policy
from policies.vocabulary import SCORE_LIMIT, State
from policies.windows import FOREVER_MS, Window, window_at
from validators.baseline import Sums

POPULATION: Final = ""
"""The player under whose name a board's population baseline is stored; no player id is empty."""

_s = submissions.c

_NAME = Query(select(players.c.name).where(players.c.player == bindparam("player")))
_BASELINE = Query(
    select(baselines).where(
        baselines.c.board == bindparam("board"), baselines.c.player == bindparam("player")
    )
)
_put_standing = insert(standings)  # PostgreSQL's upsert compiles for SQLite too, and not the other way round
_PUT_STANDING = Query(
    _put_standing.on_conflict_do_update(
        index_elements=["board", "window", "player"],
        set_={
            name: _put_standing.excluded[name]
            for name in ("score", "achieved_at_ms", "achieved_seq", "submission_id", "expires_at_ms", "seq")
        },
    )
)
_put_baseline = insert(baselines)
_PUT_BASELINE = Query(
    _put_baseline.on_conflict_do_update(
        index_elements=["board", "player"],
        set_={name: _put_baseline.excluded[name] for name in ("count", "total", "total_of_squares", "seq")},
    )
)


async def fold_standings(
    tx: Transaction, policy: Policy, player: str, received_at_ms: Iterable[int], seq: int
) -> tuple[Standing, ...]:
    """The player's standing in each window that holds one of these moments, folded anew and stored under `seq`."""
    names = await tx.rows(_NAME, player=player)
    name = names[0][0] if names else ""
    moments = sorted(received_at_ms)
    found = [window_at(kind, at_ms) for kind in policy.windows for at_ms in moments]
    windows = {window.name: window for window in found}
    return tuple([await _fold_window(tx, policy, player, each, name, seq=seq) for each in windows.values()])


async def fold_baseline(
    tx: Transaction, board: str, player: str, differences: Iterable[tuple[int, int]], seq: int
) -> StoredBaseline:
    """The baseline of a player, or of the population, with each score counted once more (1) or once less (-1)."""
    rows = await tx.rows(_BASELINE, board=board, player=player)
    sums = sums_from(rows[0]) if rows else Sums()
    for score, difference in differences:
        sums = sums.plus(score) if difference > 0 else sums.minus(score)
    row = (board, player, sums.count, str(sums.total), str(sums.total_of_squares), seq)
    await tx.run(_PUT_BASELINE, **dict(zip(baselines.columns.keys(), row, strict=True)))
    return baseline_from(row)


async def _fold_window(
    tx: Transaction, policy: Policy, player: str, window: Window, name: str, *, seq: int
) -> Standing:
    standing = await standing_in(tx, policy, player, window, name, seq=seq)
    await put_standing(tx, standing)
    return standing


async def standing_in(
    tx: Transaction, policy: Policy, player: str, window: Window, name: str, *, seq: int
) -> Standing:
    """What a player's promoted submissions come to in a window, under `seq`; nothing is stored."""
    counting = await tx.rows(
        _counting(policy.operator, policy.order),
        board=policy.board,
        player=player,
        begin=window.begin_ms,
        end=window.end_ms,
    )
    score, at_ms, at_seq, submission_id = counting[0] if counting else (None, 0, 0, "")
    held_to = None if score is None else max(-SCORE_LIMIT, min(SCORE_LIMIT, score))
    expires = window.expires_at_ms or FOREVER_MS
    return Standing(
        policy.board, window.name, player, name, held_to, at_ms, at_seq, submission_id, expires, seq
    )


async def put_standing(tx: Transaction, standing: Standing) -> None:
    """Stores a standing in the place of what the player had in its window."""
    await tx.run(
        _PUT_STANDING,
        board=standing.board,
        window=standing.window,
        player=standing.player,
        score=standing.score,
        achieved_at_ms=standing.achieved_at_ms,
        achieved_seq=standing.achieved_seq,
        submission_id=standing.submission_id,
        expires_at_ms=standing.expires_at_ms,
        seq=standing.seq,
    )


@lru_cache(maxsize=8)
def _counting(operator: Operator, order: Order) -> Query:
    """(score, achieved at, its sequence, submission) of what counts among a player's promoted submissions.

    A sum is reached with its last submission, so it takes that one's time.
    """
    total = func.sum(_s.score).over() if operator is Operator.SUM else _s.score
    best_first = _s.score.asc() if order is Order.ASCENDING else _s.score.desc()
    ordering = (
        (best_first, _s.received_at_ms, _s.seq)
        if operator is Operator.BEST
        else (_s.received_at_ms.desc(), _s.seq.desc())
    )
    return Query(
        select(total, _s.received_at_ms, _s.seq, _s.submission_id)
        .where(
            _s.board == bindparam("board"),
            _s.player == bindparam("player"),
            is_in(State.PROMOTED),
            _s.received_at_ms >= bindparam("begin"),
            _s.received_at_ms < bindparam("end"),
        )
        .order_by(*ordering)
        .limit(1)
    )
