"""Shows moderators the held submissions, with all evidence."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_of
from gateway.edge.http.responses import finding_shown, held_submission, json_response
from gateway.edge.moderation.playback import playback_shown
from gateway.edge.moderation.possible_decisions import Decider, possible_decisions
from gateway.edge.moderation.queue import claim_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import outcomes
from gateway.ledger import queries
from gateway.ledger.judgement import cases, expiry
from gateway.ledger.moderation.cases import CaseKind, StoredCase, waiting_case
from gateway.ledger.moderation.claims import CLAIM_MS, renew_claim
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.ledger.submission_rows import findings_from
from gateway.ledger.submissions import work
from gateway.runtime.clock import rfc3339
from gateway.settlement.case_history import CaseHistory, found_by_replay
from gateway.settlement.known_answers import as_checked, seen_before
from policies.decision_codes import DecisionKind
from policies.errors import RecordingLost
from policies.loader import Board

RENEWED_MS: Final = 60_000
"""A claim is renewed by reading once it was used so long ago, and not with each read."""


async def show_case(request: web.Request) -> web.Response:
    """Return a submission with its findings, background and history.

    Its ETag is the version that decisions name.
    """
    edge, board, submission, moderator = await case_of(request)
    case = await read_case(edge, board, submission, moderator)
    return json_response(case, headers={"ETag": case.submission.etag})


async def read_case(
    edge: Edge, board: Board, submission: StoredSubmission, moderator: Moderator
) -> outcomes.CaseFile:
    """Return the case of a submission as a moderator reads it; its page shows the same."""
    waiting = await stay_in_case(edge, submission, moderator)
    events: CaseHistory = await edge.ledger.read(
        queries.history_of(submission.submission_id), ReadKind.MODERATION
    )
    asking = cases.background(board.ranking, submission, now_ms=edge.clock())
    background = await edge.ledger.read(asking, ReadKind.MODERATION)
    is_check = waiting is not None and waiting.hides_from(moderator.name)
    if waiting is not None and is_check:
        submission, events = as_checked(submission, waiting), seen_before(events, waiting.known_seq)
    elif waiting is not None and waiting.kind is CaseKind.CHECK:
        waiting = None  # it asks for this moderator's own decision, and is nothing to them
    scores = [
        score
        for score in background.scores
        if not is_check or score.submission_id != submission.submission_id
    ]
    expired_at = await _expired_at(edge, submission)
    version, moderation, now_ms = events[-1]["seq"], board.policy.moderation, edge.clock()
    by = Decider(moderator, board, submission.submission_id, events, now_ms, is_check)
    possible = await possible_decisions(edge, by)
    return outcomes.CaseFile(
        submission=held_submission(submission, found_by_replay(events), version),
        name=background.name,
        elapsed_ms=submission.received_at_ms - submission.issued_at_ms,
        ranks=dict(background.ranks),
        history=[_score_shown(score) for score in scores],
        has_recording=await _has_recording(edge, submission),
        recording_expired_at=expired_at,
        playback=playback_shown(board, submission, events),
        events=[_event_shown(event) for event in events],
        codes={
            kind.value: {code: each.meaning for code, each in moderation.codes_of(kind).items()}
            for kind in DecisionKind
        },
        templates=moderation.all_templates,
        is_waiting=waiting is not None,
        claim=claim_shown(waiting, now_ms=now_ms) if waiting else None,
        decisions=possible.decisions,
        refusal=possible.refusal,
    )


async def stay_in_case(edge: Edge, submission: StoredSubmission, moderator: Moderator) -> StoredCase | None:
    """Return the case of a submission, None if it does not wait; who is in it has more time for it now."""
    now_ms = edge.clock()
    case = await edge.ledger.read(waiting_case(submission.submission_id), ReadKind.MODERATION)
    if case is None or not case.is_with(moderator.name, now_ms=now_ms):
        return case
    if case.claimed_until_ms - now_ms > CLAIM_MS - RENEWED_MS:
        return case
    if not moderator.may(Ability.DECIDE, submission.board):
        return case  # a token that reads
    return await edge.ledger.write(renew_claim(submission.submission_id, moderator.name, now_ms=now_ms))


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
    edge, _, submission, moderator = await case_of(request)
    await stay_in_case(edge, submission, moderator)
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
