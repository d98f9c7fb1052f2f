"""Boards among friends: copies of friend lists, and the ranks of a player and their friends among each other.

The circle of a player, which is the player and their friends, is a ZSET beside the window, made by one Lua
call and kept for `CIRCLE_MS`. Its key contains the version of the list, so a changed list makes a new circle.
The board's stream of changes says what moved since the circle was last read, so each page is up to date.
"""

from __future__ import annotations

from typing import Any, Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.groups.circle_memory import CircleMemory
from gateway.index.scripts import ReadingScript, Script
from gateway.index.windows.subsets import PlayerLookup, SubsetPage, neighbours_in, subset_page
from gateway.shared_records import FriendList
from policies.errors import IndexUnavailable

CIRCLE_MS: Final = 10_000
"""Life of a circle. A repair of the board that is not in the stream shows after it."""

KEPT_MS: Final = 60_000
"""Life of a copy. A change whose process died before it replaced the copy shows after it."""

_UNMADE: Final = 0


class FriendLists:
    """Copies of friend lists, in at most `most_bytes` of Redis. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis, *, most_bytes: int) -> None:
        self._most_bytes = most_bytes // keys.FRIENDS_BUCKETS
        self._keep = Script(client, "keep_friends")
        self._read = Script(client, "read_friends")

    async def kept(self, player: str) -> FriendList | None:
        """Return the copy of a player's list, None if there is none."""
        copy: str | None = await self._read(_bucket_keys(player), [player])
        if not copy:
            return None
        version, *friends = copy.split(" ")
        if not version.isdecimal():
            raise IndexUnavailable("the index holds a friend list that Scoregate never wrote")
        return FriendList(player, int(version), tuple(friends))

    async def keep(self, friends: FriendList) -> None:
        """Store a copy of a list, unless a newer one is there."""
        value = " ".join((str(friends.version), *friends.friends))
        arguments = [friends.player, friends.version, value, KEPT_MS, self._most_bytes]
        await self._keep(_bucket_keys(friends.player), arguments)


def _bucket_keys(player: str) -> list[str]:
    bucket = keys.friends_bucket(player)
    return [keys.friends(bucket), keys.friends_used(bucket)]


class Circles:
    """One board among friends. Every method raises IndexUnavailable."""

    def __init__(self, index: BoardIndex, memory: CircleMemory | None = None) -> None:
        self._index = index
        self._memory = memory or CircleMemory(CIRCLE_MS / 1000)
        client = index.client
        self._circle = ReadingScript(client, "read_circle")

    async def page(self, window: str, friends: FriendList, first: int, count: int) -> SubsetPage:
        """Return `count` entries of a window from 0-based rank `first` among the player and their friends."""
        if not self._may_store(window, friends):
            everyone = await self._look_up(window, friends)
            return SubsetPage(everyone.total, everyone.entries[first : first + count])
        answer = await self._read(window, friends, ["", first, first + count - 1])
        return subset_page(self._index, window, answer)

    async def around(self, window: str, friends: FriendList, player: str, radius: int) -> SubsetPage | None:
        """Return a player's place among them with `radius` neighbours on each side, None without an entry."""
        if not self._may_store(window, friends):
            return neighbours_in(await self._look_up(window, friends), player, radius)
        answer = await self._read(window, friends, [player, 0, radius])
        return subset_page(self._index, window, answer) if answer else None

    def _may_store(self, window: str, friends: FriendList) -> bool:
        """Return whether a circle may be stored: within the bounds, and not beside shards."""
        if len(self._index.shards) > 1:
            return False
        key = keys.circle(self._index.board, friends.player, friends.version, window)
        return self._memory.takes(key, friends.player, 1 + len(friends.friends))

    async def _look_up(self, window: str, friends: FriendList) -> SubsetPage:
        """Look up every one of them, where no circle is stored."""
        players = dict.fromkeys((friends.player, *friends.friends))
        return await PlayerLookup(self._index).entries(window, list(players))

    async def _read(self, window: str, friends: FriendList, page: list[Any]) -> Any:
        board, circle = self._index.board, (friends.player, friends.version, window)
        circle_keys = [
            keys.circle(board, *circle),
            keys.circle_members(board, *circle),
            self._index.window_key(window),
            keys.members(board, window),
            keys.names(board),
            keys.changes(board),
        ]
        arguments = [*page, window, CIRCLE_MS]
        sentinel = self._index.sentinel
        answer = await self._circle(sentinel, circle_keys, arguments)
        if answer == _UNMADE:
            players = [friends.player, *friends.friends]
            answer = await self._circle(sentinel, circle_keys, [*arguments, *players])
        return answer
