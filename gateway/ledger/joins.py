"""Who is on the boards that have to be joined: one row for each who ever joined, with who said so last, and when."""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.schema import joins
from gateway.ledger.transaction import Operation, Query, Transaction

_j = joins.c

_JOIN = Query(select(_j.is_joined).where(_j.board == bindparam("board"), _j.player == bindparam("player")))
_put = upsert(joins)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["board", "player"],
        set_={name: _put.excluded[name] for name in ("is_joined", "actor", "at_ms")},
    )
)


def joined(board: str, player: str) -> Operation[bool]:
    """True if the player is on the board now."""

    async def work(tx: Transaction) -> bool:
        return await is_joined(tx, board, player)

    return work


async def is_joined(tx: Transaction, board: str, player: str) -> bool:
    """True if the player is on the board now, inside a transaction."""
    rows = await tx.rows(_JOIN, board=board, player=player)
    return bool(rows and rows[0][0])


async def put_join(
    tx: Transaction, board: str, player: str, *, joins_now: bool, actor: str, at_ms: int
) -> None:
    """Writes down that the player joined the board, or left it."""
    await tx.run(_PUT, board=board, player=player, is_joined=int(joins_now), actor=actor, at_ms=at_ms)
