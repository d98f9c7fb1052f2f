"""Entries of some of a window's players: each with a rank among them, and with the rank in the whole window."""

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
    """An entry whose rank is among some of the players; `global_rank` is among all. Both begin at 1."""

    entry: Entry
    global_rank: int


@dataclass(frozen=True, slots=True)
class SubsetPage:
    """Entries by rank, and how many there are of them in all."""

    total: int
    entries: tuple[SubsetEntry, ...]


class PlayerLookup:
    """One board's players by their ids. Raises IndexUnavailable."""

    def __init__(self, index: BoardIndex) -> None:
        self._index = index
        client = index.client
        self._listed = ReadingScript(client, "read_players")

    async def entries(self, window: str, players: Sequence[str]) -> SubsetPage:
        """Those of these players who stand in a window, by rank."""
        shards = self._index.shards
        pages = await asyncio.gather(*(self._in(each, window, players) for each in shards))
        if len(pages) == 1:
            return pages[0]
        found = sorted((each.entry for page in pages for each in page.entries), key=attrgetter("place"))
        ahead = await self._index.positions(window, [each.place for each in found])
        ranked = enumerate(zip(found, ahead, strict=True), start=1)
        return SubsetPage(
            len(found),
            tuple(SubsetEntry(replace(each, rank=rank), before + 1) for rank, (each, before) in ranked),
        )

    async def _in(self, index: BoardIndex, window: str, players: Sequence[str]) -> SubsetPage:
        """Those who stand in one shard, with their ranks in it."""
        asked = [index.window_key(window), keys.members(index.board, window), keys.names(index.board)]
        held = [each for each in players if index.holds(each)]
        found = await self._listed(index.sentinel, asked, held) if held else []
        rows = sorted(found, key=lambda row: int(row[-1]))
        return subset_page(index, window, (len(rows), 0, rows))


def neighbours_in(page: SubsetPage, player: str, radius: int) -> SubsetPage | None:
    """A player's entry of a whole subset, with `radius` neighbours on each side; None for who is not in it."""
    at = next((at for at, each in enumerate(page.entries) if each.entry.player == player), None)
    if at is None:
        return None
    return SubsetPage(page.total, page.entries[max(0, at - radius) : at + radius + 1])


def subset_page(index: BoardIndex, window: str, answer: Sequence[Any]) -> SubsetPage:
    """A page as `_subset.lua` gives it: {total, first rank from 0, entries}."""
    total, first, rows = answer
    try:
        return SubsetPage(
            total, tuple(_entry(index, window, rank, row) for rank, row in enumerate(rows, start=first + 1))
        )
    except ValueError as error:
        raise IndexUnavailable("the index holds a member that we never wrote") from error


def _entry(index: BoardIndex, window: str, rank: int, row: Sequence[Any]) -> SubsetEntry:
    player, value, member, submission_id, name, global_rank = row
    place = BoardPlace(int(value), member)
    score = index.ranking.score_at(window, place.order)
    at_ms = index.ranking.achieved_at_ms(window, place)
    return SubsetEntry(Entry(rank, player, name, score, at_ms, submission_id, place), int(global_rank) + 1)
