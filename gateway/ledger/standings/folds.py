"""Standings: folded from what is promoted, inside the transaction that changed what is promoted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, bindparam, func, literal_column, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.players.joins import was_joined
from gateway.ledger.schema import anchored_windows, is_in, players, standings, submissions
from gateway.ledger.standings.anchors import note_move
from gateway.ledger.submission_rows import stats_from
from gateway.ledger.transaction import Query, Row, Transaction
from gateway.records import Standing
from policies.fields import SortOrder
from policies.model import Joins, Operator
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.vocabulary import SCORE_LIMIT, State
from policies.windows import FOREVER_MS, Window, calendar_of

_s = submissions.c

_FOLDED: Final = (
    "score",
    "achieved_at_ms",
    "achieved_seq",
    "submission_id",
    "expires_at_ms",
    "seq",
    "order_value",
    "member",
    "rule",
)

_NAME = Query(select(players.c.name).where(players.c.player == bindparam("player")))
_put_standing = insert(standings)  # PostgreSQL's upsert compiles for SQLite too, and not the other way round
_PUT_STANDING = Query(
    _put_standing.on_conflict_do_update(
        index_elements=["board", "window", "player"],
        set_={name: _put_standing.excluded[name] for name in _FOLDED},
    )
)
_at: Final[dict[str, Any]] = {"board": bindparam("board"), "window": bindparam("window")}
_one = select(literal_column("1").label("one")).subquery()
_HELD = Query(
    select(anchored_windows.c.rule.label("anchors"), *(standings.c[name] for name in _FOLDED)).select_from(
        _one.outerjoin(
            anchored_windows, and_(*(anchored_windows.c[name] == _at[name] for name in _at))
        ).outerjoin(
            standings,
            and_(
                *(standings.c[name] == _at[name] for name in _at), standings.c.player == bindparam("player")
            ),
        )
    )
)


class CountChange(NamedTuple):
    """A submission that begins to count (`difference` 1) or ceases to (-1)."""

    difference: int
    submission_id: str
    seq: int
    achieved_at_ms: int
    score: int
    stats: Mapping[str, int]


class SlotContent(NamedTuple):
    """What is in a slot before a change: the rule of the window's anchors if it has any, and of the standing if there is one."""

    anchors: str | None
    score: int | None
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str
    expires_at_ms: int
    seq: int
    order: int
    member: str
    rule: str

    @property
    def place(self) -> BoardPlace | None:
        """Where it stands; None where nothing counts."""
        return None if self.score is None else BoardPlace(self.order, self.member)


async def fold_standings(
    tx: Transaction, ranking: Ranking, player: str, counted: Sequence[CountChange], seq: int
) -> tuple[Standing, ...]:
    """The player's standing in each window that one of these falls into, stored under `seq`.

    They must stand in the ledger as they are counted here. What only begins to count is added to what stands already,
    whatever the length of the player's history; where something ceases to count, the window is folded anew.
    """
    names = await tx.rows(_NAME, player=player)
    name = names[0][0] if names else ""
    calendar = calendar_of(ranking.policy)
    found: dict[Window, list[CountChange]] = defaultdict(list)
    for kind in ranking.policy.windows:
        for each in counted:
            found[calendar.at(kind, each.achieved_at_ms)].append(each)
    return tuple(
        [await _fold_window(tx, ranking, (window, player, name), some, seq) for window, some in found.items()]
    )


PlayerWindow = tuple[Window, str, str]
"""A window, a player, and the player's name."""


async def _fold_window(
    tx: Transaction, ranking: Ranking, slot: PlayerWindow, counted: Sequence[CountChange], seq: int
) -> Standing:
    window, player, _ = slot
    held = await read_slot(tx, ranking, window.name, player)
    reached = _added(ranking, held, counted) or await _reached(tx, ranking, slot)
    standing = _standing(ranking, slot, reached, seq)
    await put_standing(tx, ranking, standing, held)
    return standing


async def standing_in(
    tx: Transaction, ranking: Ranking, player: str, window: Window, name: str, *, seq: int
) -> Standing:
    """What a player's promoted submissions come to in a window, under `seq`; nothing is stored."""
    slot = (window, player, name)
    return _standing(ranking, slot, await _reached(tx, ranking, slot), seq)


def _standing(ranking: Ranking, slot: PlayerWindow, reached: ReachedScore | None, seq: int) -> Standing:
    window, player, name = slot
    score, at_ms, at_seq, submission_id = (None, 0, 0, "") if reached is None else reached[:4]
    order, member = (0, "") if reached is None else ranking.place(window, player, reached)
    expires = window.expires_at_ms or FOREVER_MS
    return Standing(
        ranking.policy.board, window.name, player, name, score, at_ms, at_seq, submission_id, expires, seq,
        order, member, ranking.rule,
    )  # fmt: skip


async def read_slot(tx: Transaction, ranking: Ranking, window: str, player: str) -> SlotContent:
    """What a player has in a window."""
    [row] = await tx.rows(_HELD, board=ranking.policy.board, window=window, player=player)
    return SlotContent(*row)


async def put_standing(tx: Transaction, ranking: Ranking, standing: Standing, held: SlotContent) -> None:
    """Stores a standing in the place of what the player had in its window."""
    now = None if standing.score is None else BoardPlace(standing.order, standing.member)
    await note_move(tx, ranking, (standing.window, standing.player), held.place, now, held.anchors)
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
        order_value=standing.order,
        member=standing.member,
        rule=standing.rule,
    )


def _added(ranking: Ranking, held: SlotContent, counted: Sequence[CountChange]) -> ReachedScore | None:
    """What stands, with these added to it; None if that cannot be told without the rest of the history.

    It cannot where something ceases to count, where nothing stands, where it was folded by another rule, and where a
    sum is held to the limit.
    """
    if held.score is None or held.rule != ranking.rule or any(each.difference < 0 for each in counted):
        return None
    score, at_ms, at_seq, submission_id, member = (
        held.score, held.achieved_at_ms, held.achieved_seq, held.submission_id, held.member
    )  # fmt: skip
    reached = ReachedScore(score, at_ms, at_seq, submission_id, member[: ranking.tie_digits])
    for each in counted:
        reached = _plus(ranking, reached, each)
    is_held = ranking.policy.operator is Operator.SUM and SCORE_LIMIT in (abs(score), abs(reached.score))
    return None if is_held or abs(reached.score) > SCORE_LIMIT else reached


def with_one_more(ranking: Ranking, held: SlotContent, each: CountChange) -> ReachedScore:
    """A player's standing if one submission more counted, told from what stands and not from the whole history."""
    if held.score is None:
        score = 1 if ranking.policy.operator is Operator.COUNT else each.score
        return ReachedScore(
            score, each.achieved_at_ms, each.seq, each.submission_id, ranking.ties(each.stats)
        )
    ties = held.member[: ranking.tie_digits]
    reached = ReachedScore(held.score, held.achieved_at_ms, held.achieved_seq, held.submission_id, ties)
    return _plus(ranking, reached, each)


def _plus(ranking: Ranking, reached: ReachedScore, each: CountChange) -> ReachedScore:
    """A standing to which one submission more counts."""
    operator = ranking.policy.operator
    new = ReachedScore(
        each.score, each.achieved_at_ms, each.seq, each.submission_id, ranking.ties(each.stats)
    )
    if operator is Operator.BEST:
        return min(reached, new, key=ranking.merit)
    latest = max(reached, new, key=lambda one: (one.at_ms, one.seq))
    if operator is Operator.LATEST:
        return latest
    return latest._replace(score=reached.score + (1 if operator is Operator.COUNT else each.score))


async def _reached(tx: Transaction, ranking: Ranking, slot: PlayerWindow) -> ReachedScore | None:
    """What all of a player's promoted submissions in a window come to; None for who is not on a board to be joined.

    In a window that is over counts who was on the board as it ended: joining or leaving later changes nothing in it.
    """
    window, player, _ = slot
    policy = ranking.policy
    if policy.joins is Joins.REQUIRED and not await was_joined(tx, policy.board, player, window.end_ms):
        return None
    span = {"board": policy.board, "player": player, "begin": window.begin_ms, "end": window.end_ms}
    rows = await tx.rows(_counting(policy.operator, policy.order), **span)
    if not rows:
        return None
    if policy.tie_fields and policy.operator is Operator.BEST:
        tied = await tx.rows(_TIED, **span, score=rows[0][0])
        return min((_reached_by(ranking, row) for row in tied), key=ranking.merit)
    found = _reached_by(ranking, rows[0])
    return found._replace(score=max(-SCORE_LIMIT, min(SCORE_LIMIT, found.score)))


def _reached_by(ranking: Ranking, row: Row) -> ReachedScore:
    score, at_ms, seq, submission_id, stats = row
    ties = ranking.ties(stats_from(stats)) if ranking.tie_digits else ""
    return ReachedScore(score, at_ms, seq, submission_id, ties)


_IN_SLOT = (
    _s.board == bindparam("board"),
    _s.player == bindparam("player"),
    is_in(State.PROMOTED),
    _s.achieved_at_ms >= bindparam("begin"),
    _s.achieved_at_ms < bindparam("end"),
)
_TIED = Query(
    select(_s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats).where(
        *_IN_SLOT, _s.score == bindparam("score")
    )
)


@lru_cache(maxsize=8)
def _counting(operator: Operator, order: SortOrder) -> Query:
    """(score, achieved at, its sequence, submission, stats) of what counts among a player's promoted submissions.

    A sum is reached with its last submission, so it takes that one's time.
    """
    counts: dict[Operator, ColumnElement[Any]] = {
        Operator.SUM: func.sum(_s.score).over(),
        Operator.COUNT: func.count().over(),
    }
    best_first = _s.score.asc() if order is SortOrder.ASCENDING else _s.score.desc()
    ordering = (
        (best_first, _s.achieved_at_ms, _s.seq)
        if operator is Operator.BEST
        else (_s.achieved_at_ms.desc(), _s.seq.desc())
    )
    return Query(
        select(counts.get(operator, _s.score), _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats)
        .where(*_IN_SLOT)
        .order_by(*ordering)
        .limit(1)
    )
