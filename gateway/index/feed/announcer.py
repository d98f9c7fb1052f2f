"""The newest changes on a Pub/Sub channel of Redis, for services beside the gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.changes import ChangeStream
from gateway.index.feed.events import EventKind, FeedEvent
from gateway.index.scripts import Script, index_boundary

CLAIMED_AT_ONCE: Final = 500
"""Changes claimed together; of these, the newest of each window and player is announced."""


class Announcer:
    """A publisher of changes, one per edge. A claimed change is lost if its edge dies before announcing it.

    Every method raises IndexUnavailable.
    """

    def __init__(self, client: Redis, as_text: Callable[[FeedEvent], str]) -> None:
        self._client = client
        self._as_text = as_text
        self._claim = Script(client, "claim_announcements")

    async def announce(self, stream: ChangeStream) -> None:
        """Publish the changes of a board that nobody has announced."""
        is_last = False
        while not is_last:
            claimed = await self._claim([stream.key, keys.announced(stream.board)], [CLAIMED_AT_ONCE])
            is_last = len(claimed) < CLAIMED_AT_ONCE
            rows = [(stream_id, dict(zip(flat[::2], flat[1::2], strict=True))) for stream_id, flat in claimed]
            changes = stream.page(rows).changes if rows else ()
            newest = {(change.window, change.player): change for change in changes}
            for change in sorted(newest.values(), key=lambda change: change.position):
                await self._publish(stream.board, FeedEvent(EventKind.STANDING, change.stream_id, change))

    async def _publish(self, board: str, event: FeedEvent) -> None:
        with index_boundary():
            await self._client.publish(keys.news(board), self._as_text(event))
