"""Folds of promoted submissions into standings, in the transaction that changes which are promoted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, bindparam, literal_column, not_, select

from gateway.ledger.index_pages import names_of
from gateway.ledger.players.joins import was_joined
from gateway.ledger.schema import anchored_windows, is_in, players, standings, submissions
from gateway.ledger.standings.noted_moves import note_move
from gateway.ledger.standings.reached import CountingColumns, select_reached, within_limits
from gateway.ledger.standings.rollups import Share, ShareChange, fold_shares, with_share
from gateway.ledger.submission_rows import stats_from
from gateway.ledger.transaction import Cells, OneOf, Query, Row, Transaction
from gateway.shared_records import Standing
from policies.choices import Joins, Operator
from policies.fields import SortOrder
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


_ANCHORED = Query(
    select(anchored_windows.c.window, anchored_windows.c.rule).where(
        anchored_windows.c.board == bindparam("board"), OneOf(anchored_windows.c.window, "windows")
    )
)
_HELD_BY = Query(
    select(standings.c.window, standings.c.player, *(standings.c[name] for name in _FOLDED)).where(
        standings.c.board == bindparam("board"),
        OneOf(standings.c.window, "windows"),
        OneOf(standings.c.player, "of_players"),
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
    """A slot before a change: the rule of the window's anchors, if any, and the player's standing, if any."""

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
        """The place of the standing; None if nothing counts."""
        return None if self.score is None else BoardPlace(self.order, self.member)

    @property
    def share(self) -> Share:
        """The standing as a share of a rollup."""
        return Share(self.score, self.achieved_at_ms, self.achieved_seq, self.submission_id)


class StandingFold(NamedTuple):
    """A fold of a player's standing in a window, and what the slot had before it."""

    before: SlotContent
    standing: Standing

    @property
    def share(self) -> ShareChange:
        """The change as one of a share of a rollup."""
        now = self.standing
        after = Share(now.score, now.achieved_at_ms, now.achieved_seq, now.submission_id)
        return ShareChange(now.player, now.name, self.before.share, after)

    @property
    def place(self) -> BoardPlace | None:
        """The place of the standing; None if nothing counts."""
        return _place(self.standing)

    @property
    def is_changed(self) -> bool:
        """Return whether the slot has another content than before, or had none."""
        now = self.standing
        after = (
            now.score,
            now.achieved_at_ms,
            now.achieved_seq,
            now.submission_id,
            now.expires_at_ms,
            self.before.seq,
            now.order,
            now.member,
            now.rule,
        )
        return self.before[1:] != after


class PlayerChanges(NamedTuple):
    """What changes of one player's submissions, and the event under which their standings are stored."""

    changes: Sequence[CountChange]
    seq: int


PlayerWindow = tuple[Window, str, str]
"""A window, a player, and the player's display name."""


async def fold_standings(
    tx: Transaction, ranking: Ranking, by_player: Mapping[str, PlayerChanges]
) -> dict[str, list[StandingFold]]:
    """Fold and store players' standings in each window of these changes; return by player those that changed.

    The ledger must already have the submissions in the states that result. Submissions that begin to count
    are added to the standing, at a cost independent of the player's history; if one ceases to count, the
    window is folded anew. A standing that stays as it was keeps the number of the event that changed it.
    """
    names = await names_of(list(by_player))(tx)
    windows = {player: _by_window(ranking, changes) for player, (changes, _) in by_player.items()}
    wanted = {(window.name, player) for player, of_player in windows.items() for window in of_player}
    slots = await read_slots(tx, ranking, wanted)
    first = await _first_of_slots(tx, ranking, windows, slots)
    folds: dict[str, list[StandingFold]] = {player: [] for player in by_player}
    for player, of_player in windows.items():
        for window, changes in of_player.items():
            where, slot = (window, player, names.get(player, "")), slots[window.name, player]
            is_known = (window.name, player) in first
            reached = _added(ranking, slot, changes, is_first=is_known) or await _reached(tx, ranking, where)
            fold = StandingFold(slot, standing_at(ranking, where, reached, by_player[player].seq))
            if fold.is_changed:
                folds[player].append(fold)
    await put_standings(tx, ranking, [fold for of_player in folds.values() for fold in of_player])
    return folds


def _by_window(ranking: Ranking, changes: Sequence[CountChange]) -> dict[Window, list[CountChange]]:
    calendar = calendar_of(ranking.policy)
    by_window: dict[Window, list[CountChange]] = defaultdict(list)
    for kind in ranking.policy.windows:
        for change in changes:
            by_window[calendar.at(kind, change.achieved_at_ms)].append(change)
    return by_window


async def _first_of_slots(
    tx: Transaction,
    ranking: Ranking,
    windows: Mapping[str, Mapping[Window, Sequence[CountChange]]],
    slots: Mapping[tuple[str, str], SlotContent],
) -> set[tuple[str, str]]:
    """Return the slots (window, player) without a score where nothing counts but what begins to count now.

    A slot may be empty although something counts: it was removed with its window, or the board has a window
    of this kind since then only. On boards that have to be joined, a slot says nothing of what counts.
    """
    if ranking.policy.joins is Joins.REQUIRED:
        return set()
    empty: dict[Window, dict[str, list[int]]] = defaultdict(dict)
    for player, of_player in windows.items():
        for window, changes in of_player.items():
            is_added = all(change.difference > 0 for change in changes)
            if is_added and slots[window.name, player].score is None:
                empty[window][player] = [change.seq for change in changes]
    first: set[tuple[str, str]] = set()
    for window, players_there in empty.items():
        rows = await tx.rows(
            _COUNTING_BESIDE,
            board=ranking.policy.board,
            of_players=list(players_there),
            begin=window.begin_ms,
            end=window.end_ms,
            but=list(chain(*players_there.values())),
        )
        first |= {(window.name, player) for player in players_there.keys() - {row[0] for row in rows}}
    return first


async def fold_rollup(
    tx: Transaction, rollup: Ranking, change: ShareChange, window: Window, seq: int
) -> Standing | None:
    """Fold a changed share into the player's standing on a rollup, and store it under `seq`.

    Return None if the standing stays as it was.
    """
    where = (window, change.player, change.name)
    slot = await read_slot(tx, rollup, window.name, change.player)
    held = _held(rollup, slot) if slot.rule == rollup.rule else None
    reached = with_share(rollup, held, change.before, change.after)
    standing = standing_at(rollup, where, reached or await _reached(tx, rollup, where), seq)
    return await _put_if_changed(tx, rollup, standing, slot)


async def fold_anew(
    tx: Transaction, ranking: Ranking, player: str, window: Window, seq: int
) -> Standing | None:
    """Fold a player's standing in a window anew, and store it under `seq`; return None if nothing changed."""
    slot = await read_slot(tx, ranking, window.name, player)
    standing = await standing_in(tx, ranking, player, window, await name_of(tx, player), seq=seq)
    return await _put_if_changed(tx, ranking, standing, slot)


async def _put_if_changed(
    tx: Transaction, ranking: Ranking, standing: Standing, slot: SlotContent
) -> Standing | None:
    if slot.rule == ranking.rule and (slot.score, slot.place) == (standing.score, _place(standing)):
        return None
    await put_standing(tx, ranking, standing, slot)
    return standing


def _held(ranking: Ranking, slot: SlotContent) -> ReachedScore | None:
    if slot.score is None:
        return None
    ties = slot.member[: ranking.tie_digits]
    return ReachedScore(slot.score, slot.achieved_at_ms, slot.achieved_seq, slot.submission_id, ties)


def _place(standing: Standing) -> BoardPlace | None:
    return None if standing.score is None else BoardPlace(standing.order, standing.member)


async def read_slots(
    tx: Transaction, ranking: Ranking, wanted: AbstractSet[tuple[str, str]]
) -> dict[tuple[str, str], SlotContent]:
    """Return the contents of slots, (window, player)."""
    board, windows = ranking.policy.board, sorted({window for window, _ in wanted})
    anchors: dict[str, str] = dict(await tx.rows(_ANCHORED, board=board, windows=windows))
    of_players = sorted({player for _, player in wanted})
    held = await tx.rows(_HELD_BY, board=board, windows=windows, of_players=of_players)
    contents = {(window, player): content for window, player, *content in held}
    nothing = [None] * len(_FOLDED)
    return {slot: SlotContent(anchors.get(slot[0]), *contents.get(slot, nothing)) for slot in wanted}


async def put_standings(tx: Transaction, ranking: Ranking, folds: Sequence[StandingFold]) -> None:
    """Store standings in their slots, which no two share, and note the moves for the anchors."""
    # Whether a group of ties has others is asked of the standings, so one moves before the next is noted.
    anchored = [fold for fold in folds if fold.before.anchors is not None]
    for fold in anchored:
        await put_standing(tx, ranking, fold.standing, fold.before)
    others = [fold for fold in folds if fold.before.anchors is None]
    await tx.put(standings, [_row_of(fold.standing) for fold in others])


async def name_of(tx: Transaction, player: str) -> str:
    """Return a player's display name, empty if there is none."""
    names = await tx.rows(_NAME, player=player)
    return names[0][0] if names else ""


async def standing_in(
    tx: Transaction, ranking: Ranking, player: str, window: Window, name: str, *, seq: int
) -> Standing:
    """Fold a player's promoted submissions in a window into a standing under `seq`, without storing it."""
    where = (window, player, name)
    return standing_at(ranking, where, await _reached(tx, ranking, where), seq)


def standing_at(ranking: Ranking, where: PlayerWindow, reached: ReachedScore | None, seq: int) -> Standing:
    """Return a standing under `seq` with what the player reached in a window, nothing for None."""
    window, player, name = where
    score, at_ms, at_seq, submission_id = (None, 0, 0, "") if reached is None else reached[:4]
    order, member = (0, "") if reached is None else ranking.place(window, player, reached)
    expires = window.expires_at_ms or FOREVER_MS
    return Standing(
        ranking.policy.board, window.name, player, name, score, at_ms, at_seq, submission_id, expires, seq,
        order, member, ranking.rule,
    )  # fmt: skip


async def read_slot(tx: Transaction, ranking: Ranking, window: str, player: str) -> SlotContent:
    """Return the content of a player's slot in a window."""
    [row] = await tx.rows(_HELD, board=ranking.policy.board, window=window, player=player)
    return SlotContent(*row)


async def put_standing(tx: Transaction, ranking: Ranking, standing: Standing, slot: SlotContent) -> None:
    """Store a standing in its slot, which had this content before, and note the move for the anchors."""
    now = _place(standing)
    await note_move(tx, ranking, (standing.window, standing.player), slot.place, now, slot.anchors)
    await tx.put(standings, [_row_of(standing)])


def _row_of(standing: Standing) -> Cells:
    """Return the row of `standings` that keeps a standing."""
    return (
        standing.board,
        standing.window,
        standing.player,
        standing.score,
        standing.achieved_at_ms,
        standing.achieved_seq,
        standing.submission_id,
        standing.expires_at_ms,
        standing.seq,
        standing.order,
        standing.member,
        standing.rule,
    )


def _added(
    ranking: Ranking, slot: SlotContent, changes: Sequence[CountChange], *, is_first: bool
) -> ReachedScore | None:
    """Add changes to the standing in a slot; return None if that needs the rest of the history.

    It does if a submission ceases to count, if there is a standing by another rule, or none and these changes
    are not the first, or if a sum reaches SCORE_LIMIT, where it is cut off.
    """
    reached = _held(ranking, slot) if slot.rule == ranking.rule else None
    is_known = is_first or reached is not None
    if not is_known or any(change.difference < 0 for change in changes):
        return None
    for change in changes:
        reached = _first(ranking, change) if reached is None else _plus(ranking, reached, change)
    assert reached is not None
    ends = (abs(slot.score or 0), abs(reached.score))
    is_held = ranking.policy.operator is Operator.SUM and SCORE_LIMIT in ends
    return None if is_held or abs(reached.score) > SCORE_LIMIT else reached


def with_one_more(ranking: Ranking, slot: SlotContent, change: CountChange) -> ReachedScore:
    """Return a player's standing if one more submission counted, from the slot alone."""
    held = _held(ranking, slot)
    return _first(ranking, change) if held is None else _plus(ranking, held, change)


def _first(ranking: Ranking, change: CountChange) -> ReachedScore:
    """Return a standing with one submission alone."""
    alone = _alone(ranking, change)
    return alone._replace(score=1) if ranking.policy.operator is Operator.COUNT else alone


def _alone(ranking: Ranking, change: CountChange) -> ReachedScore:
    ties = ranking.ties(change.stats)
    return ReachedScore(change.score, change.achieved_at_ms, change.seq, change.submission_id, ties)


def _plus(ranking: Ranking, reached: ReachedScore, change: CountChange) -> ReachedScore:
    """Return a standing with one more submission."""
    operator, new = ranking.policy.operator, _alone(ranking, change)
    if operator is Operator.BEST:
        return min(reached, new, key=ranking.merit)
    latest = max(reached, new, key=lambda one: (one.at_ms, one.seq))
    if operator is Operator.LATEST:
        return latest
    return latest._replace(score=reached.score + (1 if operator is Operator.COUNT else change.score))


async def _reached(tx: Transaction, ranking: Ranking, where: PlayerWindow) -> ReachedScore | None:
    """Fold a player's promoted submissions in a window; None if there are none or the player has not joined.

    A window that is over counts players who were on the board at its end, whoever joins or leaves later.
    """
    window, player, _ = where
    policy = ranking.policy
    if policy.rollup:
        return await fold_shares(tx, ranking, window.name, player)
    if policy.joins is Joins.REQUIRED and not await was_joined(tx, policy.board, player, window.end_ms):
        return None
    span = {"board": policy.board, "player": player, "begin": window.begin_ms, "end": window.end_ms}
    rows = await tx.rows(_counting(policy.operator, policy.order), **span)
    if not rows:
        return None
    if policy.tie_fields and policy.operator is Operator.BEST:
        tied = await tx.rows(_TIED, **span, score=rows[0][0])
        return min((reached_by(ranking, row) for row in tied), key=ranking.merit)
    return reached_by(ranking, rows[0])


def reached_by(ranking: Ranking, row: Row) -> ReachedScore:
    """Return what a row reaches: score, time, sequence number, submission, stats."""
    score, at_ms, seq, submission_id, stats = row
    ties = ranking.ties(stats_from(stats)) if ranking.tie_digits else ""
    return ReachedScore(within_limits(score), at_ms, seq, submission_id, ties)


_IN_SLOT: Final = (
    _s.board == bindparam("board"),
    _s.player == bindparam("player"),
    _s.achieved_at_ms >= bindparam("begin"),
    _s.achieved_at_ms < bindparam("end"),
)
_COUNTING_BESIDE = Query(
    select(_s.player)
    .distinct()
    .where(
        is_in(State.PROMOTED),
        _s.board == bindparam("board"),
        OneOf(_s.player, "of_players"),
        _s.achieved_at_ms >= bindparam("begin"),
        _s.achieved_at_ms < bindparam("end"),
        not_(OneOf(_s.seq, "but")),
    )
)
_COUNTING: Final = CountingColumns(_s.score, _s.achieved_at_ms, _s.seq, (_s.submission_id, _s.stats))
_TIED: Final = Query(
    select(_s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats).where(
        *_IN_SLOT, is_in(State.PROMOTED), _s.score == bindparam("score")
    )
)


@lru_cache(maxsize=16)
def _counting(operator: Operator, order: SortOrder) -> Query:
    """Return the query for what a player reaches: score, time, sequence number, submission, stats."""
    return Query(select_reached(_COUNTING, operator, order).where(*_IN_SLOT, is_in(State.PROMOTED)))
