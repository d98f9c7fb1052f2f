"""The podiums that a batch would change: the first three of each window of a board, as standings are now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.index_pages import standings_of
from gateway.ledger.moderation.batch_items import ItemScore
from gateway.ledger.schema import standings
from gateway.ledger.submission_rows import stats_from
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import Standing
from policies.choices import Operator
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.vocabulary import SCORE_LIMIT
from policies.windows import Window

PLACES: Final = 3
"""Places of a podium."""

_st = standings.c
_FIRST = Query(
    select(_st.player, _st.submission_id, _st.order_value, _st.member)
    .where(_st.board == bindparam("board"), _st.window == bindparam("window_name"), _st.score.is_not(None))
    .order_by(_st.order_value, _st.member)
    .limit(PLACES)
)
_OF_SEVERAL: Final = frozenset({Operator.SUM, Operator.COUNT})
"""Operators by which every submission moves a standing."""


_Changes = Callable[[Transaction, Ranking, Window, Sequence[ItemScore]], Awaitable[bool]]


class _Podium(NamedTuple):
    """The players of a podium, their submissions, and its last place; None if it is not full."""

    players: frozenset[str]
    submissions: frozenset[str]
    last: BoardPlace | None


def podiums_lost(
    ranking: Ranking, windows: Sequence[Window], items: Sequence[ItemScore]
) -> Operation[list[str]]:
    """Return the names of those windows whose podium would change if items of a board ceased to count.

    It changes by a part of them if it changes by all.
    """
    return _podiums_changed(ranking, windows, items, _changes_by_removing)


def podiums_gained(
    ranking: Ranking, windows: Sequence[Window], items: Sequence[ItemScore]
) -> Operation[list[str]]:
    """Return the names of those windows whose podium would change if items of a board began to count.

    `items` are all of a player's.
    """
    return _podiums_changed(ranking, windows, items, _changes_by_adding)


def _podiums_changed(
    ranking: Ranking, windows: Sequence[Window], items: Sequence[ItemScore], changes: _Changes
) -> Operation[list[str]]:
    async def work(tx: Transaction) -> list[str]:
        changed = []
        for window in windows:
            inside = [item for item in items if window.begin_ms <= item.achieved_at_ms < window.end_ms]
            if inside and await changes(tx, ranking, window, inside):
                changed.append(window.name)
        return changed

    return work


async def _podium(tx: Transaction, ranking: Ranking, window: Window) -> _Podium:
    rows = await tx.rows(_FIRST, board=ranking.policy.board, window_name=window.name)
    last = BoardPlace(*rows[-1][2:]) if len(rows) == PLACES else None
    return _Podium(frozenset(row[0] for row in rows), frozenset(row[1] for row in rows), last)


async def _changes_by_removing(
    tx: Transaction, ranking: Ranking, window: Window, items: Sequence[ItemScore]
) -> bool:
    podium = await _podium(tx, ranking, window)
    if ranking.policy.operator in _OF_SEVERAL:
        return not podium.players.isdisjoint(item.player for item in items)
    return not podium.submissions.isdisjoint(item.submission_id for item in items)


async def _changes_by_adding(
    tx: Transaction, ranking: Ranking, window: Window, items: Sequence[ItemScore]
) -> bool:
    podium = await _podium(tx, ranking, window)
    by_player: Mapping[str, list[ReachedScore]] = defaultdict(list)
    for item in items:
        by_player[item.player].append(_reached(ranking, item))
    by_player = {
        player: added
        for player, added in by_player.items()
        if _may_matter(ranking, window, podium, player, added)
    }
    held = await standings_of(ranking.policy.board, {window.name: sorted(by_player)})(tx)
    standing_of = {standing.player: standing for standing in held if standing.score is not None}
    for player, added in by_player.items():
        standing = standing_of.get(player)
        before = None if standing is None else BoardPlace(standing.order, standing.member)
        after = ranking.place(window, player, _with(ranking, standing, added))
        if after != before and _is_on(podium, before, after):
            return True
    return False


def _reached(ranking: Ranking, item: ItemScore) -> ReachedScore:
    ties = ranking.ties(stats_from(item.stats))
    return ReachedScore(item.score, item.achieved_at_ms, item.seq, item.submission_id, ties)


def _may_matter(
    ranking: Ranking, window: Window, podium: _Podium, player: str, added: Sequence[ReachedScore]
) -> bool:
    """Return whether these might move a player on the podium, or onto it."""
    if podium.last is None or player in podium.players or ranking.policy.operator in _OF_SEVERAL:
        return True
    reached = ranking.standing(added)
    return reached is not None and ranking.place(window, player, reached) < podium.last


def _with(ranking: Ranking, standing: Standing | None, added: Sequence[ReachedScore]) -> ReachedScore:
    """Return what a player has reached with these submissions too."""
    if standing is None or standing.score is None:
        held = []
    else:
        ties = standing.member[: ranking.tie_digits]
        at = (standing.achieved_at_ms, standing.achieved_seq, standing.submission_id, ties)
        held = [ReachedScore(standing.score, *at)]
    is_added_up = ranking.policy.operator in _OF_SEVERAL
    reached = ranking.standing(added if is_added_up else [*held, *added])
    assert reached is not None
    if not is_added_up or not held:
        return reached
    latest = max(held[0], reached, key=lambda one: (one.at_ms, one.seq))
    score = held[0].score + reached.score
    return latest._replace(score=max(-SCORE_LIMIT, min(SCORE_LIMIT, score)))


def _is_on(podium: _Podium, *places: BoardPlace | None) -> bool:
    """Return whether one of these places is on the podium."""
    return podium.last is None or any(place is not None and place <= podium.last for place in places)
