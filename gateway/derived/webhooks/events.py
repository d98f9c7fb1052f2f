"""The events that webhooks are told of. The form is that of Standard Webhooks 1.0: type, timestamp, data."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any, Final

import orjson

from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.derived.achievements import Achievement
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.derived.webhooks import WebhookEvent
from gateway.runtime.clock import rfc3339
from policies.vocabulary import State

DECIDED: Final = frozenset(State) - {State.RECEIVED, State.PENDING}
"""States that somebody or something decided on."""


class EventType(StrEnum):
    """What happened. Names are stable; a type always has the same data."""

    STANDING_CHANGED = "standing.changed"
    RANK_CHANGED = "rank.changed"
    ACHIEVEMENT_REACHED = "achievement.reached"
    SUBMISSION_DECIDED = "submission.decided"
    TEST = "webhook.test"


def standing_changed(board: str, change: Mutation) -> WebhookEvent:
    """A player's standing in a window is another, or there is none any more."""
    data = {
        "board": board,
        "window": change.window,
        "player": change.player,
        "name": change.name or change.player,
        "score": change.score,
        "rank": change.rank,
        "was_score": change.was_score,
        "was_rank": change.was_rank,
        "submission": change.submission_id,
        "seq": change.seq,
    }
    key = (board, change.window, change.player, change.seq)
    return _told(EventType.STANDING_CHANGED, board, change.at_ms, data, *key)


def rank_changed(board: str, change: Mutation) -> WebhookEvent:
    """A player's rank in a window is another by a change of their own."""
    data = {
        "board": board,
        "window": change.window,
        "player": change.player,
        "name": change.name or change.player,
        "rank": change.rank,
        "was_rank": change.was_rank,
        "submission": change.submission_id,
        "seq": change.seq,
    }
    key = (board, change.window, change.player, change.seq)
    return _told(EventType.RANK_CHANGED, board, change.at_ms, data, *key)


def achievement_reached(reached: Achievement) -> WebhookEvent:
    """A player came into the first ten of a window for the first time."""
    data = {
        "board": reached.board,
        "window": reached.window,
        "player": reached.player,
        "rank": reached.rank,
        "submission": reached.submission_id,
        "seq": reached.seq,
    }
    key = (reached.board, reached.window, reached.player)
    return _told(EventType.ACHIEVEMENT_REACHED, reached.board, reached.at_ms, data, *key)


def submission_decided(event: LoggedEvent) -> WebhookEvent:
    """A submission is in another state. The reason is the coarse class that its player is told."""
    data = {
        "board": event.board,
        "submission": event.submission_id,
        "player": event.player,
        "score": event.score,
        "state": event.to_state.value,
        "was_state": event.from_state.value,
        "reason": event.reason.player_class,
        "seq": event.seq,
    }
    return _told(EventType.SUBMISSION_DECIDED, event.board, event.at_ms, data, event.seq)


def trial(board: str, *, now_ms: int) -> WebhookEvent:
    """Nothing happened: somebody wants to see whether an endpoint hears of it."""
    return _told(EventType.TEST, board, now_ms, {"board": board}, now_ms)


def _told(kind: EventType, board: str, at_ms: int, data: dict[str, Any], *key: str | int) -> WebhookEvent:
    """The id depends on what happened alone, so that what comes twice is the same event."""
    digest = hashlib.sha256(orjson.dumps([kind.value, *key])).hexdigest()
    body = {"type": kind.value, "timestamp": rfc3339(at_ms), "data": data}
    return WebhookEvent(f"evt_{digest[:32]}", board, kind.value, orjson.dumps(body))
