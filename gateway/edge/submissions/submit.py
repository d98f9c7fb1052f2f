"""Handles a client's submission, from the socket to the ledger: one step per line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from aiohttp import web

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.rate_limits import rate_limit_headers, refuse_large, refuse_limited
from gateway.edge.auth import signatures
from gateway.edge.auth.tickets import Ticket
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import read_signed
from gateway.edge.http.request import board_of, client_names, parse_body
from gateway.edge.http.responses import score_accepted
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.details import stored_details
from gateway.edge.submissions.banned import refuse_banned
from gateway.edge.submissions.impossible_run import impossible, unplayable
from gateway.edge.submissions.large_recordings import write_behind_recording
from gateway.edge.submissions.signed_runs import SignedRun, authenticate_run
from gateway.edge.submissions.submitted_recording import body_limit, recording_of, reveal_ms
from gateway.edge.wire import bodies
from gateway.index.board_index import CommittedRun
from gateway.index.limits.admission import Admission, AdmissionRequest, AdmissionResult
from gateway.ledger import queries
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import NewSubmission, Receipt
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.telemetry import PLUGIN_FAILURES, Event, label_of, logger
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.opened_board import NO_CONTENT
from policies.vocabulary import Claim, Reason, State
from validators.baseline import EMPTY, subjects_of
from validators.bounds import is_playable
from validators.judge import Judgement, judge
from validators.submission import History, Submission

if TYPE_CHECKING:
    from gateway.edge.connections import Connection

_log = logger()


class Begun(NamedTuple):
    """What was done for a submission before it came here from the short way (`usual_submissions`).

    It is admitted, or it even has the outcome of its commit: the receipt of one that was stored before, or an
    error.
    """

    admitted: AdmissionResult | None = None
    receipt: Receipt | None = None
    error: BaseException | None = None


NOTHING_BEGUN: Final = Begun()


class ClaimedRun(NamedTuple):
    """A playable claim, its details as the ledger stores them, and its recording with digest and size."""

    claim: Claim
    details: str | None
    recording: bytes | None
    recording_digest: bytes | None
    recording_bytes: int
    is_revealed_later: bool


async def submit_score(request: web.Request) -> web.Response:
    """Answer 202 once the submission is durable. Every refusal comes before, and leaves nothing behind."""
    begun = _begun(request)
    edge, board = request.app[EDGE], await board_of(request)
    run, body = await read_signed(request, body_limit(board), partial(authenticate_run, board=board))
    claim = parse_body(body, bodies.NewScore)
    admission_request = admission_request_of(run.ticket, client_names(edge, request), len(body))
    admitted = begun.admitted or await _admit(edge, board, admission_request)
    refuse_limited(admitted, board.policy.limits)
    receipt = begun.receipt or await _existing_receipt(edge, admitted, run)
    if receipt is None:
        await _refuse_banned(edge, run)
        async with _counting_refusals(edge, admission_request, board):
            new = await _judge(edge, board, run, claim, admitted)
        new = from_address(edge, new, admission_request.address)
        refuse_large(edge, len(new.recording or b""))
        is_large = new.recording is not None and new.recording_bytes > edge.recordings.inline_bytes
        receipt = await (_append_large(edge, new) if is_large else edge.ledger.append(new))
        if receipt.is_new:
            close_runs(edge, board, [(new, receipt)])
        if receipt.is_new and receipt.state is State.REJECTED:
            await _note_refusal(edge, admission_request, board)
    _refuse_other_content(receipt, run)
    headers = rate_limit_headers(board.policy.limits.player, admitted.left)
    if claim.recording_digest:
        headers = {**headers, "Location": f"/v1/submissions/{receipt.submission_id}"}
    reach(Point.BEFORE_ANSWER)
    return score_accepted(receipt, receipt.state, outcome=receipt.state.value, headers=headers)


def admission_request_of(ticket: Ticket, client: ClientName, size_bytes: int) -> AdmissionRequest:
    """Return what the limits have to know of a run's submission with a body of this size."""
    kib = -(-size_bytes // 1024)
    return AdmissionRequest(ticket.run, ticket.player, client.address, ticket.build, client.network, kib)


async def _admit(edge: Edge, board: Board, admission_request: AdmissionRequest) -> AdmissionResult:
    reach(Point.BEFORE_ADMIT)
    return await edge.of(board).submission_limits.admit(admission_request)


@asynccontextmanager
async def _counting_refusals(
    edge: Edge, admission_request: AdmissionRequest, board: Board
) -> AsyncIterator[None]:
    """Count a claim that is refused as impossible."""
    # Whoever searches for a board's bounds needs such refusals.
    try:
        yield
    except Problem as problem:
        if problem.kind is ProblemType.BOUNDS_VIOLATION:
            await _note_refusal(edge, admission_request, board)
        raise


async def _note_refusal(edge: Edge, admission_request: AdmissionRequest, board: Board) -> None:
    if await edge.of(board).submission_limits.note_refusal(
        admission_request.player, admission_request.address
    ):
        _log.warning(Event.ABNORMAL_USAGE, board=board.name, player=admission_request.player)


def _begun(request: web.Request) -> Begun:
    """Return what was done for the submission before. Raises the error of its commit."""
    begun = cast("Connection", request.protocol).take_begun()
    if begun.error is not None:
        raise begun.error
    return begun


async def _existing_receipt(edge: Edge, admitted: AdmissionResult, run: SignedRun) -> Receipt | None:
    """Return the ledger's receipt of this run, if the index says that there is one."""
    if admitted.admission is not Admission.KNOWN:
        return None
    return await edge.ledger.read(queries.receipt(run.ticket.run), ReadKind.REQUESTS)


async def _refuse_banned(edge: Edge, run: SignedRun) -> None:
    """Refuse the run of a banned player, unless it is stored. Raises `player-banned`."""
    try:
        refuse_banned(edge, run.ticket.player, run.ticket.board)
    except Problem:
        # Without Redis nobody said that the run is stored, and a resend has its answer, whatever came after.
        if await edge.ledger.read(queries.receipt(run.ticket.run), ReadKind.REQUESTS) is None:
            raise


async def _judge(
    edge: Edge, board: Board, run: SignedRun, body: bodies.NewScore, admitted: AdmissionResult
) -> NewSubmission:
    """Return the submission with its judgement. Raises `bounds-violation` for an impossible claim."""
    claimed = claimed_run(board, body)
    if admitted.history is None:
        admitted = admitted._replace(history=await _history(edge, run.ticket))
    new = judged(edge, board, run, claimed, known_history(admitted))
    _refuse_impossible(new.submission, new.judgement)
    _report_plugin_failures(new.submission, new.judgement)
    return new


def claimed_run(board: Board, body: bodies.ScoreBody) -> ClaimedRun:
    """Return what a body claims. Raises `bounds-violation` for what no replay takes, `schema-violation`."""
    claim, details = Claim(body.score, body.ticks, body.stats), stored_details(board, body.details)
    if not is_playable(claim, board.policy):
        raise unplayable(claim, board.policy)
    return ClaimedRun(claim, details, *recording_of(body, board), bool(body.recording_digest))


def known_history(admitted: AdmissionResult) -> History:
    """Return the history that came with an admission, with the refusals that came with it."""
    assert admitted.history is not None
    return replace(admitted.history, refusals=admitted.refusals) if admitted.refusals else admitted.history


def judged(edge: Edge, board: Board, run: SignedRun, claimed: ClaimedRun, history: History) -> NewSubmission:
    """Return the submission with its judgement, be it possible or not."""
    ticket = run.ticket
    submission = _submission(edge, ticket, claimed.claim, has_recording=claimed.recording_digest is not None)
    status = edge.builds.status_of(board, submission.build)
    judgement = judge(submission, board.policy, history, digest=board.digest, build=status)
    return NewSubmission(
        submission,
        judgement,
        credential=f"run:{ticket.run}",
        nonce=run.nonce,
        content_digest=run.content_digest,
        recording=None if judgement.state is State.REJECTED else claimed.recording,
        recording_digest=claimed.recording_digest,
        recording_bytes=claimed.recording_bytes,
        simulator=f"sha256:{ticket.simulator.hex()}",
        policy_digest=board.digest,
        details=claimed.details,
        reveal_ms=reveal_ms(board) if claimed.is_revealed_later else None,
        board_content=None if ticket.board_content == NO_CONTENT else ticket.board_content,
    )


def _refuse_impossible(submission: Submission, judgement: Judgement) -> None:
    """Raise `bounds-violation` for an impossible claim. Only the log and development mode name the bound."""
    refusal = judgement.refusal
    if refusal is None:
        return
    refused_by = {"validator": refusal.validator, "reason": refusal.reason.value, "code": refusal.code}
    _log.info(Event.CLAIM_REFUSED, board=submission.board, submission=submission.submission_id, **refused_by)
    raise impossible(refusal)


def _report_plugin_failures(submission: Submission, judgement: Judgement) -> None:
    """Count the studio's own validators that failed, and log their errors."""
    for finding in judgement.findings:
        if finding.reason is Reason.PLUGIN_FAILED:
            PLUGIN_FAILURES.labels(label_of(submission.board), finding.validator).inc()
            where = {"submission": submission.submission_id, "line": finding.detail.get("line")}
            _log.warning(
                Event.PLUGIN_FAILED,
                board=submission.board,
                validator=finding.validator,
                error=finding.code,
                **where,
            )


def _submission(edge: Edge, ticket: Ticket, claim: Claim, *, has_recording: bool) -> Submission:
    return Submission(
        ticket.run,
        ticket.board,
        ticket.player,
        ticket.build,
        ticket.seed,
        ticket.issued_at_ms,
        edge.clock(),
        claim,
        has_recording,
        ticket.runs_opened,
        ticket.runs_submitted,
        ticket.clock_error_ms + edge.clock_error_ms,
    )


async def _history(edge: Edge, ticket: Ticket) -> History:
    """Return the history from the ledger, for when Redis does not have it."""
    stored = await edge.ledger.read(
        queries.baselines_of(ticket.board, ticket.player, ticket.build), ReadKind.REQUESTS
    )
    baselines = {baseline.player: baseline.known for baseline in stored}
    player, build, population = (
        baselines.get(subject, EMPTY) for subject in subjects_of(ticket.player, ticket.build)
    )
    return History(player, population, build)


async def _append_large(edge: Edge, new: NewSubmission) -> Receipt:
    """Store the recording, append the submission, and return its receipt.

    Store nothing for a run that is known.
    """
    submission_id, digest, recording = new.submission.submission_id, new.recording_digest, new.recording
    assert digest is not None
    assert recording is not None
    receipt = await edge.ledger.read(queries.receipt(submission_id), ReadKind.REQUESTS)
    if receipt is not None:
        return receipt
    row = new._replace(recording=None)
    return await write_behind_recording(
        edge, digest, recording, lambda: edge.ledger.append(row), lambda receipt: receipt.is_new
    )


def from_address(edge: Edge, new: NewSubmission, address: str) -> NewSubmission:
    """Return the submission with its hashed address, if the ledger may have to note it."""
    run = new.submission
    return new._replace(address=edge.noted_addresses.to_note(run.player, address, now_ms=run.received_at_ms))


def close_runs(edge: Edge, board: Board, stored: Sequence[tuple[NewSubmission, Receipt]]) -> None:
    """Close new runs in the index, and show there which are pending."""
    # Not awaited: the submissions are durable, and the steward repairs the index.
    committed = []
    for new, receipt in stored:
        run = new.submission
        edge.noted_addresses.note(run.player, new.address, now_ms=run.received_at_ms)
        is_pending = receipt.state is State.PENDING
        committed.append(CommittedRun(run.submission_id, run.player, run.received_at_ms, is_pending))
    try:
        edge.index.close_runs(board, committed)
    except IndexUnavailable:
        for closed in committed:
            _log.warning(Event.INDEX_DOWN, board=board.name, submission=closed.submission_id)


def _refuse_other_content(receipt: Receipt, run: SignedRun) -> None:
    """Refuse a run that was submitted with another body: a submission is never replaced."""
    if receipt.content_digest == run.content_digest:
        return
    if receipt.nonce == run.nonce:
        raise Problem(ProblemType.NONCE_REUSED, signatures.FRESH_NONCE)
    raise Problem(ProblemType.RUN_ALREADY_SUBMITTED, "open another run for another result")
