"""Players on boards that have to be joined: one row for each who ever joined, with the last actor and time.

The newest CHANGES_KEPT changes of each player are stored too. Joining and leaving take turns, so the state
before the oldest of them is known as well: the opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select, tuple_
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import Int64, Text, join_changes, joins
from gateway.ledger.transaction import Operation, Query, Transaction

CHANGES_KEPT: Final = 100
"""Changes kept of each player on a board: one who joins and leaves for ever has no more rows than these."""

_j, _c = joins.c, join_changes.c

_JOIN = Query(select(_j.is_joined).where(_j.board == bindparam("board"), _j.player == bindparam("player")))
_STORED = Query(
    select(_j.is_joined, _j.actor, _j.at_ms).where(
        _j.board == bindparam("board"), _j.player == bindparam("player")
    )
)
_put = upsert(joins)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["board", "player"],
        set_={name: _put.excluded[name] for name in ("is_joined", "actor", "at_ms")},
    )
)


_OF_PLAYER: Final = (_c.board == bindparam("board"), _c.player == bindparam("player"))
_LAST = Query(select(_c.revision).where(*_OF_PLAYER).order_by(_c.revision.desc()).limit(1))
_of_one: Final = (_c.board == _j.board, _c.player == _j.player)
_before: Final = select(_c.is_joined).where(*_of_one, _c.at_ms < bindparam("before_ms", type_=Int64))
_oldest: Final = select(_c.is_joined).where(*_of_one).order_by(_c.revision).limit(1)
_WERE_JOINED = Query(
    select(
        _j.player,
        func.coalesce(
            _before.order_by(_c.revision.desc()).limit(1).scalar_subquery(), 1 - _oldest.scalar_subquery(), 0
        ),
    ).where(_j.board == bindparam("board"), is_listed(_j.player))
)
"""Each player's last change before a moment; without one, the opposite of the oldest change that is kept."""
_CHANGES = Query(
    select(_c.player, _c.revision, _c.is_joined, _c.at_ms)
    .where(
        _c.board == bindparam("board"),
        tuple_(_c.player, _c.revision)
        > tuple_(bindparam("after_player", type_=Text), bindparam("after_revision", type_=Int64)),
    )
    .order_by(_c.player, _c.revision)
    .limit(bindparam("count"))
)
_ADD = Query(insert(join_changes))
_TRIM = Query(
    delete(join_changes).where(
        join_changes.c.board == bindparam("at_board"),
        join_changes.c.player == bindparam("at_player"),
        join_changes.c.revision <= bindparam("upto", type_=Int64),
    )
)


class JoinChange(NamedTuple):
    """A change of a player, who joined or left the board, and its time (Unix ms)."""

    player: str
    revision: int
    is_joined: int
    at_ms: int


def changes_of(board: str, *, after: tuple[str, int], count: int) -> Operation[list[JoinChange]]:
    """Return the next changes of a board after (player, revision), in that order."""

    async def work(tx: Transaction) -> list[JoinChange]:
        player, revision = after
        rows = await tx.rows(_CHANGES, board=board, after_player=player, after_revision=revision, count=count)
        return [JoinChange(*row) for row in rows]

    return work


def has_joined(board: str, player: str) -> Operation[bool]:
    """Return whether the player is on the board now."""

    async def work(tx: Transaction) -> bool:
        return await is_joined(tx, board, player)

    return work


async def is_joined(tx: Transaction, board: str, player: str) -> bool:
    """Return whether the player is on the board now, inside a transaction."""
    rows = await tx.rows(_JOIN, board=board, player=player)
    return bool(rows and rows[0][0])


class StoredJoin(NamedTuple):
    """Whether a player is on a board, who said so last, and when (Unix ms)."""

    is_joined: bool
    actor: str
    at_ms: int


async def load_join(tx: Transaction, board: str, player: str) -> StoredJoin | None:
    """Return a player's join of a board, None if they never joined it."""
    rows = await tx.rows(_STORED, board=board, player=player)
    return StoredJoin(bool(rows[0][0]), *rows[0][1:]) if rows else None


async def was_joined(tx: Transaction, board: str, player: str, before_ms: int) -> bool:
    """Return whether the player was on the board just before a moment (Unix ms), inside a transaction."""
    return bool(await players_joined_before(tx, board, [player], before_ms))


async def players_joined_before(
    tx: Transaction, board: str, players: Sequence[str], before_ms: int
) -> set[str]:
    """Return the players who were on the board just before a moment (Unix ms), inside a transaction."""
    rows = await fetch_listed(tx, _WERE_JOINED, players, board=board, before_ms=before_ms)
    return {player for player, is_joined in rows if is_joined}


async def put_join(
    tx: Transaction, board: str, player: str, *, joins_now: bool, actor: str, at_ms: int
) -> None:
    """Store that the player joined or left the board, inside a transaction."""
    await tx.run(_PUT, board=board, player=player, is_joined=int(joins_now), actor=actor, at_ms=at_ms)
    rows = await tx.rows(_LAST, board=board, player=player)
    revision = 1 + (rows[0][0] if rows else 0)
    change = {"board": board, "player": player, "is_joined": int(joins_now), "at_ms": at_ms}
    await tx.run(_ADD, revision=revision, **change)
    await tx.run(_TRIM, at_board=board, at_player=player, upto=revision - CHANGES_KEPT)
