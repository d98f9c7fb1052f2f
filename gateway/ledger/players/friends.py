"""The players that each player follows: one row for each direction, and a version of each player's list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.index_pages import LIST
from gateway.ledger.schema import friend_lists, friends
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import FriendList
from policies.errors import FriendsFull

FRIENDS_LIMIT: Final = 2_000
"""Most players that one player follows: as many as the largest platforms allow."""

_f = friends.c
_LISTED: Final = [bindparam(f"listed_{number}", type_=_f.friend.type) for number in range(LIST)]

_FRIENDS = Query(select(_f.friend).where(_f.player == bindparam("player")).order_by(_f.friend))
_VERSION = Query(select(friend_lists.c.version).where(friend_lists.c.player == bindparam("player")))
_ADD = Query(
    upsert(friends)
    .values(
        [{"player": bindparam("player"), "friend": name, "at_ms": bindparam("at_ms")} for name in _LISTED]
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
    """Return the list of players that a player follows."""

    async def work(tx: Transaction) -> FriendList:
        return await load_friends(tx, player)

    return work


def follow(player: str, friend: str, *, now_ms: int) -> Operation[FriendList]:
    """Add a friend to a player's list and return the list. Raises FriendsFull."""

    async def work(tx: Transaction) -> FriendList:
        stored = await load_friends(tx, player)
        return await change_friends(tx, stored, {*stored.friends, friend}, now_ms=now_ms)

    return work


def unfollow(player: str, friend: str, *, now_ms: int) -> Operation[FriendList]:
    """Remove a friend from a player's list and return the list."""

    async def work(tx: Transaction) -> FriendList:
        stored = await load_friends(tx, player)
        return await change_friends(tx, stored, {*stored.friends} - {friend}, now_ms=now_ms)

    return work


async def load_friends(tx: Transaction, player: str) -> FriendList:
    """Return the list of players that a player follows, inside a transaction."""
    version = await tx.rows(_VERSION, player=player)
    followed = await tx.rows(_FRIENDS, player=player)
    return FriendList(player, int(version[0][0]) if version else 0, tuple(row[0] for row in followed))


async def change_friends(tx: Transaction, stored: FriendList, wanted: set[str], *, now_ms: int) -> FriendList:
    """Change the `stored` list to `wanted`, if it differs, and return the list. Raises FriendsFull."""
    before = set(stored.friends)
    if wanted == before:
        return stored
    if len(wanted) > FRIENDS_LIMIT:
        raise FriendsFull
    for names in _padded(sorted(before - wanted)):
        await tx.run(_REMOVE, player=stored.player, **names)
    for names in _padded(sorted(wanted - before)):
        await tx.run(_ADD, player=stored.player, at_ms=now_ms, **names)
    await raise_version(tx, stored.player)
    return FriendList(stored.player, stored.version + 1, tuple(sorted(wanted)))


async def raise_version(tx: Transaction, player: str) -> None:
    """Note that a player's list changed, so that no copy of the one before is taken for it."""
    await tx.run(_RAISE, player=player)


def _padded(players: Sequence[str]) -> list[dict[str, str]]:
    """Return the values of `_LISTED` for each part of the players; the last player fills up a short part."""
    parts = [players[at : at + LIST] for at in range(0, len(players), LIST)]
    return [{f"listed_{n}": part[min(n, len(part) - 1)] for n in range(LIST)} for part in parts]
