"""Cases in the transaction that decides: opened and closed with the event, and left to whoever is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.ledger import queries
from gateway.ledger.moderation import late_queues
from gateway.ledger.moderation.cases import (
    CaseKind,
    StoredCase,
    end_case,
    new_case,
    open_cases,
    put_case,
)
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Transaction
from gateway.settlement.case_history import (
    UNDOES,
    CaseHistory,
    appealed_decision,
    first_approval,
    open_question,
    standing_event,
)
from gateway.settlement.decision_records import Decision
from policies.errors import CaseClaimed, StateConflict
from policies.vocabulary import REMARKS, Reason, State

MODERATOR: Final = "moderator:"
"""Prefix of a moderator as the actor of an event. The account's name follows."""


def claim_conflict(case: StoredCase | None, decision: Decision) -> StateConflict | None:
    """Return the conflict of a moderator's decision on a case that another one is in."""
    if not decision.actor.startswith(MODERATOR):
        return None
    moderator = decision.actor.removeprefix(MODERATOR)
    if case is None or case.kind is CaseKind.CHECK:
        return None  # a decision on what a check hides ends the check, whoever is in it
    if case.is_taken_from(moderator, now_ms=decision.at_ms):
        return CaseClaimed(f"`{case.claimed_by}` is in the case")
    return None


DecidedSubmission = tuple[StoredSubmission, Decision]
"""A submission as it was before a decision on it, and the decision."""


async def keep_cases(
    tx: Transaction, cases: Mapping[str, StoredCase], decided: Sequence[DecidedSubmission]
) -> None:
    """Have the cases of submissions be what their events say, of which the decisions are the newest.

    `cases` are those that are open. No submission is named twice. Whoever is in a case leaves it with a
    remark, but for the player's answer.
    """
    changed = [each for each in decided if each[0].state is not State.PENDING]  # which never has a case
    asked = [submission.submission_id for submission, decision in changed if _follows_history(decision)]
    histories = await queries.load_histories(tx, asked) if asked else {}
    opened = [
        new_case(submission, decision.reason, decision.at_ms)
        for submission, decision in decided
        if submission.state is State.PENDING and decision.to_state is State.HELD
    ]
    for submission, decision in changed:
        case, due = cases.get(submission.submission_id), None
        if submission.submission_id in histories:
            due = _case_due(submission, histories[submission.submission_id], decision.at_ms)
        is_remark = decision.reason in REMARKS
        if is_remark and case is not None and due is not None and case.kind is due.kind:
            await _keep_open(tx, case, due, decision)
            continue
        if case is not None:
            await end_case(tx, case)
        if due is not None:
            opened.append(due)
    if opened:
        await open_cases(opened)(tx)


def _follows_history(decision: Decision) -> bool:
    """Return whether only the events say which case the submission of a decision has."""
    return decision.reason in REMARKS or decision.to_state is State.HELD or UNDOES in decision.detail


async def _keep_open(tx: Transaction, case: StoredCase, due: StoredCase, remark: Decision) -> None:
    await put_case(tx, _after_remark(case, due, remark))
    if due.waits_until_ms < case.waits_until_ms:
        ended = {"put_off_ms": case.waits_until_ms, "now_ms": remark.at_ms}
        await late_queues.go_on(tx, case.submission_id, **ended)


def _after_remark(case: StoredCase, due: StoredCase, remark: Decision) -> StoredCase:
    if remark.reason is not Reason.QUESTION_ANSWERED:
        case = case._replace(claimed_by="", claimed_until_ms=0)
    needs_senior = max(case.needs_senior, due.needs_senior)
    return case._replace(waits_until_ms=due.waits_until_ms, not_for=due.not_for, needs_senior=needs_senior)


def _case_due(submission: StoredSubmission, history: CaseHistory, at_ms: int) -> StoredCase | None:
    """Return the case that a submission with these events has, None if it waits for nobody."""
    stands, against, approval = standing_event(history), appealed_decision(history), first_approval(history)
    if stands["to"] == State.HELD:
        case = new_case(submission, Reason(stands["reason"]), at_ms)
    elif against is not None:
        case = new_case(submission, Reason.APPEALED, at_ms)._replace(kind=CaseKind.APPEAL)
    elif approval is not None:
        case = new_case(submission, Reason.APPROVED_ONCE, at_ms)._replace(kind=CaseKind.APPROVAL)
    else:
        return None
    question = open_question(history)
    actors = {event["actor"] for event in (against, approval) if event is not None}
    names = sorted(actor.removeprefix(MODERATOR) for actor in actors if actor.startswith(MODERATOR))
    return case._replace(
        waits_until_ms=question["detail"]["answer_by_ms"] if question else 0,
        not_for=" ".join(names),
        needs_senior=int(bool(actors)),
    )
