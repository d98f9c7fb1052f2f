"""Friends, groups and boards to be joined, as a player sets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .board_reads import BoardReads
from .connection import board_path
from .connection import segment as quoted
from .documents import json_bytes
from .models import Friends, Joined, Memberships


class PlayerGroups(BoardReads):
    """Whom a player follows, and which groups and boards they are in. Every call is safe to repeat."""

    async def friends(self) -> Friends:
        """Return the players that this player follows."""
        return Friends.from_json(await self._get("/v1/friends", self._bearer()))

    async def follow(self, player: str) -> int:
        """Follow a player, and return how many are followed now."""
        return Friends.from_json(await self._put_own(f"/v1/friends/{quoted(player)}")).total

    async def unfollow(self, player: str) -> int:
        """Follow a player no longer, and return how many are followed now."""
        return Friends.from_json(await self._delete_own(f"/v1/friends/{quoted(player)}")).total

    async def memberships(self, board: str, player: str) -> Mapping[str, str]:
        """Return the groups of a player on a board: the value of each segment."""
        path = f"{board_path(board)}/players/{quoted(player)}/memberships"
        return Memberships.from_json(await self._get(path)).segments

    async def set_membership(self, board: str, segment: str, group: str | None) -> Mapping[str, str]:
        """Say which group of a segment this player is in, None for none. Return all groups on the board."""
        path = f"{board_path(board)}/memberships/{quoted(segment)}"
        return Memberships.from_json(await self._put_own(path, {"value": group})).segments

    async def join(self, board: str) -> bool:
        """Join a board whose players have to, and return whether this one has."""
        return Joined.from_json(await self._put_own(f"{board_path(board)}/join")).joined

    async def leave(self, board: str) -> bool:
        """Leave a board that was joined, and return whether this player is still on it."""
        return Joined.from_json(await self._delete_own(f"{board_path(board)}/join")).joined

    async def _put_own(self, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if document is None:
            return await self._send("PUT", self._url(path), self._bearer(), None)
        headers = self._bearer() | {"Content-Type": "application/json"}
        return await self._send("PUT", self._url(path), headers, json_bytes(document))

    async def _delete_own(self, path: str) -> dict[str, Any]:
        return await self._send("DELETE", self._url(path), self._bearer(), None)
