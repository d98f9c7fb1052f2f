"""The labels that decisions on cases leave, in their own transaction, and those that they overturn."""

from __future__ import annotations

from itertools import takewhile

from gateway.ledger import queries
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
from gateway.settlement.case_history import CaseHistory, newest_appeal, standing_event
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.settle import Decision
from policies.decision_codes import DecisionKind
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

    `history` has the events before it. An undo overturns what it undoes, lets what that had overturned stand
    again, and says nothing of the run.
    """
    if undone := decision.detail.get("undoes"):
        await overturn_label(tx, undone, by=seq)
        before = [event for event in history if event["seq"] <= undone]
        for contradicted in _contradicted(before[:-1], is_in_favour=before[-1]["reason"] in IN_FAVOUR):
            await let_stand_again(tx, contradicted, by=undone)
        return
    if decision.reason not in IN_FAVOUR | AGAINST:
        return
    for contradicted in _contradicted(history, is_in_favour=decision.reason in IN_FAVOUR):
        await overturn_label(tx, contradicted, by=seq)
    stands = standing_event(history)
    replayed = await queries.replay_findings([submission.submission_id])(tx)
    found = (*submission.findings, *replayed.get(submission.submission_id, ()))
    code = str(decision.detail["code"])
    meant = moderation.codes_of(DecisionKind(decision.detail["decision"])).get(code)
    await add_label(
        tx,
        DecisionLabel(
            seq,
            submission.submission_id,
            submission.board,
            label_of(submission.board),
            submission.build,
            decision.actor.removeprefix(MODERATOR),
            decision.reason,
            code,
            meant.is_cheat if meant else None,
            kept_findings(found),
            (newest_appeal(history) or stands)["at_ms"],
            decision.at_ms,
        ),
    )


def _contradicted(history: CaseHistory, *, is_in_favour: bool) -> list[int]:
    """Return the events of the last decisions that say the contrary of a new one, but those undone."""
    undone = {event["detail"].get("undoes") for event in history}
    said = (
        event
        for event in reversed(history)
        if event["reason"] in IN_FAVOUR | AGAINST and "undoes" not in event["detail"]
    )
    standing = (event for event in said if event["seq"] not in undone)
    return [
        event["seq"]
        for event in takewhile(lambda event: (event["reason"] in IN_FAVOUR) != is_in_favour, standing)
    ]
