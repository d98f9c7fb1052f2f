"""The texts of feed events: the same members in Server-Sent Events and in WebSocket messages."""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.index.changes import StandingChange
from gateway.index.feed.events import EventKind, FeedEvent

POSITION: Final = "position"
"""The event name of a WebSocket's heartbeat."""


def as_sse(event: FeedEvent) -> bytes:
    """Return an event as a Server-Sent Event (HTML Standard, §9.2)."""
    # An empty id makes a browser forget its last one, which is of a stream that is no more.
    is_new_start = event.kind in (EventKind.BEGIN, EventKind.RESET)
    line = f"id: {event.stream_id or ''}\n" if event.stream_id or is_new_start else ""
    return b"".join(
        (b"event: ", event.kind.encode(), b"\n", line.encode(), b"data: ", _json(_data(event)), b"\n\n")
    )


def sse_heartbeat(position: str | None) -> bytes:
    """Return a comment, with the id to resume after: a listener keeps an id that comes without an event."""
    return f"id: {position}\n: alive\n\n".encode() if position else b": alive\n\n"


def as_message(event: FeedEvent) -> str:
    """Return an event as a WebSocket message."""
    return _json({"event": event.kind, "id": event.stream_id, "data": _data(event)}).decode()


def position_message(position: str) -> str:
    """Return the heartbeat that tells where to resume."""
    return _json({"event": POSITION, "id": position, "data": {}}).decode()


def _data(event: FeedEvent) -> dict[str, Any]:
    change = event.change
    if change is None:
        return {}
    if event.kind is EventKind.STANDING:
        return _standing(change)
    moved = {
        "player": event.player,
        "window": change.window,
        "rank": event.rank,
        "was_rank": event.was_rank,
    }
    return moved | {"by": _standing(change)} if event.kind is EventKind.OVERTAKEN else moved


def _standing(change: StandingChange) -> dict[str, Any]:
    return {
        "player": change.player,
        "name": change.name or change.player,
        "score": change.score,
        "submission": change.submission_id,
        "window": change.window,
        "rank": change.rank,
        "was_score": change.was_score,
        "was_rank": change.was_rank,
    }


def _json(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document)
