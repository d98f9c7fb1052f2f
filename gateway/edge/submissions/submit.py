"""A client's submission, from the socket to the ledger: one step a line."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from aiohttp import web

from gateway.edge.admission.rate_limits import rate_limit_headers, refuse_large, refuse_limited
from gateway.edge.auth import signatures
from gateway.edge.auth.signed_request import SignedRequest, invalid_signature, read_signature
from gateway.edge.auth.tickets import Ticket
from gateway.edge.auth.trusted_servers import signing_server
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import bearer_of, board_of, client_names, parse_body, read_body
from gateway.edge.http.responses import score_accepted
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.details import stored_details
from gateway.edge.wire import bodies
from gateway.index.board_index import CommittedRun
from gateway.index.limits.admission import Admission, AdmissionRequest, AdmissionResult
from gateway.ledger import queries
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import NewSubmission, Receipt
from gateway.runtime.deadline import aside
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.telemetry import PLUGIN_FAILURES, Event, logger
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.model import Writes
from policies.vocabulary import Claim, Reason, State
from validators.baseline import EMPTY, subjects_of
from validators.bounds import is_playable
from validators.judge import Judgement, judge
from validators.submission import History, Submission

OVERHEAD_BYTES: Final = 4_096
"""Room in a body for everything but the recording."""

OPEN_RECORDING_BYTES: Final = 65_536
"""Most bytes of a recording on a board that does not replay it."""

LATE_MS: Final = 60_000
"""After so long a commit the recording is stored again: what no row names is collected, though hours later."""

_log = logger()


class _Proven(NamedTuple):
    """A submission whose sender is proven: the ticket, the nonce, and the SHA-256 of the body it was sent in."""

    ticket: Ticket
    nonce: str
    content_digest: bytes


async def submit_score(request: web.Request) -> web.Response:
    """202 once the submission is durable; every refusal comes before, and leaves nothing behind."""
    edge, board = request.app[EDGE], board_of(request)
    body = await read_body(request, body_limit(board))
    await edge.turnstile.pass_through()
    proven = await _authenticate(edge, request, board, body)
    claim = parse_body(body, bodies.NewScore)
    asking = _asking(edge, request, proven.ticket, len(body))
    admitted = await _admit(edge, board, asking)
    receipt = await _known(edge, admitted, proven)
    if receipt is None:
        async with _counting_refusals(edge, asking, board):
            new = await _judged(edge, board, proven, claim, admitted)
        refuse_large(edge, len(new.recording or b""))
        is_large = new.recording is not None and new.recording_bytes > edge.recordings.inline_bytes
        receipt = await (_append_large(edge, new) if is_large else edge.ledger.append(new))
        _close_run(edge, new, receipt)
        if receipt.is_new and receipt.state is State.REJECTED:
            await _note_refusal(edge, asking, board)
    _refuse_other_content(receipt, proven)
    headers = rate_limit_headers(board.policy.limits.player, admitted.left)
    if claim.recording_digest:
        headers = {**headers, "Location": f"/v1/submissions/{receipt.submission_id}"}
    reach(Point.BEFORE_ANSWER)
    return score_accepted(receipt, receipt.state, outcome=receipt.state.value, headers=headers)


def body_limit(board: Board) -> int:
    """Bytes a submission to this board may have: its recording in base64, and some room."""
    return _recording_limit(board) * 4 // 3 + OVERHEAD_BYTES


async def _authenticate(edge: Edge, request: web.Request, board: Board, body: bytes) -> _Proven:
    """The proven sender. An unknown ticket and a wrong signature are told alike, and cost alike."""
    signed = read_signature(request)
    parsed = signed.parsed
    is_genuine = signatures.verify_hmac_sha256(edge.tickets.key(parsed.keyid), signed.base, parsed.signature)
    if not is_genuine or parsed.tag is not signatures.Tag.RUN:
        raise await _refusal(edge, signed)
    ticket = edge.tickets.read(parsed.keyid)
    signatures.check_algorithm(parsed, "hmac-sha256")
    now_ms = edge.clock()
    signatures.check_time(parsed, now_ms / 1000, edge.settings.clock_skew_s)
    digest = signatures.check_content_digest(signed.content_digest, body)
    _check_ticket(request, ticket, board, now_ms - edge.clock_error_ms - ticket.clock_error_ms)
    return _Proven(ticket, parsed.nonce, digest)


async def _refusal(edge: Edge, signed: SignedRequest) -> Problem:
    """A server's valid signature submits no runs; anything else is just invalid."""
    if signed.parsed.tag is signatures.Tag.SERVER and await signing_server(edge, signed):
        return Problem(ProblemType.SCOPE_FORBIDDEN, "a server's key does not submit runs")
    return invalid_signature()


def _check_ticket(request: web.Request, ticket: Ticket, board: Board, earliest_ms: int) -> None:
    """Raises if this run may not come here now, which is `earliest_ms` or later."""
    if board.policy.writes is Writes.TRUSTED:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "only registered servers write to this board")
    if ticket.board != board.name:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the ticket is for another board")
    if earliest_ms > ticket.expires_at_ms:
        raise Problem(ProblemType.RUN_EXPIRED, "open a new run")
    if "Authorization" in request.headers and bearer_of(request).subject != ticket.player:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the ticket is another player's")


def _asking(edge: Edge, request: web.Request, ticket: Ticket, size_bytes: int) -> AdmissionRequest:
    address, network = client_names(edge, request)
    return AdmissionRequest(ticket.run, ticket.player, address, ticket.build, network, -(-size_bytes // 1024))


async def _admit(edge: Edge, board: Board, asking: AdmissionRequest) -> AdmissionResult:
    reach(Point.BEFORE_ADMIT)
    admitted = await edge.submission_limits[board.name].admit(asking)
    refuse_limited(admitted, board.policy.limits)
    return admitted


@asynccontextmanager
async def _counting_refusals(edge: Edge, asking: AdmissionRequest, board: Board) -> AsyncIterator[None]:
    """Counts it if the claim is refused as impossible: a search for the limits is made of such answers."""
    try:
        yield
    except Problem as problem:
        if problem.kind is ProblemType.BOUNDS_VIOLATION:
            await _note_refusal(edge, asking, board)
        raise


async def _note_refusal(edge: Edge, asking: AdmissionRequest, board: Board) -> None:
    if await edge.submission_limits[board.name].note_refusal(asking.player, asking.address):
        _log.warning(Event.ABNORMAL_USAGE, board=board.name, player=asking.player)


async def _known(edge: Edge, admitted: AdmissionResult, proven: _Proven) -> Receipt | None:
    """What the ledger already has of this run, if the index says that it has something."""
    if admitted.admission is not Admission.KNOWN:
        return None
    return await edge.ledger.read(queries.receipt(proven.ticket.run), ReadKind.REQUESTS)


async def _judged(
    edge: Edge, board: Board, proven: _Proven, body: bodies.NewScore, admitted: AdmissionResult
) -> NewSubmission:
    """The submission with its judgement. Raises `bounds-violation` for a claim that the game cannot give."""
    claim, details = Claim(body.score, body.ticks, body.stats), stored_details(board, body.details)
    if not is_playable(claim, board.policy):
        raise Problem(ProblemType.BOUNDS_VIOLATION, bodies.NOT_A_RUN)
    recording, digest, size_bytes = _recording_of(body, board)
    submission = _submission(edge, proven.ticket, claim, has_recording=digest is not None)
    history = admitted.history or await _history(edge, proven.ticket)
    history = replace(history, refusals=admitted.refusals)
    status = edge.builds.status_of(board, submission.build)
    judgement = judge(submission, board.policy, history, digest=board.digest, build=status)
    _refuse_impossible(submission, judgement)
    _tell_of_failures(submission, judgement)
    is_rejected = judgement.state is State.REJECTED
    return NewSubmission(
        submission,
        judgement,
        credential=f"run:{proven.ticket.run}",
        nonce=proven.nonce,
        content_digest=proven.content_digest,
        recording=None if is_rejected else recording,
        recording_digest=digest,
        recording_bytes=size_bytes,
        simulator=f"sha256:{proven.ticket.simulator.hex()}",
        policy_digest=board.digest,
        details=details,
        reveal_ms=_reveal_ms(board) if body.recording_digest else None,
    )


def _refuse_impossible(submission: Submission, judgement: Judgement) -> None:
    """Raises `bounds-violation`, without the bound, for what the board says cannot be; our log knows which it was."""
    refusal = judgement.refusal
    if refusal is None:
        return
    told = {"validator": refusal.validator, "reason": refusal.reason.value, "code": refusal.code}
    _log.info(Event.CLAIM_REFUSED, board=submission.board, submission=submission.submission_id, **told)
    raise Problem(ProblemType.BOUNDS_VIOLATION, bodies.NOT_POSSIBLE)


def _tell_of_failures(submission: Submission, judgement: Judgement) -> None:
    """Counts the studio's own validators that failed, and names their errors in our log."""
    for found in judgement.findings:
        if found.reason is Reason.PLUGIN_FAILED:
            PLUGIN_FAILURES.labels(submission.board, found.validator).inc()
            where = {"submission": submission.submission_id, "line": found.detail.get("line")}
            _log.warning(
                Event.PLUGIN_FAILED,
                board=submission.board,
                validator=found.validator,
                error=found.code,
                **where,
            )


def _recording_limit(board: Board) -> int:
    return board.policy.replay.recording_bytes if board.policy.replay else OPEN_RECORDING_BYTES


def _recording_of(body: bodies.NewScore, board: Board) -> tuple[bytes | None, bytes | None, int]:
    """The recording, its digest and its size: of one that is there what it has, of one that is not what is said of it."""
    if body.recording_digest is None and body.recording_bytes is None:
        recording = _decode_recording(body.recording, board)
        digest = None if recording is None else hashlib.sha256(recording).digest()
        return recording, digest, len(recording or b"")
    if not board.policy.verification.reveal_s:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "recording_digest: this board takes recordings alone")
    if body.recording is not None:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "recording_digest: the recording itself is there")
    if body.recording_digest is None or body.recording_bytes is None:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "recording_digest and recording_bytes need each other")
    _refuse_too_large(body.recording_bytes, board)
    return None, bytes.fromhex(body.recording_digest.removeprefix("sha256:")), body.recording_bytes


def _reveal_ms(board: Board) -> int | None:
    given_s = board.policy.verification.reveal_s
    return None if given_s is None else given_s * 1000


def _refuse_too_large(size_bytes: int, board: Board) -> None:
    if size_bytes > _recording_limit(board):
        raise Problem(ProblemType.PAYLOAD_TOO_LARGE, f"a recording may have {_recording_limit(board)} bytes")


def _decode_recording(text: str | None, board: Board) -> bytes | None:
    if text is None:
        return None
    try:
        recording = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "recording: expected base64") from None
    _refuse_too_large(len(recording), board)
    return recording


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
    """The history as the ledger has it, for when Redis could not tell."""
    stored = await edge.ledger.read(
        queries.baselines_of(ticket.board, ticket.player, ticket.build), ReadKind.REQUESTS
    )
    known = {each.player: each.known for each in stored}
    player, build, population = (
        known.get(subject, EMPTY) for subject in subjects_of(ticket.player, ticket.build)
    )
    return History(player, population, build)


async def _append_large(edge: Edge, new: NewSubmission) -> Receipt:
    """The ledger's receipt, after the store has the recording; a run that the ledger has brings nothing into the store."""
    submission_id, digest, recording = new.submission.submission_id, new.recording_digest, new.recording
    assert digest is not None
    assert recording is not None
    known = await edge.ledger.read(queries.receipt(submission_id), ReadKind.REQUESTS)
    if known is not None:
        return known
    stored_at_ms = edge.clock()
    with aside():
        await edge.recordings.store(digest, recording)
    reach(Point.AFTER_STORE)
    receipt = await edge.ledger.append(new._replace(recording=None))
    if receipt.is_new and edge.clock() - stored_at_ms > LATE_MS:
        await edge.recordings.store(digest, recording)
    return receipt


def _close_run(edge: Edge, new: NewSubmission, receipt: Receipt) -> None:
    """Has the index close the run and show what is pending; not awaited: from here on the ledger answers for it."""
    if not receipt.is_new:
        return
    run = new.submission
    committed = CommittedRun(
        run.submission_id, run.player, run.received_at_ms, is_pending=receipt.state is State.PENDING
    )
    try:
        edge.index.boards[run.board].close_run(committed)
    except IndexUnavailable:
        _log.warning(Event.INDEX_DOWN, board=run.board, submission=run.submission_id)


def _refuse_other_content(receipt: Receipt, proven: _Proven) -> None:
    """Raises if the run was submitted with another body: what stands under a run's id is never replaced."""
    if receipt.content_digest == proven.content_digest:
        return
    if receipt.nonce == proven.nonce:
        raise Problem(ProblemType.NONCE_REUSED)
    raise Problem(ProblemType.RUN_ALREADY_SUBMITTED)
