"""What the events of a submission say of its case: how it stands, what was asked, and what was appealed.

Each function takes all events of a submission, oldest first, as `gateway.ledger.queries.history_of` returns
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.ledger.moderation.bans import ACTOR, UNKNOWN, WAS
from gateway.ledger.submission_rows import findings_from
from policies.vocabulary import REMARKS, Finding, Reason, State

CaseEvent = Mapping[str, Any]
CaseHistory = Sequence[CaseEvent]

DAY_MS: Final = 86_400_000

UNDOES: Final = "undoes"
"""The key, in the detail of an event, of the event that it undoes."""

_ON_APPROVALS: Final = frozenset({Reason.APPROVED_ONCE, Reason.APPROVAL_DECLINED, Reason.APPEAL_DENIED})
"""The remarks that make a first approval, or end it."""

_JUDGES: Final = frozenset({"edge", "replay", "budget"})
_NAMED_JUDGES: Final = ("moderator:", "server:")
"""The actors against whose decisions a player may appeal: not an operator, and no ban."""


def found_by_replay(history: CaseHistory) -> Sequence[Finding]:
    """Return the findings of the latest replay."""
    newest = next((event for event in reversed(history) if event["actor"] == "replay"), None)
    return () if newest is None else findings_from(newest["detail"].get("findings", ())) or ()


def without_bans(history: CaseHistory) -> CaseHistory:
    """Return the events as they would be had nobody been banned.

    A ban's own events are left out, and what was promoted under a ban is promoted.
    """
    events: list[CaseEvent] = []
    for event in history:
        if event["actor"] == ACTOR and event["reason"] != Reason.RECORD_UNREADABLE:
            continue
        from_state = events[-1]["to"] if events else event["from"]
        to_state = State.PROMOTED.value if event["reason"] == Reason.BANNED else event["to"]
        events.append({**event, "from": from_state, "to": to_state, "reason": decided_reason(event)})
    return events


def decided_reason(event: CaseEvent) -> Reason:
    """Return the reason of a decision, also of one that a ban turned into a revocation."""
    is_of_ban = event["reason"] == Reason.BANNED
    return Reason(event["detail"].get(WAS, UNKNOWN) if is_of_ban else event["reason"])


def reason_without_bans(history: CaseHistory) -> Reason:
    """Return the reason that the submission would have had nobody been banned."""
    reasons: Iterator[Reason] = (event["reason"] for event in reversed(without_bans(history)))
    return next(reason for reason in reasons if reason not in REMARKS)


def as_it_stands(history: CaseHistory) -> CaseHistory:
    """Return the events as they would be without bans, and without decisions that were undone."""
    events = without_bans(history)
    undone = {event["detail"].get(UNDOES) for event in events}
    return [event for event in events if event["seq"] not in undone and UNDOES not in event["detail"]]


def standing_event(history: CaseHistory) -> CaseEvent:
    """Return the event by which the submission stands as it does: the newest that is no remark."""
    return _newest_change(as_it_stands(history))


def _newest_change(history: CaseHistory) -> CaseEvent:
    return next(event for event in reversed(history) if event["reason"] not in REMARKS)


def remarks(history: CaseHistory) -> CaseHistory:
    """Return what was remarked since then, the newest first."""
    events = as_it_stands(history)
    stands = _newest_change(events)["seq"]
    return [event for event in reversed(events) if event["seq"] > stands]


def first_approval(history: CaseHistory) -> CaseEvent | None:
    """Return the approval that waits for a second one, None without any, and once it was declined."""
    newest = next((event for event in remarks(history) if event["reason"] in _ON_APPROVALS), None)
    return newest if newest and newest["reason"] == Reason.APPROVED_ONCE else None


def open_question(history: CaseHistory) -> CaseEvent | None:
    """Return the newest question to the player, None if it was answered or there is none."""
    for event in (*remarks(history), standing_event(history)):
        if event["reason"] == Reason.QUESTION_ANSWERED:
            return None
        if "answer_by_ms" in event["detail"]:
            return event
    return None


def newest_answer(history: CaseHistory) -> CaseEvent | None:
    """Return the player's newest answer since the submission stands as it does, None without any."""
    return next((event for event in remarks(history) if event["reason"] == Reason.QUESTION_ANSWERED), None)


def newest_appeal(history: CaseHistory) -> CaseEvent | None:
    """Return the player's appeal against how the submission stands, None without any."""
    return next((event for event in remarks(history) if event["reason"] == Reason.APPEALED), None)


def waits_since_ms(history: CaseHistory) -> int:
    """Return since when (Unix ms) the submission waits, if it does: a decision undone, it waits anew."""
    newest = _newest_change(without_bans(history))
    return int(max(newest, newest_appeal(history) or newest, key=lambda event: int(event["seq"]))["at_ms"])


def denial_of_appeal(history: CaseHistory) -> CaseEvent | None:
    """Return the event that denied the player's appeal, None if none did."""
    return next((event for event in remarks(history) if event["reason"] == Reason.APPEAL_DENIED), None)


def appealed_decision(history: CaseHistory) -> CaseEvent | None:
    """Return the decision that an appeal is against, None once somebody has decided on the appeal.

    Whoever holds the submission meanwhile, and asks its player, has not decided.
    """
    against: CaseEvent | None = None
    stands = history[0]
    for event in as_it_stands(history):
        if event["reason"] not in REMARKS:
            stands = event
            against = against if event["to"] == State.HELD else None
        elif event["reason"] == Reason.APPEALED:
            against = stands
        elif event["reason"] == Reason.APPEAL_DENIED:
            against = None
    return against


def has_open_appeal(history: CaseHistory) -> bool:
    """Return whether an appeal waits for a moderator, who has not held the submission since."""
    return appealed_decision(history) is not None and standing_event(history)["to"] != State.HELD


def appeal_until_ms(history: CaseHistory, days: int) -> int | None:
    """Return until when (Unix ms) the player may appeal, None if there is nothing to appeal against.

    That is a rejection or a revocation by a moderator, a game server, a replay or the checks of a claim.
    """
    stands = standing_event(history)
    is_final = State(stands["to"]) in {State.REJECTED, State.REVOKED}
    is_theirs = stands["actor"] in _JUDGES or stands["actor"].startswith(_NAMED_JUDGES)
    if not days or not is_final or not is_theirs or stands["reason"] == Reason.CORRECTED:
        return None
    return int(_newest_change(without_bans(history))["at_ms"]) + days * DAY_MS


def message_to_player(history: CaseHistory) -> str | None:
    """Return what a moderator last told the player of the decision. None if nothing, or under a ban."""
    if _newest_change(history)["reason"] == Reason.BANNED:
        return None
    newest = _newest_change(without_bans(history))  # which may undo one, and say why
    stands = newest if newest["detail"].get("message") else standing_event(history)
    told = max(stands, denial_of_appeal(history) or stands, key=lambda event: int(event["seq"]))
    is_question = "answer_by_ms" in told["detail"]
    message = None if is_question else told["detail"].get("message")
    return message if isinstance(message, str) else None
