"""A rollup as it stood at an instant, folded from the events of its family's boards alone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from sqlalchemy import bindparam, literal_column, or_, select, tuple_

from gateway.ledger import queries
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.schema import Int64, Text, events, submissions
from gateway.ledger.standings.history import Counting, by_place, counting_of, joined_before, ranked
from gateway.ledger.standings.reached import within_limits
from gateway.ledger.standings.rollups import rollup_of
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.shared_records import WHOLE_SHARE
from policies.choices import Joins
from policies.errors import HistoryTooLong
from policies.family import Family
from policies.opened_board import BoardState, names_of_family
from policies.ranking import Ranking
from policies.rollups import PercentilePoints, RollupTake
from policies.vocabulary import State
from policies.windows import Window

SLICE: Final = 10_000
"""Events of the boards of a family in one read, so that nobody waits long behind it."""

BOARDS: Final = 1_000
"""Boards whose lives are looked up in one read."""

_e, _s = events.c, submissions.c
_PROMOTED: Final = State.PROMOTED.value
_OF_FAMILY: Final = (
    tuple_(_e.board, _e.seq) > tuple_(bindparam("after_board", type_=Text), bindparam("after", type_=Int64)),
    _e.board < bindparam("beyond"),
    _e.player != literal_column("''"),
)
_SLICE_END = Query(
    select(_e.board, _e.seq)
    .where(*_OF_FAMILY, _e.seq <= bindparam("newest"))
    .order_by(_e.board, _e.seq)
    .offset(bindparam("passed", type_=Int64))
    .limit(1)
)
_TURNS = Query(
    select(_e.board, _e.to_state, _e.player, _s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats)
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .where(
        *_OF_FAMILY,
        tuple_(_e.board, _e.seq)
        <= tuple_(bindparam("last_board", type_=Text), bindparam("last", type_=Int64)),
        _e.seq <= bindparam("newest"),
        _e.at_ms <= bindparam("at_ms"),
        or_(_e.to_state == _PROMOTED, _e.from_state == _PROMOTED),
        _s.achieved_at_ms >= bindparam("begin_ms"),
        _s.achieved_at_ms < bindparam("end_ms"),
    )
    .order_by(_e.board, _e.seq)
)
"""The submissions to boards of a family that began or ceased to count in a slice of their events."""

_LIVES = Query(
    select(_e.board, _e.to_state)
    .where(is_listed(_e.board), _e.player == literal_column("''"), _e.at_ms <= bindparam("at_ms"))
    .order_by(_e.board, _e.seq)
)
"""The changes of the states of boards until an instant."""


@dataclass(slots=True)
class _Past:
    """The submissions that count on each board, by id, as the log goes on."""

    counting: dict[str, dict[str, Counting]] = field(default_factory=lambda: defaultdict(dict))
    count: int = 0

    def follow(self, turns: Iterable[Row], ranking: Ranking) -> None:
        """Go on by a slice of the log."""
        for board, to_state, *facts, stats in turns:
            submission, of_board = counting_of(ranking, facts, stats), self.counting[board]
            self.count -= len(of_board)
            if to_state == _PROMOTED:
                of_board[submission.submission_id] = submission
            else:
                of_board.pop(submission.submission_id, None)
            self.count += len(of_board)


async def rollup_as_of(
    ledger: Ledger,
    rollup: Ranking,
    family: Family,
    window: Window,
    at_ms: int,
    *,
    most: int | None = None,
    kind: ReadKind = ReadKind.DUTIES,
) -> list[Counting]:
    """Return the standings of a rollup at an instant (Unix milliseconds), ranked as on the live board.

    The policies in force say what is taken of the boards that were not deleted then. It reads the events of
    the family's boards alone, board by board. Raises HistoryTooLong if more than `most` submissions count at
    once on the way.
    """
    past = _Past()
    template = family.ranking_of(family.name)
    newest = await ledger.read(queries.newest_seq(), kind)
    first, beyond = names_of_family(family.name)
    after = first, 0
    while after[0] < beyond:
        turns, after = await ledger.read(_slice(window, at_ms, after, (beyond, newest)), kind)
        past.follow(turns, template)
        if most is not None and past.count > most:
            raise HistoryTooLong
    deleted = await _deleted(ledger, [name for name, found in past.counting.items() if found], at_ms, kind)
    boards = {name: list(found.values()) for name, found in past.counting.items() if name not in deleted}
    if family.template.joins is Joins.REQUIRED:
        for name, found in boards.items():
            boards[name] = await joined_before(ledger, name, found, min(at_ms + 1, window.end_ms), kind)
    return await asyncio.to_thread(_rolled_up, rollup, family, window, boards)


def _rolled_up(
    rollup: Ranking, family: Family, window: Window, boards: Mapping[str, Sequence[Counting]]
) -> list[Counting]:
    of_player: dict[str, list[Counting]] = defaultdict(list)
    for name, counting in boards.items():
        board = family.ranking_of(name)
        for share in _shares(rollup, board, window, ranked(counting, board, window)):
            of_player[share.player].append(share)
    return by_place((_folded(rollup, shares) for shares in of_player.values()), rollup, window)


def _shares(
    rollup: Ranking, board: Ranking, window: Window, standings: Sequence[Counting]
) -> Iterator[Counting]:
    """Yield what the rollup takes of the standings on one board, best first."""
    take = rollup_of(rollup)
    if take.percentiles:
        yield from _by_percentile(take.percentiles, board, window, standings)
    elif take.points:
        for standing, points in zip(standings, take.points, strict=False):
            yield standing._replace(score=points)
    else:
        yield from standings


def _by_percentile(
    scale: Sequence[PercentilePoints], board: Ranking, window: Window, standings: Sequence[Counting]
) -> Iterator[Counting]:
    """Yield the standings that a percentile gives points, with these; equal scores have equal percentiles."""
    total, better = len(standings), 0
    for _, equal in groupby(standings, key=lambda standing: board.order_from(window.name, standing.score)):
        group = list(equal)
        not_better = WHOLE_SHARE * (total - better)
        points = max((each.points for each in scale if not_better >= each.share * total), default=0)
        if points:
            yield from (standing._replace(score=points) for standing in group)
        better += len(group)


def _folded(rollup: Ranking, shares: Sequence[Counting]) -> Counting:
    """Return the standing of a player with these shares: reached with the last of them, or the best."""
    take = rollup_of(rollup).take
    if take is RollupTake.BEST:
        return min(shares, key=lambda share: rollup.merit(share.reached))._replace(ties="")
    last = max(shares, key=lambda share: (share.achieved_at_ms, share.achieved_seq))
    score = len(shares) if take is RollupTake.COUNT else within_limits(sum(share.score for share in shares))
    return last._replace(score=score, ties="")


def _slice(
    window: Window, at_ms: int, after: tuple[str, int], end: tuple[str, int]
) -> Operation[tuple[list[Row], tuple[str, int]]]:
    """Return what a slice of the events of a family's boards turned, and the board and event that end it."""
    beyond, newest = end
    begin = {"after_board": after[0], "after": after[1], "beyond": beyond, "newest": newest}

    async def work(tx: Transaction) -> tuple[list[Row], tuple[str, int]]:
        ends = await tx.rows(_SLICE_END, **begin, passed=SLICE - 1)
        last_board, last = ends[0] if ends else end
        span = {"last_board": last_board, "last": last, "begin_ms": window.begin_ms, "end_ms": window.end_ms}
        return await tx.rows(_TURNS, **begin, **span, at_ms=at_ms), (str(last_board), int(last))

    return work


async def _deleted(ledger: Ledger, names: Sequence[str], at_ms: int, kind: ReadKind) -> set[str]:
    """Return those of some boards that were deleted at an instant."""

    def lives_of(part: Sequence[str]) -> Operation[list[Row]]:
        return lambda tx: fetch_listed(tx, _LIVES, part, at_ms=at_ms)

    states: dict[Any, Any] = {}
    for at in range(0, len(names), BOARDS):
        states |= dict(await ledger.read(lives_of(names[at : at + BOARDS]), kind))
    return {board for board, state in states.items() if state == BoardState.DELETED}
