"""Standings and baselines: folded from what is promoted, inside the transaction that changed what is promoted."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.sqlite import insert

from gateway.ledger.records import StoredSubmission, baseline_from, sums_from
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
_BASELINES = Query(
    select(baselines).where(
        baselines.c.board == bindparam("board"), baselines.c.player.in_([bindparam("player"), POPULATION])
    )
)
_put_standing = insert(standings)
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
    tx: Transaction, policy: Policy, found: StoredSubmission, seq: int
) -> tuple[Standing, ...]:
    """The player's standing in each window that `found` was achieved in, folded anew and stored under `seq`."""
    names = await tx.rows(_NAME, player=found.player)
    name = names[0][0] if names else ""
    windows = [window_at(kind, found.received_at_ms) for kind in policy.windows]
    return tuple([await _fold_window(tx, policy, found, window, name, seq=seq) for window in windows])


async def fold_baselines(
    tx: Transaction, found: StoredSubmission, seq: int, *, is_added: bool
) -> tuple[StoredBaseline, ...]:
    """The baselines of the player and of the population with one promoted score more, or less."""
    rows = await tx.rows(_BASELINES, board=found.board, player=found.player)
    stored = {row[1]: sums_from(row) for row in rows}
    learnt = []
    for player in (found.player, POPULATION):
        old = stored.get(player, Sums())
        new = old.plus(found.claim.score) if is_added else old.minus(found.claim.score)
        row = (found.board, player, new.count, str(new.total), str(new.total_of_squares), seq)
        await tx.run(_PUT_BASELINE, **dict(zip(baselines.columns.keys(), row, strict=True)))
        learnt.append(baseline_from(row))
    return tuple(learnt)


async def _fold_window(
    tx: Transaction, policy: Policy, found: StoredSubmission, window: Window, name: str, *, seq: int
) -> Standing:
    counting = await tx.rows(
        _counting(policy.operator, policy.order),
        board=found.board,
        player=found.player,
        begin=window.begin_ms,
        end=window.end_ms,
    )
    score, at_ms, at_seq, submission_id = counting[0] if counting else (None, 0, 0, "")
    held_to = None if score is None else max(-SCORE_LIMIT, min(SCORE_LIMIT, score))
    expires = window.expires_at_ms or FOREVER_MS
    await tx.run(
        _PUT_STANDING,
        board=found.board,
        window=window.name,
        player=found.player,
        score=held_to,
        achieved_at_ms=at_ms,
        achieved_seq=at_seq,
        submission_id=submission_id,
        expires_at_ms=expires,
        seq=seq,
    )
    return Standing(
        found.board, window.name, found.player, name, held_to, at_ms, at_seq, submission_id, expires, seq
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
