"""Reads the boards of groups: as everybody sees them, and as a shadow-banned player does."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.reads.own_reader import OwnReader
from gateway.edge.reads.own_view import reader_for
from gateway.index.groups.segments import SegmentBoards
from gateway.index.windows.subsets import SubsetEntry, SubsetPage
from gateway.ledger.players.memberships import membership_of
from gateway.ledger.reads import ReadKind
from policies.choices import RankKind
from policies.loader import Board


@dataclass(frozen=True, slots=True)
class GroupReader:
    """Reads one group of a window. Every method raises IndexUnavailable."""

    boards: SegmentBoards
    window: str
    segment: str
    value: str

    async def page(self, first: int, count: int) -> SubsetPage:
        """Return `count` entries of the group from 0-based rank `first` in it."""
        return await self.boards.page(self.window, self.segment, self.value, first, count)

    async def around(self, player: str, radius: int) -> SubsetPage | None:
        """Return a player's entry with `radius` neighbours of the group on each side, None if it has none."""
        return await self.boards.around(self.window, self.segment, self.value, player, radius)


@dataclass(frozen=True, slots=True)
class OwnGroupReader(GroupReader):
    """Reads one group as if its window had one more entry, whose player is in the group or not.

    Every method raises LedgerUnavailable too.
    """

    reader: OwnReader
    is_in: bool

    async def page(self, first: int, count: int) -> SubsetPage:
        """Return `count` entries of the group from 0-based rank `first` in it."""
        begin = max(0, first - 1)
        others = await GroupReader.page(self, begin, first - begin + count)
        rows = [self._moved(row) for row in others.entries]
        if self.is_in:
            rows.append(await self._own_row())
        shown = [row for row in rows if first < row.entry.rank <= first + count]
        shown.sort(key=lambda row: row.entry.rank)
        return SubsetPage(others.total + self.is_in, tuple(shown))

    async def around(self, player: str, radius: int) -> SubsetPage | None:
        """Return a player's entry with `radius` neighbours of the group on each side, None if it has none."""
        if player != self.reader.own.player:
            found = await GroupReader.around(self, player, 0)
            row = self._moved(found.entries[0]) if found else None
        else:
            row = await self._own_row() if self.is_in else None
        if row is None:
            return None
        first = max(0, row.entry.rank - 1 - radius)
        return await self.page(first, row.entry.rank + radius - first)

    def _moved(self, row: SubsetEntry) -> SubsetEntry:
        """Return an entry of another player with the ranks that it has beside the own one."""
        is_behind = self.reader.own.place < row.entry.place
        entry = replace(row.entry, rank=row.entry.rank + (is_behind and self.is_in))
        return SubsetEntry(entry, row.global_rank + is_behind)

    async def _own_row(self) -> SubsetEntry:
        own = self.reader.own
        ahead = await self.boards.ahead(self.window, self.segment, self.value, own.place)
        everybody = await self.reader.around(self.window, own.player, 0, RankKind.UNIQUE)
        [entry] = everybody.page.entries
        return SubsetEntry(replace(own, rank=ahead + 1), entry.rank)


async def group_reader_for(
    request: web.Request, board: Board, window: str, segment: str, value: str
) -> GroupReader:
    """Return the reader of a group for who sent a request: an OwnGroupReader for its shadow-banned player.

    On a rollup on which everybody sees some standing of the player, the group has that one. Raises
    LedgerUnavailable.
    """
    edge, reader = request.app[EDGE], await reader_for(request, board, window)
    group = (edge.of(board).segments, window, segment, value)
    if not isinstance(reader, OwnReader) or reader.replaced:
        return GroupReader(*group)
    work = membership_of(board.name, reader.own.player)
    membership = await edge.ledger.read(work, ReadKind.PLAYERS)
    return OwnGroupReader(*group, reader, membership.segments.get(segment) == value)
