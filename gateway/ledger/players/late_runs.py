"""Submissions that count for another player: those that a merge moves, and those that come after it.

A ticket names who opened the run, and a merge may come before its end. The submission is stored as it was
signed, and moved by an event in the same commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from gateway.ledger.players.merges import ACTOR, MERGE, Merge, merges_in_force, move
from gateway.ledger.queries import load_submission, newest_seq
from gateway.ledger.records import NewSubmission, StoredSubmission
from gateway.ledger.schema import events
from gateway.ledger.transaction import Operation, Transaction
from policies.vocabulary import Reason
from validators.judge import RULES_VERSION

FROM: Final = "from"
"""The key, in the detail of an event that moves a submission, of the player for whom it counted before."""


def attribute_appended(appended: Sequence[NewSubmission]) -> Operation[None]:
    """Move those of the submissions just appended whose players were merged into others."""

    async def work(tx: Transaction) -> None:
        in_force = await merges_in_force(tx, [new.submission.player for new in appended])
        for new in appended if in_force else ():
            run = new.submission
            merge = in_force.get(run.player)
            submission = await load_submission(tx, run.submission_id) if merge else None
            if merge and submission:
                at_ms = run.received_at_ms
                await move_submission(tx, merge, submission, policy=new.policy_digest, at_ms=at_ms)

    return work


async def move_submission(
    tx: Transaction, merge: Merge, submission: StoredSubmission, *, policy: str, at_ms: int
) -> None:
    """Let a submission count for whom a merge, or its undoing, says, and store the event."""
    reason = Reason.MERGED if merge.is_in_force else Reason.UNMERGED
    event = {
        "seq": await newest_seq()(tx) + 1,
        "submission_id": submission.submission_id,
        "board": submission.board,
        "player": merge.taker,
        "from_state": submission.state.value,
        "to_state": submission.state.value,
        "actor": ACTOR,
        "reason": reason.value,
        "policy": policy,
        "rules_version": RULES_VERSION,
        "detail": orjson.dumps({MERGE: merge.merge_id, FROM: merge.giver}).decode(),
        "at_ms": at_ms,
    }
    await tx.insert(events, [tuple(event[column.name] for column in events.columns)])
    first = merge.source if merge.is_in_force else None
    await move(tx, submission.submission_id, submission.seq, to=merge.taker, first=first)
