"""The heads of a board's windows: all that the index keeps of them on a board with `exact_ranks`.

Invariant: a head holds the first entries in the order of all standings. So a rank in it is exact, and the
standings below follow directly. `project_change.lua` keeps this true as standings come and go, without
reading below: an entry that would be the last of a head while anything is below goes below too, and so do
surplus entries. This only shrinks heads; the steward refills them from the ledger
(`gateway.steward.index.exact_ranks`).

Why refilling keeps the invariant: between two reads of the same version nothing went below or left from
there, so the same players are below with the same standings. The ledger, read in between, is not behind the
index: it has the same standing of each of these players, or a later one that is still to be shown. Of the
standings that are the same, those that follow the head are added in their order, up to the first player whose
slot differs. A player with a later standing elsewhere is skipped: the standing below no longer counts, and
showing the later one places the player again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.scripts import Script, index_boundary
from gateway.index.transactions import transact
from gateway.shared_records import Standing
from policies.errors import IndexUnavailable
from policies.ranking import BoardPlace

_BELOW: Final = re.compile(r"([0-9]{1,18}) ([0-9]{1,15})")


class Head(NamedTuple):
    """A head: its number of entries, the number of standings below and their version, and its last place."""

    entries: int
    below: int
    version: str
    last: BoardPlace | None

    @property
    def total(self) -> int:
        """The number of standings in the window."""
        return self.entries + self.below


class Heads:
    """The heads of one board. Every method raises IndexUnavailable."""

    def __init__(self, index: BoardIndex) -> None:
        client = index.client
        self._index = index
        self._refill = Script(client, "refill_head")
        self._trim = Script(client, "trim_head")
        self._recount = Script(client, "recount_below")

    async def of(self, window: str) -> Head:
        """Return the head of a window."""
        zset, members, _ = self._keys_of(window)
        commands = [
            ("ZCARD", zset),
            ("HGET", members, keys.BELOW_FIELD),
            ("ZRANGE", zset, -1, -1, "WITHSCORES"),
        ]
        with index_boundary():
            entries, counter, last = await transact(self._index.client, zset, commands)
        match = _BELOW.fullmatch(counter or "")
        version, below = (match[1], int(match[2])) if match else ("", 0)
        try:
            return Head(entries, below, version, BoardPlace(int(last[1]), last[0]) if last else None)
        except ValueError as error:
            raise IndexUnavailable("the index holds a place that Scoregate never wrote") from error

    async def refill(self, window: str, version: str, standings: Sequence[Standing]) -> int:
        """Add the standings that follow a head. Return how many: 0 if any changed below since `version`."""
        rows = [
            (row.player, keys.slot_below(row), row.order, row.member, keys.slot_value(row))
            for row in standings
        ]
        arguments = [version, *self._layout(window), self._index.most_entries, *chain(*rows)]
        return max(0, int(await self._refill([*self._keys_of(window), self._version], arguments)))

    async def trim(self, window: str, count: int) -> int:
        """Remove surplus entries from a window, `count` at most. Return how many were removed."""
        arguments = [self._index.most_entries, count, *self._layout(window)]
        return int(await self._trim([*self._keys_of(window), self._version], arguments))

    async def recount(self, window: str, head: Head, below: int) -> bool:
        """Set how many standings are below. Return False if the head changed since it was read."""
        zset, members, _ = self._keys_of(window)
        return bool(await self._recount([zset, members, self._version], [head.entries, head.version, below]))

    @property
    def _version(self) -> str:
        return keys.version(self._index.board)

    def _layout(self, window: str) -> list[Any]:
        ranking = self._index.ranking
        return [ranking.tie_digits, ranking.orders_per_score(window), int(ranking.keeps_groups)]

    def _keys_of(self, window: str) -> tuple[str, str, str]:
        board = self._index.board
        return keys.window(board, window), keys.members(board, window), keys.groups(board, window)
