"""A board as a player's friends see it: whom a player follows, and where they and the player stand among each other.

The circle of a player, themself and whom they follow, is a ZSET beside the window, made by one Lua call and kept for
`CIRCLE_MS`. Its key bears the version of the list, so another list is another circle. The board's stream of changes
tells what has moved since the circle was last looked at, so each page shows the board of its moment.
"""

from __future__ import annotations

from typing import Any, Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.groups.circle_memory import CircleMemory
from gateway.index.scripts import ReadingScript, Script
from gateway.index.windows.subsets import PlayerLookup, SubsetPage, neighbours_in, subset_page
from gateway.records import FriendList
from policies.errors import IndexUnavailable

CIRCLE_MS: Final = 10_000
"""How long a circle is kept, from when it was made: a repair of the board that no stream tells of shows after it."""

KEPT_MS: Final = 60_000
"""How long a copy of a list is kept: a change whose process died before it could replace the copy shows after it."""

_UNMADE: Final = 0


class FriendLists:
    """Copies of whom players follow, all of them within so many bytes of Redis. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis, *, most_bytes: int) -> None:
        self._most_bytes = most_bytes // keys.FRIENDS_BUCKETS
        self._keep = Script(client, "keep_friends")
        self._read = Script(client, "read_friends")

    async def kept(self, player: str) -> FriendList | None:
        """The copy of a player's list, or None if there is none."""
        held: str | None = await self._read(_kept_in(player), [player])
        if not held:
            return None
        version, *friends = held.split(" ")
        if not version.isdecimal():
            raise IndexUnavailable("the index holds a list of friends that we never wrote")
        return FriendList(player, int(version), tuple(friends))

    async def keep(self, friends: FriendList) -> None:
        """Keeps a copy of a list, unless a newer one is kept."""
        value = " ".join((str(friends.version), *friends.friends))
        told = [friends.player, friends.version, value, KEPT_MS, self._most_bytes]
        await self._keep(_kept_in(friends.player), told)


def _kept_in(player: str) -> list[str]:
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
        """`count` entries of a window from 0-based rank `first` among the player and whom they follow."""
        if not self._is_kept(window, friends):
            found = await self._listed(window, friends)
            return SubsetPage(found.total, found.entries[first : first + count])
        answer = await self._read(window, friends, ["", first, first + count - 1])
        return subset_page(self._index, window, answer)

    async def around(self, window: str, friends: FriendList, player: str, radius: int) -> SubsetPage | None:
        """One of them with `radius` neighbours among them on each side; None for who is no friend, or does not stand."""
        if not self._is_kept(window, friends):
            return neighbours_in(await self._listed(window, friends), player, radius)
        answer = await self._read(window, friends, [player, 0, radius])
        return subset_page(self._index, window, answer) if answer else None

    def _is_kept(self, window: str, friends: FriendList) -> bool:
        """True if a circle may be kept: beside one window, which those in shards are not, and within the bounds."""
        if len(self._index.shards) > 1:
            return False
        key = keys.circle(self._index.board, friends.player, friends.version, window)
        return self._memory.takes(key, friends.player, 1 + len(friends.friends))

    async def _listed(self, window: str, friends: FriendList) -> SubsetPage:
        """All of them, each looked up, where no circle is kept."""
        players = dict.fromkeys((friends.player, *friends.friends))
        return await PlayerLookup(self._index).entries(window, list(players))

    async def _read(self, window: str, friends: FriendList, which: list[Any]) -> Any:
        board, whose = self._index.board, (friends.player, friends.version, window)
        asked = [
            keys.circle(board, *whose),
            keys.circle_members(board, *whose),
            self._index.window_key(window),
            keys.members(board, window),
            keys.names(board),
            keys.changes(board),
        ]
        arguments = [*which, window, CIRCLE_MS]
        sentinel = self._index.sentinel
        answer = await self._circle(sentinel, asked, arguments)
        if answer == _UNMADE:
            answer = await self._circle(sentinel, asked, [*arguments, friends.player, *friends.friends])
        return answer
