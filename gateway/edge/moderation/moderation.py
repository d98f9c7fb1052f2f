"""Moderators: what is held, with all evidence, and their decisions, each an event that names them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.preconditions import etag, expected_version
from gateway.edge.http.request import SMALL_BODY, board_of, moderator_of, parse_body, read_body, whole_number
from gateway.edge.http.responses import finding_shown, held_submission, json_response, replay_header
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies, outcomes
from gateway.ledger import queries
from gateway.ledger.judgement import cases, expiry
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.ledger.submission_rows import findings_from
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.settle import Decision, settle
from policies.errors import CaseOvertaken, RecordingLost, StateConflict
from policies.vocabulary import Reason, State

PAGE_LIMIT: Final = 100

_log = logger()


async def list_held(request: web.Request) -> web.Response:
    """A page of held submissions, oldest first."""
    edge, board = request.app[EDGE], board_of(request)
    moderator_of(request, board.name)
    after = whole_number(request, "after", 0, 0, 10**15)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    held = await edge.ledger.read(
        queries.held_submissions(board.name, after=after, count=count), ReadKind.MODERATION
    )
    ids = [each.submission_id for each in held]
    found_later = await edge.ledger.read(queries.replay_findings(ids), ReadKind.MODERATION)
    versions = await edge.ledger.read(cases.versions(ids), ReadKind.MODERATION)
    shown = [
        held_submission(each, found_later.get(each.submission_id, ()), versions[each.submission_id])
        for each in held
    ]
    return json_response(outcomes.HeldPage(board=board.name, submissions=shown))


async def show_case(request: web.Request) -> web.Response:
    """One submission with its findings, what surrounds it and its whole history; its ETag is what decisions name."""
    edge, found, _ = await _case(request)
    ranking = edge.boards[found.board].ranking
    found_later = await edge.ledger.read(queries.replay_findings([found.submission_id]), ReadKind.MODERATION)
    around = await edge.ledger.read(cases.background(ranking, found), ReadKind.MODERATION)
    events = await edge.ledger.read(queries.history_of(found.submission_id), ReadKind.MODERATION)
    expired_at = await _expired_at(edge, found)
    version = events[-1]["seq"]
    case = outcomes.CaseFile(
        submission=held_submission(found, found_later.get(found.submission_id, ()), version),
        name=around.name,
        elapsed_ms=found.received_at_ms - found.issued_at_ms,
        ranks=dict(around.ranks),
        history=[_scored(each) for each in around.scores],
        has_recording=found.recording_digest is not None and expired_at is None,
        recording_expired_at=expired_at,
        events=[_shown(event) for event in events],
    )
    return json_response(case, headers={"ETag": etag(version)})


async def _expired_at(edge: Edge, found: StoredSubmission) -> str | None:
    """When the recording of a submission ended, if its time is over."""
    if found.recording_digest is None:
        return None
    at_ms = await edge.ledger.read(expiry.expired_at(found.recording_digest), ReadKind.MODERATION)
    return None if at_ms is None else rfc3339(at_ms)


async def send_recording(request: web.Request) -> web.Response:
    """The recording of a submission, as the game sent it."""
    edge, found, _ = await _case(request)
    digest = found.recording_digest
    stored = (
        await edge.ledger.read(cases.recording_of(digest), ReadKind.MODERATION)
        if digest is not None
        else None
    )
    if stored is None:
        expired_at = await _expired_at(edge, found)
        why = f"; its time was over at {expired_at}" if expired_at else ""
        raise Problem(ProblemType.NOT_FOUND, f"no recording is kept of this submission{why}")
    try:
        body = await edge.recordings.load(stored)
    except RecordingLost:
        raise Problem(ProblemType.NOT_FOUND, "the recording is lost: its store no longer has it") from None
    return web.Response(
        body=body,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{found.submission_id}.recording"',
            "Content-Digest": f"sha-256=:{base64.b64encode(stored.digest).decode()}:",
        },
    )


def _scored(scored: cases.PlayerScore) -> outcomes.ScoreShown:
    return outcomes.ScoreShown(
        submission=scored.submission_id, score=scored.score, achieved_at=rfc3339(scored.achieved_at_ms)
    )


def _shown(event: Mapping[str, Any]) -> outcomes.EventShown:
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
        findings=[finding_shown(each) for each in findings or ()],
        at=rfc3339(event["at_ms"]),
    )


async def approve(request: web.Request) -> web.Response:
    """Promotes a held submission."""
    return await _decide(request, State.HELD, State.PROMOTED, Reason.APPROVED)


async def reject(request: web.Request) -> web.Response:
    """Rejects a held submission."""
    return await _decide(request, State.HELD, State.REJECTED, Reason.REJECTED_BY_MODERATOR)


async def revoke(request: web.Request) -> web.Response:
    """Takes a promoted submission off the board; the player's next best takes its place."""
    return await _decide(request, State.PROMOTED, State.REVOKED, Reason.REVOKED_BY_MODERATOR)


async def reinstate(request: web.Request) -> web.Response:
    """Lets a revoked submission count again."""
    return await _decide(request, State.REVOKED, State.PROMOTED, Reason.REINSTATED)


async def _decide(request: web.Request, from_state: State, to_state: State, reason: Reason) -> web.Response:
    edge, found, moderator = await _case(request)
    version = expected_version(request)
    why = parse_body(await read_body(request, SMALL_BODY), bodies.NewDecision).reason
    if moderator.subject == found.player:
        raise Problem(ProblemType.SELF_APPROVAL, "nobody decides on their own submission")
    decision = Decision(
        found.submission_id,
        to_state,
        f"moderator:{moderator.subject}",
        reason,
        edge.clock(),
        frozenset({from_state}),
        detail={"why": why},
        newest_event=version,
    )
    [settled] = await settle(edge.ledger, edge.index, edge.boards[found.board], [decision])
    if isinstance(settled, StateConflict):
        return await _already_decided(edge, decision, settled)
    _log.info(
        Event.DECISION, submission=found.submission_id, state=to_state.value, moderator=moderator.subject
    )
    return _decided(decision, settled.seq)


async def _already_decided(edge: Edge, decision: Decision, conflict: StateConflict) -> web.Response:
    """The answer to a decision that was made before by the same moderator, of the same version and for the same reason.

    Raises `precondition-failed` if the case has changed otherwise, and `state-conflict` if its state does not allow it.
    """
    if not isinstance(conflict, CaseOvertaken):
        [wanted] = decision.from_states
        raise Problem(ProblemType.STATE_CONFLICT, f"the submission is not {wanted.value}")
    *before, newest = await edge.ledger.read(queries.history_of(decision.submission_id), ReadKind.MODERATION)
    same = (decision.actor, decision.to_state.value, decision.detail["why"])
    is_resend = before and before[-1]["seq"] == decision.newest_event
    if is_resend and same == (newest["actor"], newest["to"], newest["detail"].get("why")):
        return _decided(decision, newest["seq"], is_replay=True)
    raise Problem(
        ProblemType.PRECONDITION_FAILED, "read the case again: something happened to it since you did"
    )


def _decided(decision: Decision, version: int, *, is_replay: bool = False) -> web.Response:
    state, tag = decision.to_state.value, etag(version)
    answer = outcomes.Decided(submission=decision.submission_id, state=state, etag=tag)
    return json_response(answer, headers={"ETag": tag, **replay_header(is_replay=is_replay)})


async def _case(request: web.Request) -> tuple[Edge, StoredSubmission, Bearer]:
    edge = request.app[EDGE]
    found = await edge.ledger.read(queries.submission(request.match_info["submission"]), ReadKind.MODERATION)
    moderator = moderator_of(request, found.board if found else "")
    if found is None or found.board not in edge.boards:
        raise Problem(ProblemType.NOT_FOUND, "there is no such submission")
    return edge, found, moderator
