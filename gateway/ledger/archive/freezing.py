"""Building a revision of a window, a slice a transaction, putting it in place, and taking away what it replaces.

A slice goes on from the last entry there is, so a build that was left is gone on with by whoever comes next, and any
number may be at it. The slice that finds nothing more puts the revision in place in its own transaction. Before each it
is looked whether something has changed the window since the build began; if so the build is void, and begins again.
Where that happens too often the whole revision is built in one transaction, which nothing can change under it.

Standings are read in the order of the board (`standings_by_place`). Entries are tied if they have the same group, as
`policies.ranking.Ranking.group` has it: the integer of their place divided by the orders of one score, and the tie
fields at the head of their member.
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
from gateway.ledger.standings.anchors import drop_anchors
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
    """The last entry of a build: its ranks, its place, and its group. `BEFORE_ALL` is ahead of any."""

    rank: int
    sparse: int
    dense: int
    order: int
    member: str


ALL: Final = 2**62
"""More entries, and more ranks, than there are."""

BEFORE_ALL: Final = LastEntry(0, 0, 0, -(2**62), "")


class SliceOutcome(Enum):
    """What became of a slice: more may follow, the revision is in place, or it is not ours to go on with."""

    MORE = auto()
    DONE = auto()
    VOID = auto()


def _number(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=Int64)


def _copy() -> Query:
    """Inserts the entries of the next standings, ranked on from the last entry there is."""
    some = (
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
        some.lead == _number("last_lead"),
        some.ties == bindparam("last_ties", type_=Text),
    )
    goes_on = case((is_tied_with_last, 1), else_=0)
    group = (some.lead, some.ties)
    ranked = select(
        bindparam("board", type_=Text),
        bindparam("window", type_=Text),
        _number("revision"),
        _number("last_rank") + func.row_number().over(order_by=(some.order_value, some.member)),
        case(
            (is_tied_with_last, _number("last_sparse")),
            else_=_number("last_rank") + func.rank().over(order_by=group),
        ),
        _number("last_dense") - func.max(goes_on).over() + func.dense_rank().over(order_by=group),
        some.player,
        some.score,
        some.achieved_at_ms,
        some.submission_id,
        some.order_value,
        some.member,
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
"""Those whose standing changed while a revision was built under another rule than today's: a few."""

_RULES = Query(
    select(_st.player, _st.rule, _st.score)
    .where(*_OF_WINDOW, _st.player > bindparam("after"))
    .order_by(_st.player)
    .limit(bindparam("count"))
)


def players_of(found: ArchivedWindow, *, after: str, count: int) -> Operation[list[str]]:
    """Players of the readable revision, in order of their ids."""

    async def work(tx: Transaction) -> list[str]:
        whose = {"board": found.board, "window": found.window, "revision": found.revision}
        return [row[0] for row in await tx.rows(_ENTRY_PLAYERS, **whose, after=after, count=count)]

    return work


def rules_in(found: ArchivedWindow, *, after: str, count: int) -> Operation[list[tuple[str, bool]]]:
    """Players with a standing in the window, in order, and whether it is one under another rule than the window's."""

    async def work(tx: Transaction) -> list[tuple[str, bool]]:
        rows = await tx.rows(_RULES, board=found.board, window=found.window, after=after, count=count)
        return [(player, score is not None and rule != found.rule) for player, rule, score in rows]

    return work


def mark_folded(found: ArchivedWindow) -> Operation[int]:
    """Notes that the standings are all there, under the window's rule, and can be copied."""

    async def work(tx: Transaction) -> int:
        return await tx.run(_FOLDED, at_board=found.board, at_window=found.window, built=found.building)

    return work


def copy_slice(
    found: ArchivedWindow, *, slots: int, digits: int, count: int, now_ms: int
) -> Operation[SliceOutcome]:
    """What became of the next `count` entries. `slots` and `digits` are the ranking's, of this window."""

    async def work(tx: Transaction) -> SliceOutcome:
        now = await load(tx, found.board, found.window)
        if (
            now is None
            or now.changed_seq
            or (now.stage, now.building) != (ArchiveStage.COPYING, found.building)
        ):
            return SliceOutcome.VOID
        whose = {"board": found.board, "window": found.window, "revision": found.building}
        last = await _last(tx, whose)
        copied = await tx.run(_COPY, **whose, **_after(last, slots, digits), count=count)
        if copied == count:
            return SliceOutcome.MORE
        await _put_in_place(tx, found, await _last(tx, whose), now_ms=now_ms)
        return SliceOutcome.DONE

    return work


def copy_whole(found: ArchivedWindow, ranking: Ranking, *, now_ms: int) -> Operation[SliceOutcome]:
    """Return what became of a build that is copied at once, with whatever changed the window up to now.

    Writers wait for all of it, and nothing can void it but a build that began since.
    """

    async def work(tx: Transaction) -> SliceOutcome:
        now = await load(tx, found.board, found.window)
        if now is None or (now.stage, now.building) != (ArchiveStage.COPYING, found.building):
            return SliceOutcome.VOID
        of_window = {"board": found.board, "window": found.window}
        others = await tx.rows(_OF_OTHER_RULE, **of_window, rule=found.rule)
        await refold(ranking, [player for (player,) in others], [found.span])(tx)
        whose = {**of_window, "revision": found.building}
        await tx.run(_DELETE_ENTRIES, **whose, below=ALL)
        before_all = _after(BEFORE_ALL, ranking.orders_per_score(found.window), ranking.tie_digits)
        await tx.run(_COPY, **whose, **before_all, count=ALL)
        await _put_in_place(tx, found, await _last(tx, whose), now_ms=now_ms)
        return SliceOutcome.DONE

    return work


def sweep_slice(found: ArchivedWindow, *, count: int) -> Operation[int]:
    """How many entries of earlier revisions were removed; the window is frozen once there are none."""

    async def work(tx: Transaction) -> int:
        now = await load(tx, found.board, found.window)
        if now is None or now.stage is not ArchiveStage.SWEEPING:
            return 0
        removed = await _remove_entries(tx, now, below=now.revision, count=count)
        if not removed:
            await _set_stage(tx, now, ArchiveStage.FROZEN)
        return removed

    return work


def thin_slice(found: ArchivedWindow, *, count: int) -> Operation[int]:
    """How many standings of a frozen window went; it is kept once there are none. Nothing, if it was changed since."""

    async def work(tx: Transaction) -> int:
        now = await load(tx, found.board, found.window)
        if now is None or now.changed_seq or now.stage is not ArchiveStage.FROZEN:
            return 0
        await tx.run(_SET_THIN, at_board=now.board, at_window=now.window)
        removed = await _remove_standings(tx, now, count=count)
        if not removed:
            await _set_stage(tx, now, ArchiveStage.KEPT)
        return removed

    return work


def forget_slice(found: ArchivedWindow, *, count: int) -> Operation[int]:
    """How many entries and standings of a window that is kept no more were removed; from the first on nobody reads it."""

    async def work(tx: Transaction) -> int:
        now = await load(tx, found.board, found.window)
        if now is None or now.stage.is_building:
            return 0
        await tx.run(
            _SET_GONE, at_board=now.board, at_window=now.window, new_stage=ArchiveStage.FORGETTING.value
        )
        removed = await _remove_entries(tx, now, below=now.building + 1, count=count)
        removed = removed or await _remove_standings(tx, now, count=count)
        if not removed:
            await _set_stage(tx, now, ArchiveStage.FORGOTTEN)
        return removed

    return work


async def _last(tx: Transaction, whose: dict[str, Any]) -> LastEntry:
    rows = await tx.rows(_LAST, **whose)
    return LastEntry(*rows[0]) if rows else BEFORE_ALL


def _after(last: LastEntry, slots: int, digits: int) -> dict[str, Any]:
    return {
        "slots": slots,
        "digits": digits,
        "last_rank": last.rank,
        "last_sparse": last.sparse,
        "last_dense": last.dense,
        "last_order": last.order,
        "last_member": last.member,
        "last_lead": last.order // slots,
        "last_ties": last.member[:digits],
    }


async def _put_in_place(tx: Transaction, found: ArchivedWindow, last: LastEntry, *, now_ms: int) -> None:
    await tx.run(
        _IN_PLACE,
        at_board=found.board,
        at_window=found.window,
        built=found.building,
        now_ms=now_ms,
        newest=await newest_seq()(tx),
        total=last.rank,
        distinct=last.dense,
    )


async def _set_stage(tx: Transaction, found: ArchivedWindow, stage: ArchiveStage) -> None:
    await tx.run(_SET_STAGE, at_board=found.board, at_window=found.window, new_stage=stage.value)


async def _remove_entries(tx: Transaction, found: ArchivedWindow, *, below: int, count: int) -> int:
    whose = {"board": found.board, "window": found.window}
    rows = await tx.rows(_OLDEST_ENTRY, **whose, below=below)
    if not rows:
        return 0
    [(revision, rank)] = rows
    return await tx.run(_DELETE_ENTRIES, **whose, revision=revision, below=rank + count)


async def _remove_standings(tx: Transaction, found: ArchivedWindow, *, count: int) -> int:
    whose = {"board": found.board, "window": found.window}
    await drop_anchors(tx, **whose)  # they count what goes here
    rows = await tx.rows(_NTH_PLAYER, **whose, skipped=count - 1)
    if not rows:
        return await tx.run(_DELETE_LAST_STANDINGS, **whose)
    return await tx.run(_DELETE_STANDINGS, **whose, upto=rows[0][0])
