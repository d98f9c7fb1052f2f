"""The lanes that a consumer has to look at, found with one read of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.lane_stream import grown_after, newest_ids, values_of
from gateway.runtime.lanes import LANES

LOOK_S: Final = 5.0
"""Time between checks for what no event of the ledger says: streams that are gone or began again, marks."""

_STREAMS: Final = {keys.lane_changes(lane): lane for lane in range(LANES)}


class LaneWatch:
    """The lanes of one consumer: each is at rest up to an entry, or busy. Raises IndexUnavailable.

    `unmarked` are those of which the consumer may have missed changes, by the marks of its group.
    """

    def __init__(self, client: Redis, group: str, *, look_s: float = LOOK_S) -> None:
        self._client = client
        self._marks = {keys.group_mark(lane, group): lane for lane in range(LANES)}
        self._look_s = look_s
        self._look_at_s = 0.0
        self._ends: dict[int, str] = {}
        self._shown: int | None = None
        self.busy: set[int] = set()
        self.unmarked: set[int] = set()

    async def look(self, shown: int | None) -> None:
        """Find the lanes that have become busy.

        `shown` is the newest event of the ledger if all events are on the streams, else None. While it is
        the same, nothing can have come.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._look_at_s:
            await self._look_at_all()
            self._look_at_s = now_s + self._look_s
        if shown is None or shown != self._shown:
            ends = {
                key: self._ends.get(lane, "0-0") for key, lane in _STREAMS.items() if lane not in self.busy
            }
            self.busy |= {_STREAMS[key] for key in await grown_after(self._client, ends)}
        self._shown = shown

    def rest(self, lane: int, last_id: str) -> None:
        """Note that a lane needs nothing more than what comes after an entry."""
        self._ends[lane] = last_id
        self.busy.discard(lane)

    def begin_again(self, lanes: Iterable[int]) -> None:
        """Note that the consumer has missed nothing more of these lanes, whose streams may be gone."""
        for lane in lanes:
            self.unmarked.discard(lane)
            self.busy.discard(lane)
            self._ends.pop(lane, None)

    async def _look_at_all(self) -> None:
        newest = await newest_ids(self._client, list(_STREAMS))
        self.busy |= {lane for key, lane in _STREAMS.items() if newest[key] != self._ends.get(lane)}
        marks = await values_of(self._client, list(self._marks))
        self.unmarked = {lane for key, lane in self._marks.items() if marks[key] is None}
