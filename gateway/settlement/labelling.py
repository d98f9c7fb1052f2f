"""The labels that decisions on cases leave, in their own transaction, and those that they overturn."""

from __future__ import annotations

from itertools import takewhile

from gateway.ledger.moderation.labels import (
    AGAINST,
    IN_FAVOUR,
    DecisionLabel,
    add_label,
    kept_findings,
    let_stand_again,
    overturn_label,
)
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Transaction
from gateway.runtime.telemetry import label_of
from gateway.settlement.case_history import (
    UNDOES,
    CaseEvent,
    CaseHistory,
    decided_reason,
    found_by_replay,
    waits_since_ms,
    without_bans,
)
from gateway.settlement.decision_records import Decision
from gateway.settlement.held_cases import MODERATOR
from policies.decision_codes import DecisionCode, DecisionKind
from policies.moderation import Moderation


async def label_decision(
    tx: Transaction,
    moderation: Moderation,
    submission: StoredSubmission,
    history: CaseHistory,
    decision: Decision,
    seq: int,
) -> None:
    """Store the label of a decision whose event has this number, and mark the one that it overturns.

    `history` has the events before it. An undo says nothing of the run.
    """
    if undone := decision.detail.get(UNDOES):
        await label_undo(tx, history, undone, seq)
        return
    if decision.reason not in IN_FAVOUR | AGAINST:
        return
    for contradicted in _contradicted(history, is_in_favour=decision.reason in IN_FAVOUR):
        await overturn_label(tx, contradicted, by=seq)
    event = {
        "seq": seq,
        "actor": decision.actor,
        "reason": decision.reason,
        "detail": decision.detail,
        "at_ms": decision.at_ms,
    }
    codes = moderation.codes_of(DecisionKind(decision.detail["decision"]))
    await add_label(tx, label_from(submission, history, event, codes.get(decision.detail["code"])))


async def label_undo(tx: Transaction, history: CaseHistory, undone: int, seq: int) -> None:
    """Mark the label of an undone decision as overturned, and let what that had overturned stand again."""
    await overturn_label(tx, undone, by=seq)
    before = [event for event in history if event["seq"] <= undone]
    for contradicted in _contradicted(before[:-1], is_in_favour=decided_reason(before[-1]) in IN_FAVOUR):
        await let_stand_again(tx, contradicted, by=undone)


def label_from(
    submission: StoredSubmission, before: CaseHistory, event: CaseEvent, meant: DecisionCode | None
) -> DecisionLabel:
    """Return the label of a decision's event, which tells nothing that is not in the log.

    `before` has the events of the submission before it, and `meant` what its code says in the policy.
    """
    found = (*submission.findings, *found_by_replay(before))
    return DecisionLabel(
        event["seq"],
        submission.submission_id,
        submission.board,
        label_of(submission.board),
        submission.build,
        event["actor"].removeprefix(MODERATOR),
        decided_reason(event),
        str(event["detail"]["code"]),
        meant.is_cheat if meant else None,
        kept_findings(found),
        waits_since_ms(before),
        event["at_ms"],
    )


def overturned_in(history: CaseHistory) -> dict[int, int]:
    """Return which decisions of a submission are overturned, by their events, and the event that did it."""
    overturned: dict[int, int] = {}
    for at, event in enumerate(history):
        is_decision = event["actor"].startswith(MODERATOR)
        if undone := event["detail"].get(UNDOES):  # an operator reverses what moderators decided, too
            overturned.setdefault(undone, event["seq"])
            overturned = {seq: by for seq, by in overturned.items() if by != undone}
        elif is_decision and decided_reason(event) in IN_FAVOUR | AGAINST:
            is_in_favour = decided_reason(event) in IN_FAVOUR
            for contradicted in _contradicted(history[:at], is_in_favour=is_in_favour):
                overturned.setdefault(contradicted, event["seq"])
    return overturned


def _contradicted(history: CaseHistory, *, is_in_favour: bool) -> list[int]:
    """Return the events of the last decisions that say the contrary of a new one, but those undone."""
    undone = {event["detail"].get("undoes") for event in history}
    said = (
        event
        for event in reversed(without_bans(history))
        if event["reason"] in IN_FAVOUR | AGAINST and "undoes" not in event["detail"]
    )
    standing = (event for event in said if event["seq"] not in undone)
    return [
        event["seq"]
        for event in takewhile(lambda event: (event["reason"] in IN_FAVOUR) != is_in_favour, standing)
    ]
