"""A rollup as it stood at an instant, folded from the events of its family's boards alone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from sqlalchemy import bindparam, or_, select

from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.schema import events, submissions
from gateway.ledger.standings.history import SLICE, Counting, by_place, counting_of, joined_before, ranked
from gateway.ledger.standings.reached import within_limits
from gateway.ledger.standings.rollups import board_range, rollup_of
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.shared_records import WHOLE_SHARE
from policies.choices import Joins
from policies.errors import HistoryTooLong
from policies.family import Family
from policies.opened_board import BoardState
from policies.ranking import Ranking
from policies.rollups import PercentilePoints, RollupTake
from policies.vocabulary import State
from policies.windows import Window

_e, _s = events.c, submissions.c
_PROMOTED: Final = State.PROMOTED.value
_IN_SLICE: Final = (
    _e.seq > bindparam("after"),
    _e.seq <= bindparam("upto"),
    _e.board > bindparam("first"),
    _e.board < bindparam("beyond"),
    _e.at_ms <= bindparam("at_ms"),
)
_TURNS = Query(
    select(_e.board, _e.to_state, _s.player, _s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats)
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .where(
        *_IN_SLICE,
        or_(_e.to_state == _PROMOTED, _e.from_state == _PROMOTED),
        _s.achieved_at_ms >= bindparam("begin_ms"),
        _s.achieved_at_ms < bindparam("end_ms"),
    )
    .order_by(_e.seq)
)
"""The submissions to boards of a family that began or ceased to count in a slice of the log."""

_LIVES = Query(select(_e.board, _e.to_state).where(*_IN_SLICE, _e.player == "").order_by(_e.seq))
"""The changes of the states of a family's boards in a slice of the log."""


@dataclass(slots=True)
class _Past:
    """The submissions that count on each board, by id, and the deleted boards, as the log goes on."""

    counting: dict[str, dict[str, Counting]] = field(default_factory=lambda: defaultdict(dict))
    deleted: set[str] = field(default_factory=set)
    count: int = 0

    def follow(self, turns: Iterable[Row], lives: Iterable[Row], ranking: Ranking) -> None:
        """Go on by a slice of the log."""
        for board, to_state, *facts, stats in turns:
            submission, of_board = counting_of(ranking, facts, stats), self.counting[board]
            self.count -= len(of_board)
            if to_state == _PROMOTED:
                of_board[submission.submission_id] = submission
            else:
                of_board.pop(submission.submission_id, None)
            self.count += len(of_board)
        for board, state in lives:
            (self.deleted.add if state == BoardState.DELETED else self.deleted.discard)(board)


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

    The policies in force say what is taken of the boards that were not deleted then. Raises HistoryTooLong if
    more than `most` submissions count at once on the way.
    """
    past = _Past()
    template = family.ranking_of(family.name)
    newest = await ledger.read(queries.newest_seq(), kind)
    for after in range(0, newest, SLICE):
        past.follow(*await ledger.read(_slice(family.name, window, at_ms, after), kind), template)
        if most is not None and past.count > most:
            raise HistoryTooLong
    boards = {name: list(found.values()) for name, found in past.counting.items() if name not in past.deleted}
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


def _slice(family: str, window: Window, at_ms: int, after: int) -> Operation[tuple[list[Row], list[Row]]]:
    span = {"after": after, "upto": after + SLICE, "at_ms": at_ms, **board_range(family)}

    async def work(tx: Transaction) -> tuple[list[Row], list[Row]]:
        turns = await tx.rows(_TURNS, **span, begin_ms=window.begin_ms, end_ms=window.end_ms)
        return turns, await tx.rows(_LIVES, **span)

    return work
