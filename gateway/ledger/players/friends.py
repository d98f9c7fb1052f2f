"""Whom players follow: one row for each, of one direction, and a version of each player's list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.index_pages import LIST
from gateway.ledger.schema import friend_lists, friends
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.records import FriendList
from policies.errors import FriendsFull

FRIENDS_LIMIT: Final = 2_000
"""Most players that one player follows: as many as the largest of the platforms allow."""

_f = friends.c
_LISTED: Final = [bindparam(f"listed_{number}", type_=_f.friend.type) for number in range(LIST)]

_FRIENDS = Query(select(_f.friend).where(_f.player == bindparam("player")).order_by(_f.friend))
_VERSION = Query(select(friend_lists.c.version).where(friend_lists.c.player == bindparam("player")))
_ADD = Query(
    upsert(friends)
    .values(
        [{"player": bindparam("player"), "friend": each, "at_ms": bindparam("at_ms")} for each in _LISTED]
    )
    .on_conflict_do_nothing()
)
_REMOVE = Query(delete(friends).where(_f.player == bindparam("player"), _f.friend.in_(_LISTED)))
_RAISE = Query(
    upsert(friend_lists)
    .values(player=bindparam("player"), version=1)
    .on_conflict_do_update(index_elements=["player"], set_={"version": friend_lists.c.version + 1})
)


def friends_of(player: str) -> Operation[FriendList]:
    """Whom a player follows."""

    async def work(tx: Transaction) -> FriendList:
        return await load_friends(tx, player)

    return work


def follow(player: str, friend: str, *, now_ms: int) -> Operation[FriendList]:
    """The list with one more on it. Raises FriendsFull."""

    async def work(tx: Transaction) -> FriendList:
        held = await load_friends(tx, player)
        return await change_friends(tx, held, {*held.friends, friend}, now_ms=now_ms)

    return work


def unfollow(player: str, friend: str, *, now_ms: int) -> Operation[FriendList]:
    """The list without one of them."""

    async def work(tx: Transaction) -> FriendList:
        held = await load_friends(tx, player)
        return await change_friends(tx, held, {*held.friends} - {friend}, now_ms=now_ms)

    return work


async def load_friends(tx: Transaction, player: str) -> FriendList:
    """Whom a player follows, inside a transaction."""
    version = await tx.rows(_VERSION, player=player)
    followed = await tx.rows(_FRIENDS, player=player)
    return FriendList(player, int(version[0][0]) if version else 0, tuple(row[0] for row in followed))


async def change_friends(tx: Transaction, held: FriendList, wanted: set[str], *, now_ms: int) -> FriendList:
    """The list that has become `wanted`, or the one that is `held` where that is the same. Raises FriendsFull."""
    before = set(held.friends)
    if wanted == before:
        return held
    if len(wanted) > FRIENDS_LIMIT:
        raise FriendsFull
    for some in _padded(sorted(before - wanted)):
        await tx.run(_REMOVE, player=held.player, **some)
    for some in _padded(sorted(wanted - before)):
        await tx.run(_ADD, player=held.player, at_ms=now_ms, **some)
    await tx.run(_RAISE, player=held.player)
    return FriendList(held.player, held.version + 1, tuple(sorted(wanted)))


def _padded(players: Sequence[str]) -> list[dict[str, str]]:
    """The values of `_LISTED` for each part of the players; the last of them stands for those that are missing."""
    parts = [players[at : at + LIST] for at in range(0, len(players), LIST)]
    return [{f"listed_{n}": part[min(n, len(part) - 1)] for n in range(LIST)} for part in parts]
