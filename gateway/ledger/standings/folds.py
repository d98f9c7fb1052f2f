"""Folds of promoted submissions into standings, in the transaction that changes which are promoted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from sqlalchemy import bindparam, not_, select

from gateway.ledger.index_pages import names_of
from gateway.ledger.schema import is_in, players, submissions
from gateway.ledger.standings.counting import CountChange, PlayerWindow, fold_reached, with_more
from gateway.ledger.standings.rollups import ShareChange, with_share
from gateway.ledger.standings.slots import (
    SlotContent,
    StandingFold,
    held_in,
    place_of,
    put_standing,
    put_standings,
    read_slot,
    read_slots,
)
from gateway.ledger.transaction import OneOf, Query, Transaction
from gateway.shared_records import Standing
from policies.choices import Joins
from policies.ranking import Ranking, ReachedScore
from policies.vocabulary import State
from policies.windows import FOREVER_MS, Window, calendar_of

_s = submissions.c

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

_NAME = Query(select(players.c.name).where(players.c.player == bindparam("player")))


class PlayerChanges(NamedTuple):
    """What changes of one player's submissions, and the event under which their standings are stored."""

    changes: Sequence[CountChange]
    seq: int


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
            reached = with_more(ranking, slot, changes, is_first=is_known) or await fold_reached(
                tx, ranking, where
            )
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
    held = held_in(rollup, slot) if slot.rule == rollup.rule else None
    reached = with_share(rollup, held, change.before, change.after)
    standing = standing_at(rollup, where, reached or await fold_reached(tx, rollup, where), seq)
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
    if slot.rule == ranking.rule and (slot.score, slot.place) == (standing.score, place_of(standing)):
        return None
    await put_standing(tx, ranking, standing, slot)
    return standing


async def name_of(tx: Transaction, player: str) -> str:
    """Return a player's display name, empty if there is none."""
    names = await tx.rows(_NAME, player=player)
    return names[0][0] if names else ""


async def standing_in(
    tx: Transaction, ranking: Ranking, player: str, window: Window, name: str, *, seq: int
) -> Standing:
    """Fold a player's promoted submissions in a window into a standing under `seq`, without storing it."""
    where = (window, player, name)
    return standing_at(ranking, where, await fold_reached(tx, ranking, where), seq)


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
