"""Standings of rollups: what a player has on the boards of a family, as one score.

The boards of a family have names that begin with its own name and a dot, so they are one range of names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from sqlalchemy import bindparam, exists, func, literal_column, not_, select

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import STANDS_IN_FAMILY, boards, rollup_points, standings
from gateway.ledger.standings.reached import CountingColumns, select_reached, within_limits
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.choices import Operator, WindowKind
from policies.fields import SortOrder
from policies.opened_board import BoardState, names_of_family
from policies.ranking import Ranking, ReachedScore
from policies.rollups import Rollup, RollupTake
from policies.vocabulary import SCORE_LIMIT
from policies.windows import names_of_kind

_st, _p = standings.c, rollup_points.c

_DELETED: Final = exists().where(boards.c.board == _st.board, boards.c.state == literal_column("'deleted'"))

_OF_PLAYER: Final = (
    _st.player == bindparam("player"),
    _st.window == bindparam("window"),
    _st.board > bindparam("first"),
    _st.board < bindparam("beyond"),
    STANDS_IN_FAMILY,
    not_(_DELETED),
)
_STATE = Query(select(boards.c.state).where(boards.c.board == bindparam("board")))
_SHARE: Final = CountingColumns(_st.score, _st.achieved_at_ms, _st.achieved_seq, (_st.submission_id,))
_POINTS = Query(
    select(func.sum(_p.points).over(), _p.achieved_at_ms, _p.achieved_seq, _p.submission_id)
    .where(
        _p.rollup == bindparam("rollup"), _p.player == bindparam("player"), _p.window == bindparam("window")
    )
    .order_by(_p.achieved_at_ms.desc(), _p.achieved_seq.desc())
    .limit(1)
)
_PLAYERS = Query(
    select(_st.player)
    .distinct()
    .where(
        _st.player > bindparam("after"),
        _st.window == bindparam("window"),
        _st.board > bindparam("first"),
        _st.board < bindparam("beyond"),
        STANDS_IN_FAMILY,
    )
    .order_by(_st.player)
    .limit(bindparam("count"))
)


_OF_KIND: Final = (_st.window >= bindparam("least"), _st.window < bindparam("beyond"))
# Ordered by the whole key, so that either database stops at the first standing of a window.
_window_of = select(_st.window).order_by(_st.window, _st.player).limit(1)
_first_windows = (
    select(
        boards.c.board.label("board"),
        _window_of.where(_st.board == boards.c.board, *_OF_KIND).scalar_subquery().label("window"),
    )
    .where(is_listed(boards.c.board))
    .cte("found", recursive=True)
)
_next_window = _window_of.where(
    _st.board == _first_windows.c.board, _st.window > _first_windows.c.window, *_OF_KIND
)
_found = _first_windows.union_all(
    select(_first_windows.c.board, _next_window.scalar_subquery()).where(_first_windows.c.window.is_not(None))
)
_WINDOWS = Query(select(_found.c.board, _found.c.window).where(_found.c.window.is_not(None)))


class Share(NamedTuple):
    """What a player has on one board of a family, a standing or points; without a score it is nothing."""

    score: int | None
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str

    @property
    def reached(self) -> ReachedScore | None:
        """The score that was reached; None if nothing counts."""
        return None if self.score is None else ReachedScore(self.score, *self[1:])


NO_SHARE: Final = Share(None, 0, 0, "")


class ShareChange(NamedTuple):
    """A player's share that changed. `name` is the player's display name."""

    player: str
    name: str
    before: Share
    after: Share


async def fold_shares(tx: Transaction, ranking: Ranking, window: str, player: str) -> ReachedScore | None:
    """Fold a player's standings on the family's boards, however many; None if there are none.

    Equal rollups are in the order in which they were reached: with the last share, or the best one.
    """
    rollup = rollup_of(ranking)
    if rollup.take is RollupTake.POINTS:
        rows = await tx.rows(_POINTS, rollup=ranking.policy.board, window=window, player=player)
    else:
        query = _shares(rollup.take, ranking.policy.order)
        rows = await tx.rows(query, player=player, window=window, **board_range(rollup.family))
    return _reached_by(rows[0]) if rows else None


def with_share(
    ranking: Ranking, reached: ReachedScore | None, before: Share, after: Share
) -> ReachedScore | None:
    """Return a rollup in which one share has changed; None if that needs the player's other shares.

    It does if the rollup is not known, or was reached with this share, which ceases to count or becomes worse
    or earlier.
    """
    if reached is None:
        return None
    is_reached_with = before.score is not None and before.submission_id == reached.submission_id
    new = after.reached
    if rollup_of(ranking).take is RollupTake.BEST:
        best = min((reached, new), key=ranking.merit) if new else reached
        return None if is_reached_with and best is not new else best
    if is_reached_with and (new is None or (new.at_ms, new.seq) < (reached.at_ms, reached.seq)):
        return None
    latest = max((reached, new), key=lambda share: (share.at_ms, share.seq)) if new else reached
    if rollup_of(ranking).take is RollupTake.COUNT:
        added = (after.score is not None) - (before.score is not None)
    else:
        added = (after.score or 0) - (before.score or 0)
    score = reached.score + added
    return None if max(abs(score), abs(reached.score)) >= SCORE_LIMIT else latest._replace(score=score)


def rollup_of(ranking: Ranking) -> Rollup:
    """Return the rollup of a board that has one. Raises ValueError for any other."""
    if ranking.policy.rollup is None:
        raise ValueError(f"{ranking.policy.board} is no rollup")
    return ranking.policy.rollup


def board_range(family: str) -> dict[str, str]:
    """Return the names between which those of a family's boards are, to bind in a query."""
    return dict(zip(("first", "beyond"), names_of_family(family), strict=True))


async def is_deleted(tx: Transaction, board: str) -> bool:
    """Return whether a board of a family is deleted. What a process remembers of the board may be older."""
    return await tx.rows(_STATE, board=board) == [(BoardState.DELETED.value,)]


async def windows_of(tx: Transaction, kind: WindowKind, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return (board, window) for each window of this kind that has standings on boards of families."""
    least, beyond = names_of_kind(kind)
    rows = await fetch_listed(tx, _WINDOWS, names, least=least, beyond=beyond)
    return [(row[0], row[1]) for row in rows]


def players_of_family(family: str, window: str, *, after: str, count: int) -> Operation[list[str]]:
    """Return the next players who stand in a window of any of a family's boards after a player, in order."""

    async def work(tx: Transaction) -> list[str]:
        values = {"window": window, "after": after, "count": count, **board_range(family)}
        return [row[0] for row in await tx.rows(_PLAYERS, **values)]

    return work


def _reached_by(row: Row) -> ReachedScore:
    score, at_ms, seq, submission_id = row
    return ReachedScore(within_limits(score), at_ms, seq, submission_id)


@lru_cache(maxsize=8)
def _shares(take: RollupTake, order: SortOrder) -> Query:
    """Return the query for what a player's shares come to: score, time, sequence number, submission."""
    return Query(select_reached(_SHARE, Operator(take.value), order).where(*_OF_PLAYER))
