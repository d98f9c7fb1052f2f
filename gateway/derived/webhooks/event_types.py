"""The events that webhooks carry, in the form of Standard Webhooks 1.0: type, timestamp, data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import orjson

from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.derived.achievements import Achievement
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.derived.webhooks import WebhookEvent
from gateway.ledger.moderation.late_queues import LateCase
from gateway.runtime.clock import rfc3339
from policies.vocabulary import REMARKS, Reason, State

DECIDED: Final = frozenset(State) - {State.RECEIVED, State.PENDING}
"""States that follow from a decision."""


class EventType(StrEnum):
    """The types of events. Names are stable; a type always has the same data."""

    STANDING_CHANGED = "standing.changed"
    RANK_CHANGED = "rank.changed"
    ACHIEVEMENT_REACHED = "achievement.reached"
    SUBMISSION_DECIDED = "submission.decided"
    SUBMISSION_APPEALED = "submission.appealed"
    CASE_HELD = "case.held"
    QUEUE_LATE = "queue.late"
    TEST = "webhook.test"


def standing_changed(board: str, change: Mutation) -> WebhookEvent:
    """Build the event of a changed standing in a window, or of one that is gone."""
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
    return _event(EventType.STANDING_CHANGED, board, change.at_ms, data, *key)


def rank_changed(board: str, change: Mutation) -> WebhookEvent:
    """Build the event of a rank that changed with the player's own standing."""
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
    return _event(EventType.RANK_CHANGED, board, change.at_ms, data, *key)


def achievement_reached(reached: Achievement) -> WebhookEvent:
    """Build the event of a player who first came into the first ten of a window."""
    data = {
        "board": reached.board,
        "window": reached.window,
        "player": reached.player,
        "rank": reached.rank,
        "submission": reached.submission_id,
        "seq": reached.seq,
    }
    key = (reached.board, reached.window, reached.player)
    return _event(EventType.ACHIEVEMENT_REACHED, reached.board, reached.at_ms, data, *key)


def submission_decided(event: LoggedEvent, message: str | None = None) -> WebhookEvent:
    """Build the event of a decided submission. Its reason is the coarse class that the player sees.

    `message` is the class of what a moderator told the player, which under a ban is nothing.
    """
    return _of_submission(
        EventType.SUBMISSION_DECIDED,
        event,
        state=event.to_state.value,
        was_state=event.from_state.value,
        reason=event.reason.player_class,
        message=None if event.reason is Reason.BANNED else message,
    )


def submission_appealed(event: LoggedEvent) -> WebhookEvent:
    """Build the event of a player's appeal against the decision on a submission."""
    return _of_submission(EventType.SUBMISSION_APPEALED, event, state=event.to_state.value)


def case_held(event: LoggedEvent) -> WebhookEvent:
    """Build the event of a submission that waits for a moderator, with the reason that moderators see."""
    return _of_submission(EventType.CASE_HELD, event, reason=event.reason.value)


def queue_late(case: LateCase, *, now_ms: int) -> WebhookEvent:
    """Build the event of a board whose oldest waiting case has grown older than it may be."""
    data = {
        "board": case.board,
        "submission": case.submission_id,
        "opened_at": rfc3339(case.opened_at_ms),
        "late_at": rfc3339(case.late_at_ms),
    }
    key = (case.board, case.submission_id, case.late_at_ms)
    return _event(EventType.QUEUE_LATE, case.board, now_ms, data, *key)


def _of_submission(kind: EventType, event: LoggedEvent, **facts: str | None) -> WebhookEvent:
    subject = {
        "board": event.board,
        "submission": event.submission_id,
        "player": event.player,
        "score": event.score,
    }
    return _event(kind, event.board, event.at_ms, {**subject, **facts, "seq": event.seq}, event.seq)


def events_of(event: LoggedEvent, message: str | None = None) -> Iterator[WebhookEvent]:
    """Build the events of what was decided on a submission or appealed; none for anything else."""
    if event.reason is Reason.APPEALED:
        yield submission_appealed(event)
    elif event.to_state in DECIDED and event.reason not in REMARKS:
        yield submission_decided(event, message)
        if event.to_state is State.HELD:
            yield case_held(event)


def trial(board: str, *, now_ms: int) -> WebhookEvent:
    """Build an event that tests an endpoint."""
    return _event(EventType.TEST, board, now_ms, {"board": board}, now_ms)


def _event(kind: EventType, board: str, at_ms: int, data: dict[str, Any], *key: str | int) -> WebhookEvent:
    """Build an event. Its id depends only on what happened, so a repeated event has the same id."""
    digest = hashlib.sha256(orjson.dumps([kind.value, *key])).hexdigest()
    body = {"type": kind.value, "timestamp": rfc3339(at_ms), "data": data}
    return WebhookEvent(f"evt_{digest[:32]}", board, kind.value, orjson.dumps(body))
