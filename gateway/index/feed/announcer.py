"""The newest changes on a Pub/Sub channel of Redis, for services beside the gateway that want no more than those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.changes import ChangeStream
from gateway.index.feed.events import EventKind, FeedEvent
from gateway.index.scripts import Script, index_boundary

CLAIMED_AT_ONCE: Final = 500
"""Changes that are claimed together; of these, the newest of each window and player is announced."""


class Announcer:
    """Publishes changes as one of all edges: who claims a change announces it. What a dead edge claimed is lost.

    Every method raises IndexUnavailable.
    """

    def __init__(self, client: Redis, as_text: Callable[[FeedEvent], str]) -> None:
        self._client = client
        self._as_text = as_text
        self._claim = Script(client, "claim_announcements")

    async def announce(self, stream: ChangeStream) -> None:
        """Publishes what nobody has announced of a board."""
        is_last = False
        while not is_last:
            claimed = await self._claim([stream.key, keys.announced(stream.board)], [CLAIMED_AT_ONCE])
            is_last = len(claimed) < CLAIMED_AT_ONCE
            rows = [(stream_id, dict(zip(flat[::2], flat[1::2], strict=True))) for stream_id, flat in claimed]
            newest = {(each.window, each.player): each for each in stream.page(rows).changes} if rows else {}
            for change in sorted(newest.values(), key=lambda each: each.position):
                await self._publish(stream.board, FeedEvent(EventKind.STANDING, change.stream_id, change))

    async def _publish(self, board: str, event: FeedEvent) -> None:
        with index_boundary():
            await self._client.publish(keys.news(board), self._as_text(event))
