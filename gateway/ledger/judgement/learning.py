"""Baselines of promoted scores, updated in the transaction that promotes or revokes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from sqlalchemy import and_, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.records import baseline_from, learnt_from_row, row_of
from gateway.ledger.schema import baselines, is_in, submissions
from gateway.ledger.transaction import Query, Transaction
from gateway.shared_records import StoredBaseline
from policies.vocabulary import State
from validators.baseline import (
    BUILD_PREFIX,
    POPULATION,
    PromotedScore,
    RunningBaseline,
    ScoreExtremes,
    extremes_of,
    recent_of,
)

AFTER_BUILDS: Final = chr(ord(BUILD_PREFIX) + 1)
"""The first name after those of all builds' populations, in the order of bytes."""

_s = submissions.c
_put = insert(baselines)  # PostgreSQL's upsert compiles for SQLite too, and not the other way round
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["board", "player"],
        set_={
            name: _put.excluded[name]
            for name in ("count", "total", "total_of_squares", "recent", "lowest", "highest", "seq")
        },
    )
)
_STORED = Query(
    select(baselines).where(
        baselines.c.board == bindparam("board"), baselines.c.player == bindparam("player")
    )
)
_BUILDS = Query(
    select(baselines).where(
        baselines.c.board == bindparam("board"),
        baselines.c.player >= BUILD_PREFIX,
        baselines.c.player < AFTER_BUILDS,
    )
)


def _readings(column: Any) -> tuple[Query, Query]:
    """Return the queries for the newest promoted scores and for the lowest and highest."""
    promoted = and_(is_in(State.PROMOTED), _s.board == bindparam("board"), column == bindparam("whose"))
    recent = (
        select(_s.achieved_at_ms, _s.seq, _s.score)
        .where(promoted)
        .order_by(_s.achieved_at_ms.desc(), _s.seq.desc())
        .limit(bindparam("count"))
    )
    lowest, highest = (
        select(end(_s.score)).where(promoted).scalar_subquery() for end in (func.min, func.max)
    )  # each alone: SQLite takes one end from an index, and both only from all rows
    return Query(recent), Query(select(lowest, highest))


_RECENT_OF_PLAYER, _ENDS_OF_PLAYER = _readings(_s.player)
_RECENT_OF_BUILD, _ENDS_OF_BUILD = _readings(_s.build)


async def fold_baseline(
    tx: Transaction, board: str, subject: str, differences: Iterable[tuple[PromotedScore, int]], seq: int
) -> StoredBaseline:
    """Count scores in (1) or out (-1) of a subject's baseline, store it under `seq`, and return it.

    The submissions must already have their new states, and the builds' baselines come before the board's.
    Scores are read again only if one ceases to count.
    """
    rows = await tx.rows(_STORED, board=board, player=subject)
    baseline = learnt_from_row(rows[0]) if rows else RunningBaseline(recent_of(subject))
    for score, difference in differences:
        baseline = baseline.plus(score) if difference > 0 else baseline.minus(score)
    if baseline.has_gap:
        baseline = baseline.filled(*await _promoted(tx, board, subject))
    row = row_of(board, subject, baseline, seq)
    await tx.run(_PUT, **dict(zip(baselines.columns.keys(), row, strict=True)))
    return baseline_from(row)


async def _promoted(tx: Transaction, board: str, subject: str) -> tuple[list[PromotedScore], ScoreExtremes]:
    """Return the newest promoted scores of a subject, and the extremes of all.

    A board takes both from its builds.
    """
    if subject == POPULATION:
        builds = [learnt_from_row(row) for row in await tx.rows(_BUILDS, board=board)]
        return list(chain(*(build.recent for build in builds))), extremes_of(build.ends for build in builds)
    recent, ends, name = _RECENT_OF_PLAYER, _ENDS_OF_PLAYER, subject
    if subject.startswith(BUILD_PREFIX):
        recent, ends, name = _RECENT_OF_BUILD, _ENDS_OF_BUILD, subject.removeprefix(BUILD_PREFIX)
    newest = await tx.rows(recent, board=board, whose=name, count=recent_of(subject))
    [outermost] = await tx.rows(ends, board=board, whose=name)
    return [PromotedScore(*row) for row in newest], ScoreExtremes(*outermost)
