"""The newest changes on a Pub/Sub channel of Redis, for services beside the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.changes import ChangeStream, StandingChange
from gateway.index.feed.events import EventKind, FeedEvent
from gateway.index.scripts import Script, index_boundary

CLAIMED_AT_ONCE: Final = 500
"""Changes claimed together; of these, the newest of each window and player is announced."""

StreamOf = Callable[[str], Awaitable[ChangeStream | None]]
"""Return the changes of a board, None for a board that does not exist."""


class Announcer:
    """A publisher of changes, one per edge. A claimed change is lost if its edge dies before announcing it.

    Every method raises IndexUnavailable.
    """

    def __init__(self, client: Redis, stream_of: StreamOf, as_text: Callable[[FeedEvent], str]) -> None:
        self._client = client
        self._stream_of = stream_of
        self._as_text = as_text
        self._claim = Script(client, "claim_announcements")

    async def announce(self, lane: int) -> None:
        """Publish the changes of a lane that nobody has announced."""
        is_last = False
        while not is_last:
            claimed = await self._claim([keys.lane_changes(lane), keys.announced(lane)], [CLAIMED_AT_ONCE])
            is_last = len(claimed) < CLAIMED_AT_ONCE
            entries = [
                (stream_id, dict(zip(flat[::2], flat[1::2], strict=True))) for stream_id, flat in claimed
            ]
            for board in dict.fromkeys(fields.get("board", "") for _, fields in entries):
                if stream := await self._stream_of(board):
                    await self._announce_board(board, stream.changes_in(entries))

    async def _announce_board(self, board: str, changes: Sequence[StandingChange]) -> None:
        newest = {(change.window, change.player): change for change in changes}
        for change in sorted(newest.values(), key=lambda change: change.position):
            await self._publish(board, FeedEvent(EventKind.STANDING, change.stream_id, change))

    async def _publish(self, board: str, event: FeedEvent) -> None:
        with index_boundary():
            await self._client.publish(keys.news(board), self._as_text(event))
