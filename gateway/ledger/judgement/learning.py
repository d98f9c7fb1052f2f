"""Baselines of promoted scores, updated in the transaction that promotes or revokes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, bindparam, func, select

from gateway.ledger.records import learnt_from_row, row_of, stored_baseline
from gateway.ledger.schema import baselines, is_in, submissions
from gateway.ledger.transaction import OneOf, Query, Transaction
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
_STORED = Query(
    select(baselines).where(baselines.c.board == bindparam("board"), OneOf(baselines.c.player, "subjects"))
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


class SubjectChanges(NamedTuple):
    """Scores that begin (1) or cease (-1) to count for a subject, and the event that stores its baseline."""

    differences: Sequence[tuple[PromotedScore, int]]
    seq: int


async def fold_baselines(
    tx: Transaction, board: str, by_subject: Mapping[str, SubjectChanges]
) -> dict[str, StoredBaseline]:
    """Count scores in or out of the baselines of subjects, store them, and return them by subject.

    The submissions must already have their new states. Scores are read again only if one ceases to count.
    """
    rows = await tx.rows(_STORED, board=board, subjects=list(by_subject))
    stored = {row[1]: learnt_from_row(row) for row in rows}
    folded: dict[str, RunningBaseline] = {}
    for subject, (differences, _) in by_subject.items():
        folded[subject] = _with(stored.get(subject) or RunningBaseline(recent_of(subject)), differences)
    for subject in sorted(folded, key=POPULATION.__eq__):  # the board's last, from its builds'
        if folded[subject].has_gap:
            folded[subject] = folded[subject].filled(*await _promoted(tx, board, subject, folded))
    put = [row_of(board, subject, each, by_subject[subject].seq) for subject, each in folded.items()]
    await tx.put(baselines, put)
    return {
        subject: stored_baseline(board, subject, learnt.baseline, by_subject[subject].seq)
        for subject, learnt in folded.items()
    }


def _with(baseline: RunningBaseline, differences: Iterable[tuple[PromotedScore, int]]) -> RunningBaseline:
    for score, difference in differences:
        baseline = baseline.plus(score) if difference > 0 else baseline.minus(score)
    return baseline


async def _promoted(
    tx: Transaction, board: str, subject: str, folded: Mapping[str, RunningBaseline]
) -> tuple[list[PromotedScore], ScoreExtremes]:
    """Return the newest promoted scores of a subject, and the extremes of all.

    A board takes both from its builds, of which some were just `folded`, and are not stored yet.
    """
    if subject == POPULATION:
        builds = {row[1]: learnt_from_row(row) for row in await tx.rows(_BUILDS, board=board)}
        builds |= {build: each for build, each in folded.items() if build.startswith(BUILD_PREFIX)}
        recents = chain(*(build.recent for build in builds.values()))
        return list(recents), extremes_of(build.ends for build in builds.values())
    recent, ends, name = _RECENT_OF_PLAYER, _ENDS_OF_PLAYER, subject
    if subject.startswith(BUILD_PREFIX):
        recent, ends, name = _RECENT_OF_BUILD, _ENDS_OF_BUILD, subject.removeprefix(BUILD_PREFIX)
    newest = await tx.rows(recent, board=board, whose=name, count=recent_of(subject))
    [outermost] = await tx.rows(ends, board=board, whose=name)
    return [PromotedScore(*row) for row in newest], ScoreExtremes(*outermost)
