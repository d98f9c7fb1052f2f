"""Handles recordings that come after their score: the list of requested ones, and their upload."""

from __future__ import annotations

import hashlib
from typing import Final

from aiohttp import web

from gateway.edge.admission.rate_limits import refuse_large
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import read_octets
from gateway.edge.http.request import player_of
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.players.friends import charge_profile
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.submissions.large_recordings import write_behind_recording
from gateway.edge.wire import outcomes
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredRecording, StoredSubmission
from gateway.runtime.clock import rfc3339
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.telemetry import REVEALS, label_of

REVEALS_LIMIT: Final = 100
"""Most recordings in one list."""


async def list_reveals(request: web.Request) -> web.Response:
    """Return the recordings that the bearer is requested to send."""
    edge, bearer = request.app[EDGE], await player_of(request)
    requested = await edge.ledger.read(
        reveals.recording_requests(bearer.subject, count=REVEALS_LIMIT), ReadKind.PLAYERS
    )
    shown = [
        outcomes.RevealShown(
            submission=reveal.submission_id,
            board=reveal.board,
            recording_digest=_text_of(reveal.digest),
            recording_bytes=reveal.size_bytes,
            reveal_by=rfc3339(reveal.due_at_ms),
        )
        for reveal in requested
    ]
    answer = outcomes.RevealList(player=bearer.subject, reveals=shown)
    return json_response(answer, headers={"Cache-Control": "private, no-store"})


async def reveal_recording(request: web.Request) -> web.Response:
    """Answer 200 once the recording is durable; sending it again changes nothing.

    An unrequested one is not read.
    """
    edge, submission = request.app[EDGE], await _own_submission(request)
    commitment = await edge.ledger.read(reveals.commitment(submission.seq), ReadKind.PLAYERS)
    if commitment is None:
        raise Problem(ProblemType.STATE_CONFLICT, "this submission came without the digest of a recording")
    if commitment.due_at_ms is None and commitment.revealed_at_ms is None:
        raise _unrequested()
    refuse_large(edge, commitment.size_bytes)
    await charge_profile(request, submission.player)
    body = await read_octets(request, commitment.size_bytes)
    if len(body) != commitment.size_bytes or hashlib.sha256(body).digest() != submission.recording_digest:
        raise Problem(
            ProblemType.RECORDING_MISMATCH, f"expected {commitment.size_bytes} bytes with that digest"
        )
    is_new = commitment.revealed_at_ms is None and await _keep(edge, submission, body)
    if not is_new and not await _was_revealed(edge, submission):
        raise _unrequested()
    if is_new:
        REVEALS.labels(label_of(submission.board), "revealed").inc()
    reach(Point.BEFORE_ANSWER)
    answer = outcomes.RecordingRevealed(
        submission=submission.submission_id,
        recording_digest=_text_of(hashlib.sha256(body).digest()),
        recording_bytes=len(body),
    )
    return json_response(answer, headers=replay_header(is_replay=not is_new))


async def _own_submission(request: web.Request) -> StoredSubmission:
    edge, bearer = request.app[EDGE], await player_of(request)
    submission = await edge.ledger.read(
        queries.submission(request.match_info["submission"]), ReadKind.PLAYERS
    )
    if submission is None or bearer.subject not in submission.players:
        raise Problem(ProblemType.NOT_FOUND, "you have no such submission")
    return submission


async def _keep(edge: Edge, submission: StoredSubmission, body: bytes) -> bool:
    """Store the recording and make its verification due.

    Return whether this request did it: another may have been faster, or the submission is settled.
    """
    digest = hashlib.sha256(body).digest()
    is_large = len(body) > edge.recordings.inline_bytes
    recording = StoredRecording(digest, len(body), None if is_large else body)

    async def write() -> bool:
        return await edge.ledger.write(
            reveals.reveal(submission.seq, recording, submission.state, now_ms=edge.clock())
        )

    return await (write_behind_recording(edge, digest, body, write, bool) if is_large else write())


async def _was_revealed(edge: Edge, submission: StoredSubmission) -> bool:
    commitment = await edge.ledger.read(reveals.commitment(submission.seq), ReadKind.PLAYERS)
    return commitment is not None and commitment.revealed_at_ms is not None


def _unrequested() -> Problem:
    return Problem(ProblemType.STATE_CONFLICT, "the recording is not requested: not yet, or no longer")


def _text_of(digest: bytes) -> str:
    return f"sha256:{digest.hex()}"
