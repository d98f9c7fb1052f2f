"""Builds a revision of a window, one slice per transaction, puts it in place, and removes what it replaces.

A slice continues from the last entry, so any steward can continue a build that another left, and any number
may work on it. The slice that finds no more standings puts the revision in place in its own transaction. Each
slice first checks whether the window changed since the build began; if so, the build is void and begins
again. If that happens too often, the whole revision is built in one transaction, which nothing can void.

Standings are read in the board's order (`standings_by_place`). Entries are tied if they are in the same group
by `policies.ranking.Ranking.group`: the integer of their place divided by the orders of one score, and the
tie fields at the start of their member.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Integer,
    and_,
    bindparam,
    case,
    delete,
    desc,
    func,
    insert,
    select,
    tuple_,
    update,
)

from gateway.ledger.archive.windows import ArchivedWindow, ArchiveStage, load
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import Int64, Text, archived_entries, archived_windows, standings
from gateway.ledger.standings.noted_moves import drop_anchors
from gateway.ledger.standings.refold import refold
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.ranking import Ranking

_w, _e, _st = archived_windows.c, archived_entries.c, standings.c
_IS_IT: Final = (_w.board == bindparam("at_board"), _w.window == bindparam("at_window"))
_OF_REVISION: Final = (
    _e.board == bindparam("board"),
    _e.window == bindparam("window"),
    _e.revision == bindparam("revision"),
)
_OF_WINDOW: Final = (_st.board == bindparam("board"), _st.window == bindparam("window"))


class LastEntry(NamedTuple):
    """The last entry of a build: its ranks and its place."""

    rank: int
    sparse: int
    dense: int
    order: int
    member: str


ALL: Final = 2**62
"""A number above any count of entries and any rank."""

BEFORE_ALL: Final = LastEntry(0, 0, 0, -(2**62), "")
"""The last entry of an empty build, ahead of any place."""


class SliceOutcome(Enum):
    """The outcome of a slice: more may follow, the revision is in place, or the build is no longer ours."""

    MORE = auto()
    DONE = auto()
    VOID = auto()


def _number(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=Int64)


def _copy() -> Query:
    """Return the query that inserts the next entries, with ranks that continue from the last entry."""
    page = (
        select(
            _st.player,
            _st.score,
            _st.achieved_at_ms,
            _st.submission_id,
            _st.order_value,
            _st.member,
            (_st.order_value // _number("slots")).label("lead"),
            func.substr(_st.member, 1, bindparam("digits", type_=Integer), type_=Text).label("ties"),
        )
        .where(
            *_OF_WINDOW,
            _st.score.is_not(None),
            tuple_(_st.order_value, _st.member)
            > tuple_(_number("last_order"), bindparam("last_member", type_=Text)),
        )
        .order_by(_st.order_value, _st.member)
        .limit(_number("count"))
        .subquery()
    ).c
    is_tied_with_last = and_(
        _number("last_rank") > 0,
        page.lead == _number("last_lead"),
        page.ties == bindparam("last_ties", type_=Text),
    )
    goes_on = case((is_tied_with_last, 1), else_=0)
    group = (page.lead, page.ties)
    ranked = select(
        bindparam("board", type_=Text),
        bindparam("window", type_=Text),
        _number("revision"),
        _number("last_rank") + func.row_number().over(order_by=(page.order_value, page.member)),
        case(
            (is_tied_with_last, _number("last_sparse")),
            else_=_number("last_rank") + func.rank().over(order_by=group),
        ),
        _number("last_dense") - func.max(goes_on).over() + func.dense_rank().over(order_by=group),
        page.player,
        page.score,
        page.achieved_at_ms,
        page.submission_id,
        page.order_value,
        page.member,
    )
    return Query(insert(archived_entries).from_select(archived_entries.columns.keys(), ranked))


_COPY = _copy()
_LAST = Query(
    select(_e.rank, _e.sparse_rank, _e.dense_rank, _e.order_value, _e.member)
    .where(*_OF_REVISION)
    .order_by(desc(_e.rank))
    .limit(1)
)
_FOLDED = Query(
    update(archived_windows)
    .where(*_IS_IT, _w.building == bindparam("built"), _w.stage == ArchiveStage.FOLDING.value)
    .values(stage=ArchiveStage.COPYING.value, is_thin=0)
)
_IN_PLACE = Query(
    update(archived_windows)
    .where(*_IS_IT)
    .values(
        stage=ArchiveStage.SWEEPING.value,
        revision=bindparam("built"),
        changed_seq=0,
        frozen_at_ms=bindparam("now_ms"),
        upto_seq=bindparam("newest"),
        entries=bindparam("total"),
        groups=bindparam("distinct"),
    )
)
_SET_STAGE = Query(update(archived_windows).where(*_IS_IT).values(stage=bindparam("new_stage")))
_SET_GONE = Query(update(archived_windows).where(*_IS_IT).values(stage=bindparam("new_stage"), changed_seq=0))
_SET_THIN = Query(update(archived_windows).where(*_IS_IT).values(is_thin=1))
_OLDEST_ENTRY = Query(
    select(_e.revision, _e.rank)
    .where(_e.board == bindparam("board"), _e.window == bindparam("window"), _e.revision < bindparam("below"))
    .order_by(_e.revision, _e.rank)
    .limit(1)
)
_DELETE_ENTRIES = Query(delete(archived_entries).where(*_OF_REVISION, _e.rank < bindparam("below")))
_NTH_PLAYER = Query(
    select(_st.player).where(*_OF_WINDOW).order_by(_st.player).limit(1).offset(_number("skipped"))
)
_DELETE_STANDINGS = Query(delete(standings).where(*_OF_WINDOW, _st.player <= bindparam("upto")))
_DELETE_LAST_STANDINGS = Query(delete(standings).where(*_OF_WINDOW))
_ENTRY_PLAYERS = Query(
    select(_e.player)
    .where(*_OF_REVISION, _e.player > bindparam("after"))
    .order_by(_e.player)
    .limit(bindparam("count"))
)
_OF_OTHER_RULE = Query(
    select(_st.player).where(*_OF_WINDOW, _st.score.is_not(None), _st.rule != bindparam("rule"))
)
"""The few players key standing changed, under today's rule, while a revision was built under another."""

_RULES = Query(
    select(_st.player, _st.rule, _st.score)
    .where(*_OF_WINDOW, _st.player > bindparam("after"))
    .order_by(_st.player)
    .limit(bindparam("count"))
)


def players_of(archived: ArchivedWindow, *, after: str, count: int) -> Operation[list[str]]:
    """Return the next players of the readable revision, by id."""

    async def work(tx: Transaction) -> list[str]:
        key = {"board": archived.board, "window": archived.window, "revision": archived.revision}
        return [row[0] for row in await tx.rows(_ENTRY_PLAYERS, **key, after=after, count=count)]

    return work


def rules_in(archived: ArchivedWindow, *, after: str, count: int) -> Operation[list[tuple[str, bool]]]:
    """Return the next players in the window, and whether their standing is under another rule."""

    async def work(tx: Transaction) -> list[tuple[str, bool]]:
        rows = await tx.rows(_RULES, board=archived.board, window=archived.window, after=after, count=count)
        return [(player, score is not None and rule != archived.rule) for player, rule, score in rows]

    return work


def mark_folded(archived: ArchivedWindow) -> Operation[int]:
    """Note that all standings are folded under the window's rule and can be copied."""

    async def work(tx: Transaction) -> int:
        return await tx.run(
            _FOLDED, at_board=archived.board, at_window=archived.window, built=archived.building
        )

    return work


def copy_slice(
    archived: ArchivedWindow, *, orders_per_score: int, tie_digits: int, count: int, now_ms: int
) -> Operation[SliceOutcome]:
    """Copy the next `count` entries. `orders_per_score` and `tie_digits` are the window's ranking's."""

    async def work(tx: Transaction) -> SliceOutcome:
        current = await load(tx, archived.board, archived.window)
        if (
            current is None
            or current.changed_seq
            or (current.stage, current.building) != (ArchiveStage.COPYING, archived.building)
        ):
            return SliceOutcome.VOID
        key = {"board": archived.board, "window": archived.window, "revision": archived.building}
        last = await _last(tx, key)
        copied = await tx.run(_COPY, **key, **_after(last, orders_per_score, tie_digits), count=count)
        if copied == count:
            return SliceOutcome.MORE
        await _put_in_place(tx, archived, await _last(tx, key), now_ms=now_ms)
        return SliceOutcome.DONE

    return work


def copy_whole(archived: ArchivedWindow, ranking: Ranking, *, now_ms: int) -> Operation[SliceOutcome]:
    """Copy the whole revision in one transaction, with all changes of the window up to now.

    Other writers wait for all of it. Only a build that began since can void it.
    """

    async def work(tx: Transaction) -> SliceOutcome:
        current = await load(tx, archived.board, archived.window)
        if current is None or (current.stage, current.building) != (ArchiveStage.COPYING, archived.building):
            return SliceOutcome.VOID
        of_window = {"board": archived.board, "window": archived.window}
        others = await tx.rows(_OF_OTHER_RULE, **of_window, rule=archived.rule)
        await refold(ranking, [player for (player,) in others], [archived.span])(tx)
        key = {**of_window, "revision": archived.building}
        await tx.run(_DELETE_ENTRIES, **key, below=ALL)
        before_all = _after(BEFORE_ALL, ranking.orders_per_score(archived.window), ranking.tie_digits)
        await tx.run(_COPY, **key, **before_all, count=ALL)
        await _put_in_place(tx, archived, await _last(tx, key), now_ms=now_ms)
        return SliceOutcome.DONE

    return work


def sweep_slice(archived: ArchivedWindow, *, count: int) -> Operation[int]:
    """Remove entries of earlier revisions and return how many; once there are none, the window is frozen."""

    async def work(tx: Transaction) -> int:
        current = await load(tx, archived.board, archived.window)
        if current is None or current.stage is not ArchiveStage.SWEEPING:
            return 0
        removed = await _remove_entries(tx, current, below=current.revision, count=count)
        if not removed:
            await _set_stage(tx, current, ArchiveStage.FROZEN)
        return removed

    return work


def thin_slice(archived: ArchivedWindow, *, count: int) -> Operation[int]:
    """Remove standings of a frozen window and return how many; once there are none, the window is kept.

    Does nothing if the window was changed since.
    """

    async def work(tx: Transaction) -> int:
        current = await load(tx, archived.board, archived.window)
        if current is None or current.changed_seq or current.stage is not ArchiveStage.FROZEN:
            return 0
        await tx.run(_SET_THIN, at_board=current.board, at_window=current.window)
        removed = await _remove_standings(tx, current, count=count)
        if not removed:
            await _set_stage(tx, current, ArchiveStage.KEPT)
        return removed

    return work


def forget_slice(archived: ArchivedWindow, *, count: int) -> Operation[int]:
    """Remove entries and standings of a window past its retention and return how many.

    Readers no longer see the window from the first slice on.
    """

    async def work(tx: Transaction) -> int:
        current = await load(tx, archived.board, archived.window)
        if current is None or current.stage.is_building:
            return 0
        await tx.run(
            _SET_GONE,
            at_board=current.board,
            at_window=current.window,
            new_stage=ArchiveStage.FORGETTING.value,
        )
        removed = await _remove_entries(tx, current, below=current.building + 1, count=count)
        removed = removed or await _remove_standings(tx, current, count=count)
        if not removed:
            await _set_stage(tx, current, ArchiveStage.FORGOTTEN)
        return removed

    return work


async def _last(tx: Transaction, key: dict[str, Any]) -> LastEntry:
    rows = await tx.rows(_LAST, **key)
    return LastEntry(*rows[0]) if rows else BEFORE_ALL


def _after(last: LastEntry, orders_per_score: int, tie_digits: int) -> dict[str, Any]:
    return {
        "slots": orders_per_score,
        "digits": tie_digits,
        "last_rank": last.rank,
        "last_sparse": last.sparse,
        "last_dense": last.dense,
        "last_order": last.order,
        "last_member": last.member,
        "last_lead": last.order // orders_per_score,
        "last_ties": last.member[:tie_digits],
    }


async def _put_in_place(tx: Transaction, archived: ArchivedWindow, last: LastEntry, *, now_ms: int) -> None:
    await tx.run(
        _IN_PLACE,
        at_board=archived.board,
        at_window=archived.window,
        built=archived.building,
        now_ms=now_ms,
        newest=await newest_seq()(tx),
        total=last.rank,
        distinct=last.dense,
    )


async def _set_stage(tx: Transaction, archived: ArchivedWindow, stage: ArchiveStage) -> None:
    await tx.run(_SET_STAGE, at_board=archived.board, at_window=archived.window, new_stage=stage.value)


async def _remove_entries(tx: Transaction, archived: ArchivedWindow, *, below: int, count: int) -> int:
    key = {"board": archived.board, "window": archived.window}
    rows = await tx.rows(_OLDEST_ENTRY, **key, below=below)
    if not rows:
        return 0
    [(revision, rank)] = rows
    return await tx.run(_DELETE_ENTRIES, **key, revision=revision, below=rank + count)


async def _remove_standings(tx: Transaction, archived: ArchivedWindow, *, count: int) -> int:
    key = {"board": archived.board, "window": archived.window}
    await drop_anchors(tx, **key)  # anchors count the standings that go here
    rows = await tx.rows(_NTH_PLAYER, **key, skipped=count - 1)
    if not rows:
        return await tx.run(_DELETE_LAST_STANDINGS, **key)
    return await tx.run(_DELETE_STANDINGS, **key, upto=rows[0][0])
