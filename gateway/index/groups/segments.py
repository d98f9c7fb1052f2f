"""Boards of groups: of each window, a ZSET for each value of each declared segment, kept beside the board as it changes.

They are derived from what the index itself holds, the slots of a window and the player's membership, by a script that
compares what it was told with what is there. So whoever comes last, after a score or after a change of membership,
leaves both as they are, and coming twice does no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.scripts import ReadingScript, Script, index_boundary
from gateway.index.windows.subsets import SubsetPage, subset_page
from gateway.records import Membership
from policies.errors import IndexUnavailable

ATTEMPTS: Final = 8
"""How often what moved meanwhile is read again; each time somebody else's change got through."""


class SegmentBoards:
    """The groups of one board. Every method raises IndexUnavailable."""

    def __init__(self, index: BoardIndex, segments: Sequence[str]) -> None:
        self.board = index.board
        self._index = index
        self._segments = frozenset(segments)
        self._client = client = index.client
        self._keep = Script(client, "keep_membership")
        self._segment = Script(client, "sync_segments")
        self._subset = ReadingScript(client, "read_subset")

    async def keep(self, membership: Membership, windows: Iterable[str]) -> None:
        """Has the player stand in these groups and no others, in these windows, unless a newer membership is known."""
        value = self.membership_value(membership)
        await self._keep([keys.memberships(self.board)], [membership.player, membership.version, value])
        await self.follow(membership.player, windows)

    async def follow(self, player: str, windows: Iterable[str]) -> None:
        """Makes the player's groups show how the player stands in these windows."""
        names = list(windows)
        for _ in range(ATTEMPTS if names else 0):
            member_of, *held = await self._read(player, names)
            if not member_of and not any(held):
                return
            if await self._show(player, member_of, dict(zip(names, held, strict=True))):
                return
        if names:
            raise IndexUnavailable("the player's groups changed again and again")

    async def page(self, window: str, segment: str, value: str, first: int, count: int) -> SubsetPage:
        """`count` entries of a group from 0-based rank `first` in it."""
        held = self._keys_of(window, segment, value)
        answer = await self._subset(self._index.sentinel, held, ["", first, first + count - 1])
        return subset_page(self._index, window, answer)

    async def around(
        self, window: str, segment: str, value: str, player: str, radius: int
    ) -> SubsetPage | None:
        """A player's entry with `radius` neighbours of the group on each side, or None for who does not stand in it."""
        held = self._keys_of(window, segment, value)
        answer = await self._subset(self._index.sentinel, held, [player, 0, radius])
        return subset_page(self._index, window, answer) if answer else None

    def membership_value(self, membership: Membership) -> str:
        """What the memberships hash holds for it: of the segments that the board declares."""
        return f"{membership.version} {self.groups_value(membership.segments)}".rstrip()

    def groups_value(self, segments: Mapping[str, str]) -> str:
        """The groups as they stand in a membership and in a segmented value."""
        declared = (f"{name}:{value}" for name, value in segments.items() if name in self._segments)
        return " ".join(sorted(declared))

    async def _read(self, player: str, windows: Sequence[str]) -> list[str]:
        """The membership, and the segmented value of each window; empty for none."""
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.hget(keys.memberships(self.board), player)
                for window in windows:
                    pipe.hget(keys.segmented(self.board, window), player)
                return [value or "" for value in await pipe.execute()]

    async def _show(self, player: str, membership: str, held: Mapping[str, str]) -> bool:
        now = membership.split(" ")[1:]
        asked: list[str] = [keys.memberships(self.board)]
        arguments: list[Any] = [player, membership]
        for window, value in held.items():
            groups = sorted({*now, *value.split(" ")[1:]})
            asked += (
                self._index.window_key(window),
                keys.members(self.board, window),
                keys.segmented(self.board, window),
                *(keys.segment(self.board, *_parts(group), window) for group in groups),
            )
            arguments += (value, " ".join(now), len(groups), *(int(group in now) for group in groups))
        return bool(await self._segment(asked, arguments))

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
