"""The heads of a board's windows: all that the index keeps of them where a board has `exact_ranks`.

Invariant: a head is a beginning of the order of all standings. So a rank in it is exact, and what comes after it begins
with the first standing below. `project_change.lua` keeps it so as standings come and go, without looking below: what would be
the last of a head while anything is below goes below too, and so does what is too much. Heads only shrink by that, and
are filled up from the ledger (`gateway.steward.index.exact_ranks`).

Why filling up keeps the invariant. Between two looks at the same version nothing came below or left from there, so the
players below are the same ones, with the same standings. The ledger, read between the two, is not behind the index:
it has each of them so, or a later one that is still to be shown. Of those it has so, the ones that come first after the
head are put there in their order, up to the first whose slot says otherwise. One that has a later standing is passed over
where that is elsewhere: the standing that it is below with counts no more, and showing the later one places it anew.
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
from gateway.records import Standing
from policies.errors import IndexUnavailable
from policies.ranking import BoardPlace

_COUNTED: Final = re.compile(r"([0-9]{1,18}) ([0-9]{1,15})")


class Head(NamedTuple):
    """How many entries a head has, how many standings are below, the version of those, and the place that it ends at."""

    entries: int
    below: int
    version: str
    last: BoardPlace | None

    @property
    def total(self) -> int:
        """How many standings the window has."""
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
        """The head of a window."""
        zset, members, _ = self._keys_of(window)
        asked = [
            ("ZCARD", zset),
            ("HGET", members, keys.BELOW_FIELD),
            ("ZRANGE", zset, -1, -1, "WITHSCORES"),
        ]
        with index_boundary():
            entries, held, last = await transact(self._index.client, zset, asked)
        counted = _COUNTED.fullmatch(held or "")
        version, below = (counted[1], int(counted[2])) if counted else ("", 0)
        try:
            return Head(entries, below, version, BoardPlace(int(last[1]), last[0]) if last else None)
        except ValueError as error:
            raise IndexUnavailable("the index holds a place that we never wrote") from error

    async def refill(self, window: str, version: str, standings: Sequence[Standing]) -> int:
        """How many of the standings that come after a head were put into it; none if anything changed below since."""
        parts = [
            (each.player, keys.slot_below(each), each.order, each.member, keys.slot_value(each))
            for each in standings
        ]
        asked = [version, *self._facts(window), self._index.most_entries, *chain(*parts)]
        return max(0, int(await self._refill([*self._keys_of(window), self._version], asked)))

    async def trim(self, window: str, count: int) -> int:
        """How many entries beyond what is kept were taken out of a window, `count` at most."""
        asked = [self._index.most_entries, count, *self._facts(window)]
        return int(await self._trim([*self._keys_of(window), self._version], asked))

    async def recount(self, window: str, seen: Head, below: int) -> bool:
        """Says how many are below; False if the head is another than the one that was seen."""
        zset, members, _ = self._keys_of(window)
        return bool(await self._recount([zset, members, self._version], [seen.entries, seen.version, below]))

    @property
    def _version(self) -> str:
        return keys.version(self._index.board)

    def _facts(self, window: str) -> list[Any]:
        ranking = self._index.ranking
        return [ranking.tie_digits, ranking.orders_per_score(window), int(ranking.keeps_groups)]

    def _keys_of(self, window: str) -> tuple[str, str, str]:
        board = self._index.board
        return keys.window(board, window), keys.members(board, window), keys.groups(board, window)
