"""Recordings that come after their score: what a player is asked for, and the answer."""

from __future__ import annotations

import hashlib
from typing import Final

from aiohttp import web

from gateway.edge.admission.rate_limits import refuse_large
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import player_of, read_octets
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.players.friends import charge_profile
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.submissions.submit import LATE_MS
from gateway.edge.wire import outcomes
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredRecording, StoredSubmission
from gateway.runtime.clock import rfc3339
from gateway.runtime.deadline import aside
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.telemetry import REVEALS

LISTED: Final = 100
"""Most recordings that a player is told of at once."""


async def list_reveals(request: web.Request) -> web.Response:
    """The recordings that the bearer is asked for."""
    edge, bearer = request.app[EDGE], player_of(request)
    asked = await edge.ledger.read(reveals.recording_requests(bearer.subject, count=LISTED), ReadKind.PLAYERS)
    shown = [
        outcomes.RevealShown(
            submission=each.submission_id,
            board=each.board,
            recording_digest=_text_of(each.digest),
            recording_bytes=each.size_bytes,
            reveal_by=rfc3339(each.due_at_ms),
        )
        for each in asked
    ]
    answer = outcomes.RevealList(player=bearer.subject, reveals=shown)
    return json_response(answer, headers={"Cache-Control": "private, no-store"})


async def reveal_recording(request: web.Request) -> web.Response:
    """200 once the recording is durable; the same bytes again change nothing. One that nobody asked for is not read."""
    edge, found = request.app[EDGE], await _own_submission(request)
    committed = await edge.ledger.read(reveals.commitment(found.seq), ReadKind.PLAYERS)
    if committed is None:
        raise Problem(ProblemType.STATE_CONFLICT, "no digest of a recording came with this submission")
    if committed.due_at_ms is None and committed.revealed_at_ms is None:
        raise _unasked()
    refuse_large(edge, committed.size_bytes)
    await charge_profile(request, found.player)
    body = await read_octets(request, committed.size_bytes)
    if len(body) != committed.size_bytes or hashlib.sha256(body).digest() != found.recording_digest:
        raise Problem(
            ProblemType.RECORDING_MISMATCH, f"expected {committed.size_bytes} bytes with that digest"
        )
    is_new = committed.revealed_at_ms is None and await _keep(edge, found, body)
    if not is_new and not await _was_revealed(edge, found):
        raise _unasked()
    if is_new:
        REVEALS.labels(found.board, "revealed").inc()
    reach(Point.BEFORE_ANSWER)
    answer = outcomes.RecordingRevealed(
        submission=found.submission_id,
        recording_digest=_text_of(hashlib.sha256(body).digest()),
        recording_bytes=len(body),
    )
    return json_response(answer, headers=replay_header(is_replay=not is_new))


async def _own_submission(request: web.Request) -> StoredSubmission:
    edge, bearer = request.app[EDGE], player_of(request)
    found = await edge.ledger.read(queries.submission(request.match_info["submission"]), ReadKind.PLAYERS)
    if found is None or found.player != bearer.subject:
        raise Problem(ProblemType.NOT_FOUND, "you have no such submission")
    return found


async def _keep(edge: Edge, found: StoredSubmission, body: bytes) -> bool:
    """True once the recording is durable and its verification due; False if another request was faster, or it is settled.

    A large one is in the store before the row that names it, and again if that took long
    (`gateway.steward.recordings.collecting`).
    """
    digest = hashlib.sha256(body).digest()
    is_large = len(body) > edge.recordings.inline_bytes
    stored_at_ms = edge.clock()
    if is_large:
        with aside():
            await edge.recordings.store(digest, body)
        reach(Point.AFTER_STORE)
    recording = StoredRecording(digest, len(body), None if is_large else body)
    revealing = reveals.reveal(found.seq, recording, found.state, now_ms=edge.clock())
    is_new = await edge.ledger.write(revealing)
    if is_new and is_large and edge.clock() - stored_at_ms > LATE_MS:
        with aside():
            await edge.recordings.store(digest, body)
    return is_new


async def _was_revealed(edge: Edge, found: StoredSubmission) -> bool:
    now = await edge.ledger.read(reveals.commitment(found.seq), ReadKind.PLAYERS)
    return now is not None and now.revealed_at_ms is not None


def _unasked() -> Problem:
    return Problem(ProblemType.STATE_CONFLICT, "the recording is not asked for: not yet, or no more")


def _text_of(digest: bytes) -> str:
    return f"sha256:{digest.hex()}"
