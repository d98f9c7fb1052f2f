"""Merges of players: their rows, and the submissions that each has to move.

A merge is in force from the commit of its row to that of its undoing. While it is, every submission of the
source counts for the target, also one that is appended later (`gateway.ledger.players.late_runs`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, insert, literal_column, null, or_, select, update

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import Int64, cases, outbox, player_merges, submissions
from gateway.ledger.transaction import Operation, Query, Row, Transaction

ACTOR: Final = "merge"
"""The actor of the events that move submissions: the event of the merge names who asked for it."""

MERGE: Final = "merge"
"""The key of a merge's id in the details of events."""

PAGE: Final = 250
"""Submissions of a player that one read looks at."""

_m, _s = player_merges.c, submissions.c

_BY_ID = Query(select(*player_merges.columns).where(_m.merge_id == bindparam("id")))
_IS_IN_FORCE: Final = _m.undone_at_ms.is_(null())
_OF_SOURCES = Query(select(*player_merges.columns).where(is_listed(_m.source), _IS_IN_FORCE))
_INTO = Query(
    select(*player_merges.columns)
    .where(_m.target == bindparam("target"))
    .order_by(_m.changed_seq.desc())
    .limit(bindparam("count"))
)
_SOURCES = Query(
    select(_m.source)
    .where(_m.target == bindparam("target"), _IS_IN_FORCE)
    .order_by(_m.changed_seq)
    .limit(bindparam("count"))
)
_OUT_OF = Query(
    select(*player_merges.columns)
    .where(_m.source == bindparam("source"))
    .order_by(_m.changed_seq.desc())
    .limit(bindparam("count"))
)
_AT_WORK = Query(
    select(*player_merges.columns)
    .where(
        _m.seen_seq.is_not(None),
        _m.changed_seq > bindparam("after"),
        or_(_m.seen_seq > literal_column("0"), _m.again_ms.is_(None), _m.again_ms <= bindparam("now_ms")),
    )
    .order_by(_m.changed_seq)
    .limit(bindparam("count"))
)
_ADD = Query(insert(player_merges))
_UNDO = Query(
    update(player_merges)
    .where(_m.merge_id == bindparam("id"))
    .values(
        undone_at_ms=bindparam("at_ms"),
        undone_by=bindparam("by"),
        changed_seq=bindparam("seq"),
        changed_count=0,
        seen_seq=0,
        again_ms=null(),
    )
)
_NOTE = Query(
    update(player_merges)
    .where(_m.merge_id == bindparam("id"))
    .values(
        seen_seq=bindparam("seen", type_=Int64),
        again_ms=bindparam("again", type_=Int64),
        changed_count=_m.changed_count + bindparam("more", type_=Int64),
    )
)
_COLUMNS: Final = (_s.seq, _s.board, _s.submission_id)
_TO_MOVE = Query(
    select(*_COLUMNS)
    .where(_s.player == bindparam("source"), _s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_TO_RETURN = Query(
    select(*_COLUMNS)
    .where(
        _s.player == bindparam("target"),
        _s.played_by == bindparam("source"),
        _s.played_by.is_not(None),
        _s.seq > bindparam("after"),
    )
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_MOVE = Query(
    update(submissions)
    .where(_s.submission_id == bindparam("of"))
    .values(player=bindparam("to_player"), played_by=bindparam("first_player"))
)
_MOVE_CASE = Query(
    update(cases).where(cases.c.submission_id == bindparam("of")).values(player=bindparam("to_player"))
)
_MOVE_WORK = Query(
    update(outbox).where(outbox.c.seq == bindparam("received")).values(player=bindparam("to_player"))
)


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge of the player `source` into the player `target`.

    `seen_seq` is None once every submission followed. `friends` are those whom the target follows since, as
    JSON, because the source did.
    """

    merge_id: str
    source: str
    target: str
    actor: str
    began_at_ms: int
    undone_at_ms: int | None = None
    undone_by: str = ""
    changed_seq: int = 0
    changed_count: int = 0
    seen_seq: int | None = 0
    again_ms: int | None = None
    friends: str = "[]"

    @property
    def is_in_force(self) -> bool:
        """Return whether the merge has not been undone."""
        return self.undone_at_ms is None

    @property
    def giver(self) -> str:
        """Return whose submissions move: the source's, or the target's once it is undone."""
        return self.source if self.is_in_force else self.target

    @property
    def taker(self) -> str:
        """Return for whom they count then."""
        return self.target if self.is_in_force else self.source


def merge(merge_id: str) -> Operation[Merge | None]:
    """Return a merge, or None."""

    async def work(tx: Transaction) -> Merge | None:
        rows = await tx.rows(_BY_ID, id=merge_id)
        return Merge(*rows[0]) if rows else None

    return work


def merges_of(player: str, *, count: int) -> Operation[list[Merge]]:
    """Return the newest merges of a player into others, and of others into the player."""

    async def work(tx: Transaction) -> list[Merge]:
        rows = await tx.rows(_OUT_OF, source=player, count=count)
        rows += await tx.rows(_INTO, target=player, count=count)
        return [Merge(*row) for row in rows]

    return work


async def merges_in_force(tx: Transaction, sources: Sequence[str]) -> dict[str, Merge]:
    """Return the merges in force of these players into others, by player."""
    return {row[1]: Merge(*row) for row in await fetch_listed(tx, _OF_SOURCES, sorted(set(sources)))}


def sources_in_force(target: str, *, count: int) -> Operation[list[str]]:
    """Return up to `count` players who are merged into a player now."""

    async def work(tx: Transaction) -> list[str]:
        return [row[0] for row in await tx.rows(_SOURCES, target=target, count=count)]

    return work


def with_targets(players: Collection[str]) -> Operation[list[str]]:
    """Return these players, and those into whom they are merged now, in order."""

    async def work(tx: Transaction) -> list[str]:
        in_force = await merges_in_force(tx, [*players])
        return sorted({*players, *(each.target for each in in_force.values())})

    return work


def merges_at_work(after: Merge | None, *, now_ms: int, count: int) -> Operation[list[Merge]]:
    """Return merges that submissions have still to follow, in the order of their events, behind one."""
    after_seq = after.changed_seq if after else 0

    async def work(tx: Transaction) -> list[Merge]:
        rows = await tx.rows(_AT_WORK, after=after_seq, now_ms=now_ms, count=count)
        return [Merge(*row) for row in rows]

    return work


async def add(tx: Transaction, new: Merge) -> None:
    """Store a new merge, whose submissions have still to follow."""
    await tx.run(_ADD, **{column.name: getattr(new, column.name) for column in player_merges.columns})


async def undo(tx: Transaction, merge_id: str, *, by: str, seq: int, at_ms: int) -> None:
    """Undo a merge by the event `seq`."""
    await tx.run(_UNDO, id=merge_id, by=by, seq=seq, at_ms=at_ms)


async def note_progress(
    tx: Transaction, merge: Merge, *, seen_seq: int | None, again_ms: int | None, more: int
) -> None:
    """Note how many more submissions have followed a merge, and how far; `seen_seq` is None at the end."""
    await tx.run(_NOTE, id=merge.merge_id, seen=seen_seq, again=again_ms, more=more)


def next_to_follow(merge: Merge) -> Operation[list[Row]]:
    """Return (number, board, id) of the next PAGE submissions that have still to follow, in order."""
    query = _TO_MOVE if merge.is_in_force else _TO_RETURN
    whose = (
        {"source": merge.source} if merge.is_in_force else {"source": merge.source, "target": merge.target}
    )

    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(query, **whose, after=merge.seen_seq or 0, count=PAGE)

    return work


async def moved_of(tx: Transaction, source: str, *, after: int, count: int) -> list[Row]:
    """Return (number, board, id) of the next submissions of a player that count for another one now.

    They were moved by a merge that is in force, or is undone and being followed: nobody merges anew before.
    """
    found: list[Row] = []
    for row in await tx.rows(_OUT_OF, source=source, count=1):
        merge = Merge(*row)
        if merge.is_in_force or merge.seen_seq is not None:
            of_merge = {"source": source, "target": merge.target}
            found = await tx.rows(_TO_RETURN, **of_merge, after=after, count=count)
    return found


async def move(tx: Transaction, submission_id: str, seq: int, *, to: str, first: str | None) -> None:
    """Let a submission, its case and its work be another player's. `first` is who played it, if another."""
    await tx.run(_MOVE, of=submission_id, to_player=to, first_player=first)
    await tx.run(_MOVE_CASE, of=submission_id, to_player=to)
    await tx.run(_MOVE_WORK, received=seq, to_player=to)
