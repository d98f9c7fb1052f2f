"""Reads for judging promoted runs again: runs, and other scores of their players."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, select, tuple_

from gateway.ledger.queries import load_submission, newest_events
from gateway.ledger.records import StoredRecording, StoredSubmission
from gateway.ledger.schema import is_in, recordings, submissions
from gateway.ledger.submission_rows import stats_from
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.ranking import Ranking, ReachedScore
from policies.vocabulary import State
from policies.windows import Window

_s = submissions.c

_PROMOTED = Query(
    select(_s.submission_id)
    .where(
        is_in(State.PROMOTED),
        _s.board == bindparam("board"),
        _s.build == bindparam("build"),
        tuple_(_s.achieved_at_ms, _s.seq) > tuple_(bindparam("achieved_at_ms"), bindparam("after")),
    )
    .order_by(_s.achieved_at_ms, _s.seq)
    .limit(bindparam("count"))
)
"""Ordered as its index, `submissions_promoted_of_build`, so that no page sorts the rest of a build."""
_RECORDING = Query(
    select(recordings.c.digest, recordings.c.size_bytes, recordings.c.body).where(
        recordings.c.digest == bindparam("digest")
    )
)
_COUNTING = Query(
    select(_s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats).where(
        is_in(State.PROMOTED),
        _s.board == bindparam("board"),
        _s.player == bindparam("player"),
        _s.achieved_at_ms >= bindparam("begin"),
        _s.achieved_at_ms < bindparam("end"),
    )
)


@dataclass(frozen=True, slots=True)
class PromotedRun:
    """A promoted submission, its recording if it has one, and its newest event.

    What only a ban revokes is promoted, for the reason for which it would count.
    """

    submission: StoredSubmission
    recording: StoredRecording | None
    newest_event: int


def promoted_of_build(
    board: str, build: str, *, after: tuple[int, int], count: int
) -> Operation[list[PromotedRun]]:
    """Return promoted runs of a build on a board, in the order in which they were achieved.

    `after` is the instant (Unix ms) and the sequence number of the run before the first.
    """
    achieved_at_ms, seq = after

    async def work(tx: Transaction) -> list[PromotedRun]:
        rows = await tx.rows(
            _PROMOTED, board=board, build=build, achieved_at_ms=achieved_at_ms, after=seq, count=count
        )
        return [await load_run(tx, row[0]) for row in rows]

    return work


async def load_run(tx: Transaction, submission_id: str) -> PromotedRun:
    """Return a run as it is now, whatever its state, inside a transaction."""
    submission = await load_submission(tx, submission_id)
    newest = (await newest_events(tx, [submission_id])).get(submission_id)
    assert submission is not None
    assert newest is not None
    if submission.recording_digest is None:
        return PromotedRun(submission, None, newest)
    rows = await tx.rows(_RECORDING, digest=submission.recording_digest)
    return PromotedRun(submission, StoredRecording(*rows[0]) if rows else None, newest)


def counting_in(ranking: Ranking, player: str, window: Window) -> Operation[list[ReachedScore]]:
    """Return each promoted submission of a player in a window, in no order."""
    span = {"begin": window.begin_ms, "end": window.end_ms}

    async def work(tx: Transaction) -> list[ReachedScore]:
        rows = await tx.rows(_COUNTING, board=ranking.policy.board, player=player, **span)
        return [
            ReachedScore(score, at_ms, seq, submission_id, ranking.ties(stats_from(stats)))
            for score, at_ms, seq, submission_id, stats in rows
        ]

    return work
