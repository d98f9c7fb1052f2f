"""Boards of groups: per window, a ZSET for each value of a declared segment, kept with the board.

They follow from what the index itself holds: the slots of a window and the player's membership. A script
compares what the caller read with what is there. So after a score and a change of membership in any order,
the last update leaves the groups right, and repeating it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.scripts import ReadingScript, Script, index_boundary
from gateway.index.windows.subsets import SubsetPage, subset_page
from gateway.shared_records import Membership
from policies.errors import IndexUnavailable
from policies.ranking import BoardPlace

ATTEMPTS: Final = 8
"""Most attempts of an update. An attempt fails only if another change got through."""


class SegmentBoards:
    """The groups of one board. Every method raises IndexUnavailable."""

    def __init__(self, index: BoardIndex, segments: Sequence[str]) -> None:
        self.board = index.board
        self._index = index
        self._segments = frozenset(segments)
        self._client = client = index.client
        self._keep = Script(client, "keep_membership")
        self._sync = Script(client, "sync_segments")
        self._subset = ReadingScript(client, "read_subset")
        self._count_ahead = ReadingScript(client, "count_ahead")

    async def keep(self, membership: Membership, windows: Iterable[str]) -> None:
        """Put the player into exactly these groups in these windows, unless a newer membership is there."""
        value = self.membership_value(membership)
        await self._keep([keys.memberships(self.board)], [membership.player, membership.version, value])
        await self.follow(membership.player, windows)

    async def follow(self, player: str, windows: Iterable[str]) -> None:
        """Make the player's groups match the player's standings in these windows."""
        names = list(windows)
        for _ in range(ATTEMPTS if names else 0):
            membership, *segmented = await self._read(player, names)
            if not membership and not any(segmented):
                return
            if await self._show(player, membership, dict(zip(names, segmented, strict=True))):
                return
        if names:
            raise IndexUnavailable("the player's groups keep changing")

    async def page(self, window: str, segment: str, value: str, first: int, count: int) -> SubsetPage:
        """Return `count` entries of a group from 0-based rank `first` in it."""
        group_keys = self._keys_of(window, segment, value)
        answer = await self._subset(self._index.sentinel, group_keys, ["", first, first + count - 1])
        return subset_page(self._index, window, answer)

    async def around(
        self, window: str, segment: str, value: str, player: str, radius: int
    ) -> SubsetPage | None:
        """Return a player's entry with `radius` neighbours of the group on each side, None if it has none."""
        group_keys = self._keys_of(window, segment, value)
        answer = await self._subset(self._index.sentinel, group_keys, [player, 0, radius])
        return subset_page(self._index, window, answer) if answer else None

    async def ahead(self, window: str, segment: str, value: str, place: BoardPlace) -> int:
        """Return how many entries of a group are ahead of a place."""
        group_key = keys.segment(self.board, segment, value, window)
        [count] = await self._count_ahead(self._index.sentinel, [group_key], [*place])
        return int(count)

    def membership_value(self, membership: Membership) -> str:
        """Return the value of a membership in its hash, with the segments that the board declares."""
        return f"{membership.version} {self.groups_value(membership.segments)}".rstrip()

    def groups_value(self, segments: Mapping[str, str]) -> str:
        """Return the groups in the form of membership and segmented values."""
        declared = (f"{name}:{value}" for name, value in segments.items() if name in self._segments)
        return " ".join(sorted(declared))

    async def _read(self, player: str, windows: Sequence[str]) -> list[str]:
        """Return the membership, and the segmented value of each window; empty for none."""
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.hget(keys.memberships(self.board), player)
                for window in windows:
                    pipe.hget(keys.segmented(self.board, window), player)
                return [value or "" for value in await pipe.execute()]

    async def _show(self, player: str, membership: str, segmented: Mapping[str, str]) -> bool:
        now = membership.split(" ")[1:]
        script_keys: list[str] = [keys.memberships(self.board)]
        arguments: list[Any] = [player, membership]
        for window, value in segmented.items():
            groups = sorted({*now, *value.split(" ")[1:]})
            script_keys += (
                self._index.window_key(window),
                keys.members(self.board, window),
                keys.segmented(self.board, window),
                *(keys.segment(self.board, *_parts(group), window) for group in groups),
            )
            arguments += (value, " ".join(now), len(groups), *(int(group in now) for group in groups))
        return bool(await self._sync(script_keys, arguments))

    def _keys_of(self, window: str, segment: str, value: str) -> list[str]:
        board = self.board
        return [
            keys.segment(board, segment, value, window),
            self._index.window_key(window),
            keys.members(board, window),
            keys.names(board),
        ]


def _parts(group: str) -> tuple[str, str]:
    segment, _, value = group.partition(":")
    return segment, value
