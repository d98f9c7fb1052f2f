"""The labels that decisions on cases leave, in their own transaction, and those that they overturn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from gateway.ledger import queries
from gateway.ledger.moderation.labels import DecisionLabel, add_label, overturn_label
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Transaction
from gateway.runtime.telemetry import label_of
from gateway.settlement.case_history import CaseHistory, newest_appeal, standing_event
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.settle import Decision
from policies.decision_codes import DecisionKind
from policies.moderation import Moderation
from policies.vocabulary import Finding, Reason, Severity

_LABELLED: Final = frozenset(
    {
        Reason.APPROVED,
        Reason.REJECTED_BY_MODERATOR,
        Reason.REVOKED_BY_MODERATOR,
        Reason.REINSTATED,
        Reason.APPEAL_GRANTED,
        Reason.APPEAL_DENIED,
    }
)
"""Reasons of decisions that say something of a run."""

_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


async def label_decision(
    tx: Transaction,
    moderation: Moderation,
    submission: StoredSubmission,
    history: CaseHistory,
    decision: Decision,
    seq: int,
) -> None:
    """Store the label of a decision whose event has this number, and mark the one that it overturns.

    `history` has the events before it. An undo overturns what it undoes and says nothing of the run.
    """
    if undone := decision.detail.get("undoes"):
        await overturn_label(tx, undone, by=seq)
        return
    if decision.reason not in _LABELLED:
        return
    stands = standing_event(history)
    if decision.reason is Reason.APPEAL_GRANTED:
        await overturn_label(tx, stands["seq"], by=seq)
    replayed = await queries.replay_findings([submission.submission_id])(tx)
    found = chain(submission.findings, replayed.get(submission.submission_id, ()))
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
            decision.reason.value,
            code,
            meant.is_cheat if meant else None,
            _worst(found),
            (newest_appeal(history) or stands)["at_ms"],
            decision.at_ms,
        ),
    )


def _worst(findings: chain[Finding]) -> Mapping[str, str]:
    """Return the worst severity of each validator's findings."""
    worst: dict[str, Severity] = {}
    for finding in findings:
        before = worst.get(finding.validator, finding.severity)
        worst[finding.validator] = max(before, finding.severity, key=_RANKS.__getitem__)
    return {validator: severity.value for validator, severity in worst.items()}
