"""Reads of a window as if it lacked the entry of one player, who is shown another one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gateway.edge.reads.board_reader import SourcedPage
from gateway.edge.reads.own_reader import InsertedRow, WindowPages
from gateway.index.board_index import Cut, Entry, Page
from policies.choices import RankKind
from policies.ranking import Ranking


@dataclass(frozen=True, slots=True)
class LackingReader:
    """Reads a window without the entry of one player. Every method raises LedgerUnavailable."""

    everybody: WindowPages
    player: str
    ranking: Ranking

    async def page(self, window: str, start: Cut | int, count: int, kind: RankKind) -> SourcedPage:
        """Return at most `count` entries from a 0-based position, or behind or ahead of a place."""
        sourced = await self.everybody.page(window, start, count + 1, kind)
        row = await self._row(window, kind)
        if row is None:
            return await self.everybody.page(window, start, count, kind)
        page = sourced.page
        is_behind_it = bool(page.entries) and row.entry.place < page.entries[0].place
        kept = row.without(page)
        if not isinstance(start, Cut):
            return _sourced(sourced, kept[is_behind_it:][:count], start)
        left_out = 0 if start.is_behind else max(0, len(kept) - count)
        is_past_it = is_behind_it or (not page.entries and page.ahead > 0)
        return _sourced(sourced, kept[left_out:][:count], page.ahead - is_past_it + left_out)

    async def around(self, window: str, player: str, radius: int, kind: RankKind) -> SourcedPage:
        """Return a player's entry with `radius` neighbours on each side; nothing if the player has none."""
        sourced = await self.everybody.around(window, player, radius + 1, kind)
        row = await self._row(window, kind)
        if row is None:
            return await self.everybody.around(window, player, radius, kind)
        page, kept = sourced.page, row.without(sourced.page)
        at = next((at for at, entry in enumerate(kept) if entry.player == player), None)
        if at is None:
            return _sourced(sourced, (), 0)
        begin = max(0, at - radius)
        is_behind_it = row.entry.place < page.entries[0].place
        return _sourced(sourced, kept[begin : at + radius + 1], page.ahead - is_behind_it + begin)

    async def _row(self, window: str, kind: RankKind) -> InsertedRow | None:
        """Return the entry that is left out; None if the player has none."""
        page = (await self.everybody.around(window, self.player, 1, kind)).page
        own = next((entry for entry in page.entries if entry.player == self.player), None)
        if own is None:
            return None
        group = partial(self.ranking.group, window)
        is_tied = sum(group(entry.place) == group(own.place) for entry in page.entries) > 1
        return InsertedRow(own, kind, group, is_tied=is_tied)


def _sourced(sourced: SourcedPage, entries: tuple[Entry, ...], ahead: int) -> SourcedPage:
    return SourcedPage(Page(sourced.page.total - 1, entries, ahead), sourced.is_from_index)
