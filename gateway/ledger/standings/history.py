"""A board as it stood at an instant, folded from the events and their submissions alone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, literal_column, or_, select

from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.joins import players_joined_before
from gateway.ledger.reads import ReadKind
from gateway.ledger.schema import Int64, events, submissions
from gateway.ledger.submission_rows import stats_from
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.choices import Joins, RankKind
from policies.errors import HistoryTooLong
from policies.model import Policy
from policies.ranking import Ranking, ReachedScore
from policies.vocabulary import State
from policies.windows import Window

SLICE: Final = 10_000
"""Events of a board in one read, so that nobody waits long behind it."""

PLAYERS: Final = 1_280
"""Players whose joins are looked up in one read."""


class Counting(NamedTuple):
    """A submission that counted at the instant, or a standing folded from such."""

    player: str
    score: int
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str
    ties: str

    @property
    def reached(self) -> ReachedScore:
        """The score, time and ties that the ranking compares."""
        return ReachedScore(*self[1:])


_e, _s = events.c, submissions.c
_PROMOTED: Final = State.PROMOTED.value

_OF_PLAYERS: Final = (
    _e.board == bindparam("board"),
    _e.seq > bindparam("after"),
    _e.player != literal_column("''"),
)
_SLICE_END = Query(
    select(_e.seq)
    .where(*_OF_PLAYERS, _e.seq <= bindparam("newest"))
    .order_by(_e.seq)
    .offset(bindparam("passed", type_=Int64))
    .limit(1)
)
_TURNS = Query(
    select(_e.to_state, _e.player, _s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats)
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .where(
        *_OF_PLAYERS,
        _e.seq <= bindparam("upto"),
        _e.at_ms <= bindparam("at_ms"),
        or_(_e.to_state == _PROMOTED, _e.from_state == _PROMOTED),
        _s.achieved_at_ms >= bindparam("begin_ms"),
        _s.achieved_at_ms < bindparam("end_ms"),
    )
    .order_by(_e.seq)
)
"""The submissions that began or ceased to count in a slice of the board's log."""


async def board_as_of(
    ledger: Ledger,
    policy: Policy,
    window: Window,
    at_ms: int,
    *,
    most: int | None = None,
    kind: ReadKind = ReadKind.DUTIES,
) -> list[Counting]:
    """Return the standings of a window at an instant (Unix milliseconds), ranked as on the live board.

    An event belongs to the instant of its `at_ms`. A board that has to be joined shows the players who were
    on it at the instant, or at the window's end if that was earlier. Raises HistoryTooLong if more than
    `most` submissions count at once on the way.
    """
    counting: dict[str, Counting] = {}
    ranking = Ranking(policy)
    newest, upto = await ledger.read(queries.newest_seq(), kind), 0
    while upto < newest:
        turns, upto = await ledger.read(_turns(policy.board, window, at_ms, upto, newest), kind)
        for to_state, *facts, stats in turns:
            submission = counting_of(ranking, facts, stats)
            if to_state == _PROMOTED:
                counting[submission.submission_id] = submission
            else:
                counting.pop(submission.submission_id, None)
        if most is not None and len(counting) > most:
            raise HistoryTooLong
    stands = list(counting.values())
    if policy.joins is Joins.REQUIRED:
        stands = await joined_before(ledger, policy.board, stands, min(at_ms + 1, window.end_ms), kind)
    return await asyncio.to_thread(ranked, stands, ranking, window)


def ranked(counting: Iterable[Counting], ranking: Ranking, window: Window) -> list[Counting]:
    """Fold each player's submissions into a standing and return the standings by rank."""
    of_player: dict[str, list[Counting]] = defaultdict(list)
    for submission in counting:
        of_player[submission.player].append(submission)
    standings = [_standing(submissions_of, ranking) for submissions_of in of_player.values()]
    return by_place(standings, ranking, window)


def by_place(standings: Iterable[Counting], ranking: Ranking, window: Window) -> list[Counting]:
    """Return standings by rank."""
    return sorted(standings, key=lambda one: ranking.place(window, one.player, one.reached))


def ranks_of(
    standings: Sequence[Counting], ranking: Ranking, window: Window, kind: RankKind, begin: int = 0
) -> list[int]:
    """Return the ranks of sorted standings from `begin` on; ties are equal unless ranks are unique."""
    ranks, last, rank, groups = [], None, 0, 0
    for at, standing in enumerate(standings, start=1):
        place = ranking.place(window, standing.player, standing.reached)
        group = place if kind is RankKind.UNIQUE else ranking.group_begin(window.name, place)
        if group != last:
            last, rank, groups = group, at, groups + 1
        ranks.append(groups if kind is RankKind.DENSE else rank)
    return ranks[begin:]


async def joined_before(
    ledger: Ledger, board: str, counting: Sequence[Counting], before_ms: int, kind: ReadKind
) -> list[Counting]:
    """Return what counts of the players who were on a board before an instant."""
    players = sorted({each.player for each in counting})
    joined: set[str] = set()
    for at in range(0, len(players), PLAYERS):
        page = _players_joined_before(board, players[at : at + PLAYERS], before_ms)
        joined |= await ledger.read(page, kind)
    return [each for each in counting if each.player in joined]


def _players_joined_before(board: str, players: Sequence[str], before_ms: int) -> Operation[set[str]]:
    async def work(tx: Transaction) -> set[str]:
        return await players_joined_before(tx, board, players, before_ms)

    return work


def counting_of(ranking: Ranking, facts: Sequence[Any], stats: str) -> Counting:
    """Return a submission by its player, score, time, event and id, and its statistics as stored."""
    player, score, at_ms, seq, submission_id = facts
    ties = ranking.ties(stats_from(stats)) if ranking.tie_digits else ""
    return Counting(player, score, at_ms, seq, submission_id, ties)


def _standing(counting: Sequence[Counting], ranking: Ranking) -> Counting:
    """Return the standing of a player from at least one submission."""
    reached = ranking.standing([submission.reached for submission in counting])
    assert reached is not None
    return Counting(counting[0].player, *reached)


def _turns(
    board: str, window: Window, at_ms: int, after: int, newest: int
) -> Operation[tuple[list[Row], int]]:
    """Return what a slice of a board's log turned, and the event with which it ends."""

    async def work(tx: Transaction) -> tuple[list[Row], int]:
        ends = await tx.rows(_SLICE_END, board=board, after=after, newest=newest, passed=SLICE - 1)
        upto = int(ends[0][0]) if ends else newest
        rows = await tx.rows(
            _TURNS,
            board=board,
            at_ms=at_ms,
            after=after,
            upto=upto,
            begin_ms=window.begin_ms,
            end_ms=window.end_ms,
        )
        return rows, upto

    return work
