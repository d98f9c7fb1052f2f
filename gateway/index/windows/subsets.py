"""Entries of some of a window's players, each with a rank among them and a rank in the whole window."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from gateway.index import keys
from gateway.index.board_index import BoardIndex, Entry
from gateway.index.scripts import ReadingScript
from policies.errors import IndexUnavailable
from policies.ranking import BoardPlace


@dataclass(frozen=True, slots=True)
class SubsetEntry:
    """An entry ranked among some players; `global_rank` is its rank among all. Both begin at 1."""

    entry: Entry
    global_rank: int


@dataclass(frozen=True, slots=True)
class SubsetPage:
    """Entries by rank, and the number of all entries."""

    total: int
    entries: tuple[SubsetEntry, ...]


class PlayerLookup:
    """Entries of one board by player id. Raises IndexUnavailable."""

    def __init__(self, index: BoardIndex) -> None:
        self._index = index
        client = index.client
        self._read_players = ReadingScript(client, "read_players")

    async def entries(self, window: str, players: Sequence[str]) -> SubsetPage:
        """Return the entries of those players who have a standing in a window, by rank."""
        shards = self._index.shards
        pages = await asyncio.gather(*(self._entries_in(shard, window, players) for shard in shards))
        if len(pages) == 1:
            return pages[0]
        entries = sorted((row.entry for page in pages for row in page.entries), key=attrgetter("place"))
        counts = await self._index.positions(window, [entry.place for entry in entries])
        ranked = enumerate(zip(entries, counts, strict=True), start=1)
        return SubsetPage(
            len(entries),
            tuple(SubsetEntry(replace(entry, rank=rank), ahead + 1) for rank, (entry, ahead) in ranked),
        )

    async def _entries_in(self, index: BoardIndex, window: str, players: Sequence[str]) -> SubsetPage:
        """Return the entries in one shard, with their ranks in it."""
        window_keys = [index.window_key(window), keys.members(index.board, window), keys.names(index.board)]
        local = [player for player in players if index.holds(player)]
        reply = await self._read_players(index.sentinel, window_keys, local) if local else []
        rows = sorted(reply, key=lambda row: int(row[-1]))
        return subset_page(index, window, (len(rows), 0, rows))


def neighbours_in(page: SubsetPage, player: str, radius: int) -> SubsetPage | None:
    """Return a player's entry in a subset and `radius` neighbours on each side, None without an entry."""
    at = next((at for at, row in enumerate(page.entries) if row.entry.player == player), None)
    if at is None:
        return None
    return SubsetPage(page.total, page.entries[max(0, at - radius) : at + radius + 1])


def subset_page(index: BoardIndex, window: str, answer: Sequence[Any]) -> SubsetPage:
    """Return the page in an answer of `_subset.lua`: {total, first rank from 0, entries}."""
    total, first, rows = answer
    try:
        return SubsetPage(
            total, tuple(_entry(index, window, rank, row) for rank, row in enumerate(rows, start=first + 1))
        )
    except ValueError as error:
        raise IndexUnavailable("the index holds a member that Scoregate never wrote") from error


def _entry(index: BoardIndex, window: str, rank: int, row: Sequence[Any]) -> SubsetEntry:
    player, value, member, submission_id, name, global_rank = row
    place = BoardPlace(int(value), member)
    score = index.ranking.score_at(window, place.order)
    at_ms = index.ranking.achieved_at_ms(window, place)
    return SubsetEntry(Entry(rank, player, name, score, at_ms, submission_id, place), int(global_rank) + 1)
