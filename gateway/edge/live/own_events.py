"""What a feed does not tell its listener: that a shadow ban takes their own standing off the board."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from gateway.edge.context import Edge
from gateway.edge.reads.own_view import may_overlay
from gateway.index.feed.events import EventKind, FeedEvent
from policies.errors import LedgerUnavailable
from policies.loader import Board


async def without_own(
    edge: Edge, board: Board, listener: str, events: Sequence[FeedEvent]
) -> list[FeedEvent]:
    """Return the events that a listener is told: none of a shadow-banned listener's own.

    What their reads show beside it is news to nobody else, and has no event.
    """
    own = [event for event in events if _player_of(event) == listener]
    if not own or not listener:
        return list(events)
    if any(event.change is not None and event.change.rank is None for event in own):
        with suppress(
            LedgerUnavailable
        ):  # this edge may not have heard of the ban yet, which is in the ledger
            await edge.banned.refresh()
    if not may_overlay(edge, board, listener):
        return list(events)
    return [event for event in events if _player_of(event) != listener]


def _player_of(event: FeedEvent) -> str | None:
    """Return the player whom an event is about, None for an event of the feed itself."""
    if event.kind is EventKind.STANDING and event.change is not None:
        return event.change.player
    return event.player or None
