"""The rows that a group of new submissions adds to the ledger, and the receipts of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import orjson
from sqlalchemy import Table

from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.schema import commitments, events, outbox, recordings, submissions
from gateway.ledger.transaction import Cells
from policies.vocabulary import State
from validators.judge import RULES_VERSION
from validators.verification_priority import UNASSESSED

RECEIPTS: Final = (
    "SELECT submission_id, board, coalesce(played_by, player), score, initial_state, nonce, content_digest "
    "FROM submissions WHERE submission_id"
)
"""Selects what `receipt_from` reads. Each database adds its own way to bind a list of ids."""

NEXT_SEQ: Final = "SELECT coalesce(max(seq), 0) + 1 FROM events"
"""Selects the sequence number of the next event. Only a writer that is alone may use it."""


class AppendPlan(NamedTuple):
    """One receipt per submission of a group, in order, and the submissions that are still to be written."""

    receipts: list[Receipt]
    fresh: list[NewSubmission]


def plan_append(group: Sequence[NewSubmission], known: Mapping[str, Receipt]) -> AppendPlan:
    """Return the plan for a group, given the receipts of those ids that the ledger has.

    A submission whose id is taken, in the ledger or earlier in the group, changes nothing. Its receipt is
    that of the submission that has the id.
    """
    receipts = dict(known)
    plan = AppendPlan([], [])
    for new in group:
        receipt = receipts.get(new.submission.submission_id)
        if receipt is None:
            plan.fresh.append(new)
            receipt = _receipt_of(new)
            receipts[receipt.submission_id] = receipt._replace(is_new=False)
        plan.receipts.append(receipt)
    return plan


def rows_of(first_seq: int, fresh: Sequence[NewSubmission]) -> Iterator[tuple[Table, list[Cells]]]:
    """Yield each table with its rows. Submissions are numbered from `first_seq`.

    Equal recordings are stored once, so only rows of recordings may be there already.
    """
    numbered = list(enumerate(fresh, start=first_seq))
    # A submission that is rejected at once is never judged again: of its recording only the digest is kept.
    recorded = [
        (seq, new)
        for seq, new in numbered
        if new.recording_digest and new.judgement.state is not State.REJECTED
    ]
    yield recordings, [_recording_row(seq, new) for seq, new in recorded if new.reveal_ms is None]
    yield commitments, [_commitment_row(seq, new) for seq, new in recorded if new.reveal_ms is not None]
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
        str(judgement.state),
        str(judgement.state),
        str(judgement.reason),
        0,
        0,
        new.board_content,
        None,
    )


def _event_row(seq: int, new: NewSubmission) -> Cells:
    run, judgement = new.submission, new.judgement
    return (
        seq,
        run.submission_id,
        run.board,
        run.player,
        str(State.RECEIVED),
        str(judgement.state),
        "edge",
        str(judgement.reason),
        new.policy_digest,
        RULES_VERSION,
        "{}",
        run.received_at_ms,
    )


def _outbox_row(seq: int, new: NewSubmission) -> Cells:
    run = new.submission
    return (seq, "verify", run.submission_id, run.board, run.player, run.received_at_ms, UNASSESSED, 0)
