"""Shows moderators the held submissions, with all evidence."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_of
from gateway.edge.http.responses import finding_shown, held_submission, json_response
from gateway.edge.moderation.playback import playback_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import outcomes
from gateway.ledger import queries
from gateway.ledger.judgement import cases, expiry
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.ledger.submission_rows import findings_from
from gateway.ledger.submissions import work
from gateway.runtime.clock import rfc3339
from policies.decision_codes import DecisionKind
from policies.errors import RecordingLost
from policies.loader import Board


async def show_case(request: web.Request) -> web.Response:
    """Return a submission with its findings, background and history.

    Its ETag is the version that decisions name.
    """
    edge, board, submission, _ = await case_of(request)
    case = await read_case(edge, board, submission)
    return json_response(case, headers={"ETag": case.submission.etag})


async def read_case(edge: Edge, board: Board, submission: StoredSubmission) -> outcomes.CaseFile:
    """Return the case of a submission; its page shows the same."""
    replay_findings = await edge.ledger.read(
        queries.replay_findings([submission.submission_id]), ReadKind.MODERATION
    )
    background = await edge.ledger.read(cases.background(board.ranking, submission), ReadKind.MODERATION)
    events = await edge.ledger.read(queries.history_of(submission.submission_id), ReadKind.MODERATION)
    expired_at = await _expired_at(edge, submission)
    version, moderation = events[-1]["seq"], board.policy.moderation
    return outcomes.CaseFile(
        submission=held_submission(submission, replay_findings.get(submission.submission_id, ()), version),
        name=background.name,
        elapsed_ms=submission.received_at_ms - submission.issued_at_ms,
        ranks=dict(background.ranks),
        history=[_score_shown(score) for score in background.scores],
        has_recording=await _has_recording(edge, submission),
        recording_expired_at=expired_at,
        playback=playback_shown(board, submission, events),
        events=[_event_shown(event) for event in events],
        codes={
            kind.value: {code: each.meaning for code, each in moderation.codes_of(kind).items()}
            for kind in DecisionKind
        },
        templates=moderation.all_templates,
    )


async def _has_recording(edge: Edge, submission: StoredSubmission) -> bool:
    """Return whether the recording is there: of what is rejected at once only the digest ever was."""
    digest = submission.recording_digest
    return digest is not None and not await edge.ledger.read(
        work.unknown_recordings([digest]), ReadKind.MODERATION
    )


async def _expired_at(edge: Edge, submission: StoredSubmission) -> str | None:
    """Return when the recording of a submission expired; None if it did not."""
    if submission.recording_digest is None:
        return None
    at_ms = await edge.ledger.read(expiry.expired_at(submission.recording_digest), ReadKind.MODERATION)
    return None if at_ms is None else rfc3339(at_ms)


async def send_recording(request: web.Request) -> web.Response:
    """Return the recording of a submission, as the game sent it."""
    edge, _, submission, _ = await case_of(request)
    digest = submission.recording_digest
    stored = (
        await edge.ledger.read(cases.recording_of(digest), ReadKind.MODERATION)
        if digest is not None
        else None
    )
    if stored is None:
        expired_at = await _expired_at(edge, submission)
        why = f"; it expired at {expired_at}" if expired_at else ""
        raise Problem(ProblemType.NOT_FOUND, f"there is no recording of this submission{why}")
    try:
        body = await edge.recordings.load(stored)
    except RecordingLost:
        raise Problem(ProblemType.NOT_FOUND, "the recording is lost: its store no longer has it") from None
    return web.Response(
        body=body,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{submission.submission_id}.recording"',
            "Content-Digest": f"sha-256=:{base64.b64encode(stored.digest).decode()}:",
        },
    )


def _score_shown(score: cases.PlayerScore) -> outcomes.ScoreShown:
    return outcomes.ScoreShown(
        submission=score.submission_id, score=score.score, achieved_at=rfc3339(score.achieved_at_ms)
    )


def _event_shown(event: Mapping[str, Any]) -> outcomes.EventShown:
    detail = dict(event["detail"])
    findings = findings_from(detail.get("findings", ()))
    if findings is not None:
        detail.pop("findings", None)
    return outcomes.EventShown(
        seq=event["seq"],
        from_state=event["from"],
        to_state=event["to"],
        actor=event["actor"],
        reason=event["reason"],
        policy=event["policy"],
        rules_version=event["rules_version"],
        detail=detail,
        findings=[finding_shown(finding) for finding in findings or ()],
        at=rfc3339(event["at_ms"]),
    )


async def case_of(
    request: web.Request, ability: Ability = Ability.READ
) -> tuple[Edge, Board, StoredSubmission, Moderator]:
    """Return the edge, the submission of the path with its board, and the moderator. Raises `not-found`."""
    edge = request.app[EDGE]
    submission = await edge.ledger.read(
        queries.submission(request.match_info["submission"]), ReadKind.MODERATION
    )
    moderator = await moderator_of(request, ability, submission.board if submission else "")
    board = await edge.catalogue.board(submission.board) if submission else None
    if submission is None or board is None:
        raise Problem(ProblemType.NOT_FOUND, "no such submission")
    return edge, board, submission, moderator
