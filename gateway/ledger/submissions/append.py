"""What a group of new submissions is in the ledger: the receipts of all, and the rows of those that are fresh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Table

from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.schema import commitments, events, outbox, recordings, submissions
from policies.vocabulary import State
from validators.judge import RULES_VERSION
from validators.verification_priority import UNASSESSED

Cells = tuple[Any, ...]


class AppendPlan(NamedTuple):
    """One receipt per submission of a group, in order, and the submissions that are still to be written."""

    receipts: list[Receipt]
    fresh: list[NewSubmission]


def plan_append(group: Sequence[NewSubmission], known: Mapping[str, Receipt]) -> AppendPlan:
    """The plan for a group, given the receipts of those ids that the ledger has.

    A submission whose id is already there, in the ledger or earlier in the group, changes nothing: its receipt tells
    what stands there instead.
    """
    stands = dict(known)
    plan = AppendPlan([], [])
    for new in group:
        receipt = stands.get(new.submission.submission_id)
        if receipt is None:
            plan.fresh.append(new)
            receipt = _receipt_of(new)
            stands[receipt.submission_id] = receipt._replace(is_new=False)
        plan.receipts.append(receipt)
    return plan


def rows_of(first_seq: int, fresh: Sequence[NewSubmission]) -> Iterator[tuple[Table, list[Cells]]]:
    """The rows of each table, in the order of its columns; submissions are numbered from `first_seq`.

    Equal recordings are stored once: theirs are the only rows that may already be there. Of what is rejected at once the
    digest of its recording stands in its submission, and nothing else of it is kept.
    """
    numbered = list(enumerate(fresh, start=first_seq))
    brought = [
        (seq, new)
        for seq, new in numbered
        if new.recording_digest and new.judgement.state is not State.REJECTED
    ]
    yield recordings, [_recording_row(seq, new) for seq, new in brought if new.reveal_ms is None]
    yield commitments, [_commitment_row(seq, new) for seq, new in brought if new.reveal_ms is not None]
    yield submissions, [_submission_row(seq, new) for seq, new in numbered]
    yield events, [_event_row(seq, new) for seq, new in numbered]
    yield outbox, [_outbox_row(seq, new) for seq, new in numbered if new.judgement.state is State.PENDING]


def _receipt_of(new: NewSubmission) -> Receipt:
    run = new.submission
    return Receipt(
        run.submission_id,
        run.board,
        run.player,
        run.claim.score,
        new.judgement.state,
        new.nonce,
        new.content_digest,
        is_new=True,
    )


def _recording_row(seq: int, new: NewSubmission) -> Cells:
    return (new.recording_digest, new.recording_bytes, new.recording, seq)


def _commitment_row(seq: int, new: NewSubmission) -> Cells:
    return (seq, new.recording_bytes, new.reveal_ms, None, None)


def _submission_row(seq: int, new: NewSubmission) -> Cells:
    run, judgement = new.submission, new.judgement
    return (
        seq,
        run.submission_id,
        run.board,
        run.player,
        new.credential,
        new.nonce,
        new.content_digest,
        run.build,
        run.seed,
        run.issued_at_ms,
        run.received_at_ms,
        run.received_at_ms if new.achieved_at_ms is None else new.achieved_at_ms,
        run.claim.score,
        run.claim.ticks,
        orjson.dumps(run.claim.stats).decode(),
        new.details,
        new.recording_digest,
        new.simulator,
        run.runs_opened,
        run.runs_submitted,
        orjson.dumps([finding.as_dict() for finding in judgement.findings]).decode(),
        judgement.state.value,
        judgement.state.value,
        judgement.reason.value,
        0,
        0,
    )


def _event_row(seq: int, new: NewSubmission) -> Cells:
    run, judgement = new.submission, new.judgement
    return (
        seq,
        run.submission_id,
        run.board,
        run.player,
        State.RECEIVED.value,
        judgement.state.value,
        "edge",
        judgement.reason.value,
        new.policy_digest,
        RULES_VERSION,
        "{}",
        run.received_at_ms,
    )


def _outbox_row(seq: int, new: NewSubmission) -> Cells:
    run = new.submission
    return (seq, "verify", run.submission_id, run.board, run.player, run.received_at_ms, UNASSESSED, 0)
