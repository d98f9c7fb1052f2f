"""How events of a feed are written: every member, and the id to come back with, by either transport."""

from __future__ import annotations

import json

import pytest

from gateway.edge.live.messages import as_message, as_sse, position_message, sse_heartbeat
from gateway.index.changes import StandingChange
from gateway.index.feed.events import EventKind, FeedEvent

CHANGE = StandingChange("7-0", 3, "alltime", "ada", "", "s1", None, None, 12, 10)
STANDING = {
    "player": "ada",
    "name": "ada",
    "score": 12,
    "submission": "s1",
    "window": "alltime",
    "rank": None,
    "was_score": 10,
    "was_rank": None,
}
MOVED = {"player": "bob", "window": "alltime", "rank": 2, "was_rank": 1}
EVENTS = {
    "a change": (FeedEvent(EventKind.STANDING, "7-0", CHANGE), "id: 7-0\n", STANDING),
    "a change with more to come": (FeedEvent(EventKind.STANDING, None, CHANGE), "", STANDING),
    "a rank": (FeedEvent(EventKind.RANK, "7-0", CHANGE, "bob", 2, 1), "id: 7-0\n", MOVED),
    "an overtaking": (
        FeedEvent(EventKind.OVERTAKEN, "7-0", CHANGE, "bob", 2, 1),
        "id: 7-0\n",
        MOVED | {"by": STANDING},
    ),
    "a beginning": (FeedEvent(EventKind.BEGIN, "6-0"), "id: 6-0\n", {}),
    "a beginning of an empty stream": (FeedEvent(EventKind.BEGIN, None), "id: \n", {}),
    "a reset to an empty stream": (FeedEvent(EventKind.RESET, None), "id: \n", {}),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_says_the_same_by_either_transport(name: str):
    """Its kind, its data and its id; where a stream has no entries the last id of a browser is taken back."""
    event, line, data = EVENTS[name]
    written = f"event: {event.kind}\n{line}data: "
    head, _, told = as_sse(event).decode().partition("data: ")
    assert (written, data, True) == (f"{head}data: ", json.loads(told), told.endswith("}\n\n"))
    assert {"event": event.kind, "id": event.stream_id, "data": data} == json.loads(as_message(event))


def test_a_heartbeat_tells_where_to_resume():
    """An event stream by a comment, with an id where there is one; a WebSocket by an event of its own."""
    assert (b": alive\n\n", b"id: 7-0\n: alive\n\n") == (sse_heartbeat(None), sse_heartbeat("7-0"))
    assert {"event": "position", "id": "7-0", "data": {}} == json.loads(position_message("7-0"))
