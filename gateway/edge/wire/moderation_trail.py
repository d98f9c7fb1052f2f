"""The answers of the audit trail."""

from __future__ import annotations

from typing import Any

from gateway.edge.wire.fields import Answer


class TrailEvent(Answer):
    """Something a moderator did: the event `seq` of the sealed log.

    `submission` and `player` are null where it concerns none, `board` where it concerns no board or all of
    them. `meaning` says the reason in words. `detail` is what the event recorded: code, note, message.
    """

    seq: int
    at: str
    moderator: str
    reason: str
    meaning: str
    from_state: str
    to_state: str
    board: str | None
    player: str | None
    submission: str | None
    detail: dict[str, Any]


class TrailPageShown(Answer):
    """A page of the audit trail, newest first. It may be short although more follows: `next` says so."""

    events: list[TrailEvent]
    next: str | None
