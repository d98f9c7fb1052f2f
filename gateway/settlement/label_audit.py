"""The audit of labels: each is what its event says, and each decision that says something has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gateway.ledger import queries
from gateway.ledger.ledger import LedgerReads
from gateway.ledger.moderation.labels import (
    AGAINST,
    IN_FAVOUR,
    DecisionLabel,
    events_of_moderators,
    labels_between,
)
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Operation, Transaction
from gateway.settlement.case_history import CaseEvent, CaseHistory, decided_reason
from gateway.settlement.known_answers import REASONS, label_of_answer, seen_before
from gateway.settlement.labelling import label_from, overturned_in
from policies.decision_codes import CODES, DecisionKind
from policies.errors import LedgerTampered
from policies.vocabulary import Reason

PAGE: Final = 200
"""Moderators' events of one read, with the whole histories of their submissions."""

_WORDS: Final = {"label": "policy file"}


class _Page(NamedTuple):
    """Moderators' events in order, the labels up to the last of them, and what these rest on."""

    events: Sequence[CaseEvent]
    labels: Mapping[int, DecisionLabel]
    submissions: Mapping[str, StoredSubmission]
    histories: Mapping[str, CaseHistory]
    upto: int | None


async def check_labels(ledger: LedgerReads) -> int:
    """Count the labels. Raises LedgerTampered with the first that is not what its event says, or lacks."""
    count, after = 0, 0
    while True:
        page = await ledger.read(_page_behind(after))
        overturned = {name: overturned_in(history) for name, history in page.histories.items()}
        by_seq = {event["seq"]: event for event in page.events}
        for seq in sorted(page.labels.keys() | by_seq.keys()):
            if seq not in by_seq:
                raise LedgerTampered(f"the label of event {seq} is of no moderator's event")
            _check(page, by_seq[seq], overturned.get(_submission_of(by_seq[seq]), {}))
        count += len(page.labels)
        if page.upto is None:
            return count
        after = page.upto


def _page_behind(after: int) -> Operation[_Page]:
    async def work(tx: Transaction) -> _Page:
        decided = await events_of_moderators(tx, after, count=PAGE)
        upto = decided[-1]["seq"] if len(decided) == PAGE else None
        found = await labels_between(tx, after, upto)
        names = list(dict.fromkeys([_submission_of(event) for event in decided if is_labelled(event)]))
        histories = {name: await queries.history_of(name)(tx) for name in names}
        submissions = await queries.submissions_listed(names)(tx)
        return _Page(decided, {label.seq: label for label in found}, submissions, histories, upto)

    return work


def _submission_of(event: CaseEvent) -> str:
    """Return the submission that an event is about: an answer to a check names it in its detail."""
    is_answer = event["reason"] == Reason.CHECK_ANSWERED
    return str(event["detail"]["submission"] if is_answer else event["submission_id"])


def is_labelled(event: CaseEvent) -> bool:
    """Return whether a moderator's event leaves a label: a decision with a code, and no undo."""
    detail = event["detail"]
    if event["reason"] == Reason.CHECK_ANSWERED:
        return DecisionKind(detail["decision"]) in REASONS
    says = {"decision", "code"} <= detail.keys() and "undoes" not in detail
    return says and bool(event["submission_id"]) and decided_reason(event) in IN_FAVOUR | AGAINST


def _check(page: _Page, event: CaseEvent, overturned: Mapping[int, int]) -> None:
    seq = event["seq"]
    label = page.labels.get(seq)
    if not is_labelled(event):
        if label is not None:
            raise LedgerTampered(f"the label of event {seq} is of an event that leaves none")
        return
    if label is None:
        raise LedgerTampered(f"the decision of event {seq} has no label")
    submission = page.submissions.get(_submission_of(event))
    if submission is None:
        raise LedgerTampered(f"the label of event {seq} is of a submission that is not there")
    before = [each for each in page.histories[submission.submission_id] if each["seq"] < seq]
    codes = CODES[DecisionKind(event["detail"]["decision"])]
    meant = codes.get(event["detail"]["code"])
    if event["reason"] == Reason.CHECK_ANSWERED:
        seen = seen_before(before, event["detail"]["known"])
        expected = label_of_answer(submission, seen, event, meant)
    else:
        expected = label_from(submission, before, event, meant)._replace(overturned_by=overturned.get(seq))
    if label.code not in codes:  # what a studio's own code says was in the policy of that day
        expected = expected._replace(is_cheat=label.is_cheat)
    for name, stored, derived in zip(DecisionLabel._fields, label, expected, strict=True):
        if stored != derived:
            word = _WORDS.get(name, name)
            raise LedgerTampered(f"the label of event {seq} has another {word} than its event: {stored}")
