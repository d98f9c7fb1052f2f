"""Erasures of players' data: who asked, when it is due, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, or_, select, tuple_, update

from gateway.ledger.schema import Int64, Text, erasures
from gateway.ledger.transaction import Operation, Query, Transaction

_e = erasures.c
_BY_PLAYER = Query(select(*erasures.columns).where(_e.player == bindparam("player")))
_DUE = Query(
    select(*erasures.columns)
    .where(
        _e.ended_at_ms.is_(None),
        _e.due_at_ms <= bindparam("now_ms"),
        tuple_(_e.due_at_ms, _e.player)
        > tuple_(bindparam("after_ms", type_=Int64), bindparam("after", type_=Text)),
    )
    .order_by(_e.due_at_ms, _e.player)
    .limit(bindparam("count"))
)
_ADD = Query(insert(erasures))
_DROP = Query(
    delete(erasures).where(
        _e.player == bindparam("of_player"), or_(_e.begun_seq.is_(None), _e.ended_at_ms.is_not(None))
    )
)
_NOTE = Query(
    update(erasures)
    .where(_e.player == bindparam("of_player"))
    .values(
        begun_seq=bindparam("begun", type_=Int64),
        seen_seq=bindparam("seen", type_=Int64),
        rows_erased=bindparam("erased", type_=Int64),
        ended_at_ms=bindparam("ended", type_=Int64),
    )
)


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure of a player's data. Until `begun_seq` is set it can be taken back."""

    player: str
    actor: str
    asked_at_ms: int
    due_at_ms: int
    begun_seq: int | None = None
    seen_seq: int = 0
    rows_erased: int = 0
    ended_at_ms: int | None = None


def erasure(player: str) -> Operation[Erasure | None]:
    """Return the erasure of a player's data, or None."""

    async def work(tx: Transaction) -> Erasure | None:
        return await load_erasure(tx, player)

    return work


async def load_erasure(tx: Transaction, player: str) -> Erasure | None:
    """Return the erasure of a player's data, or None, inside a transaction."""
    rows = await tx.rows(_BY_PLAYER, player=player)
    return Erasure(*rows[0]) if rows else None


def erasures_due(after: Erasure | None, *, now_ms: int, count: int) -> Operation[Sequence[Erasure]]:
    """Return erasures that are due and have not ended, the earliest first, behind one of them."""
    place = {"after_ms": after.due_at_ms if after else -1, "after": after.player if after else ""}

    async def work(tx: Transaction) -> Sequence[Erasure]:
        return [Erasure(*row) for row in await tx.rows(_DUE, now_ms=now_ms, **place, count=count)]

    return work


async def add(tx: Transaction, new: Erasure) -> None:
    """Store an erasure."""
    await tx.run(_ADD, **{column.name: getattr(new, column.name) for column in erasures.columns})


async def take_back(tx: Transaction, player: str) -> bool:
    """Forget an erasure that has not begun, or has ended, and return whether there was one."""
    return bool(await tx.run(_DROP, of_player=player))


async def note(tx: Transaction, stands: Erasure) -> None:
    """Store how far an erasure has come."""
    await tx.run(
        _NOTE,
        of_player=stands.player,
        begun=stands.begun_seq,
        seen=stands.seen_seq,
        erased=stands.rows_erased,
        ended=stands.ended_at_ms,
    )
