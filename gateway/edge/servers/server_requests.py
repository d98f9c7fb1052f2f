"""Turns trusted servers' requests into operations on the ledger, and the results into answers."""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from gateway.edge.auth.trusted_servers import operation_submission
from gateway.edge.http.responses import count_acceptance
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.details import stored_details
from gateway.edge.wire import bodies, outcomes
from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.submissions.operations import ServerRequest
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339, rfc3339
from gateway.settlement.server_operations import (
    PerformedOperation,
    RefusalKind,
    RefusedOperation,
    ServerOperation,
)
from policies.choices import Operator
from policies.loader import Board
from policies.vocabulary import Claim, Reason, State
from validators.bounds import is_score_possible
from validators.judge import Judgement
from validators.submission import Submission

OperationBody = bodies.NewEntry | bodies.NewIncrement | bodies.NewRemoval
ScoreBody = bodies.NewEntry | bodies.NewIncrement

PROBLEM_OF: Final = {
    RefusalKind.OTHER_CONTENT: ProblemType.IDEMPOTENCY_MISMATCH,
    RefusalKind.STALE: ProblemType.STALE_VERSION,
    RefusalKind.CONFLICT: ProblemType.STATE_CONFLICT,
}
"""The problem type of each refusal of the ledger."""


def problem_of(body: OperationBody, refusal: RefusedOperation) -> Problem:
    """Return the problem of an operation that the ledger refused."""
    is_known = refusal.kind is RefusalKind.OTHER_CONTENT
    detail = f"{body.operation}: {refusal.detail}" if is_known else refusal.detail
    return Problem(PROBLEM_OF[refusal.kind], detail)


def refuse_impossible(board: Board, server: ServerRequest, body: OperationBody) -> None:
    """Refuse an operation that no state of the ledger could make possible.

    Raises `bounds-violation`, `operator-mismatch`, or `schema-violation` for impossible details or times.
    """
    if isinstance(body, bodies.NewIncrement) and board.policy.operator is not Operator.SUM:
        raise Problem(
            ProblemType.OPERATOR_MISMATCH,
            f"the board's operator is `{board.policy.operator.value}`: write the score itself",
        )
    if not isinstance(body, bodies.NewRemoval) and not is_score_possible(body.score, board.policy):
        raise Problem(ProblemType.BOUNDS_VIOLATION, f"score: {_possible_scores(board)}")
    if isinstance(body, bodies.NewEntry):
        stored_details(board, body.details)
        _achieved_at_ms(server, body)


def _possible_scores(board: Board) -> str:
    """Name the board's limits: a registered server may know them, players may not."""
    limits = board.policy.score
    steps = f" in steps of {limits.step}" if limits.step > 1 else ""
    return f"the board's policy allows {limits.minimum} to {limits.maximum}{steps}"


def operation_of(board: Board, server: ServerRequest, body: OperationBody) -> ServerOperation:
    """Return a request's operation on the ledger."""
    operation_id = operation_submission(server.key_id, body.operation)
    content_digest = _content_digest(board, body)
    if isinstance(body, bodies.NewRemoval):
        why = body.reason or ""
        return ServerOperation(
            operation_id, body.player, content_digest, body.version, target=body.submission, why=why
        )
    new = _new_submission(board, server, body, operation_id, content_digest)
    target = body.replaces if isinstance(body, bodies.NewEntry) else None
    return ServerOperation(operation_id, body.player, content_digest, body.version, new=new, target=target)


def _content_digest(board: Board, body: OperationBody) -> bytes:
    """Return the SHA-256 of an operation's content, which is the same in a batch and outside."""
    content = {"board": board.name, "removes": isinstance(body, bodies.NewRemoval)} | body.model_dump(
        exclude={"action"}
    )
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


def _new_submission(
    board: Board, server: ServerRequest, entry: ScoreBody, submission_id: str, content_digest: bytes
) -> NewSubmission:
    at_ms = server.at_ms
    claim, achieved_at_ms, details = Claim(entry.score, 0), None, None
    if isinstance(entry, bodies.NewEntry):
        claim, details = Claim(entry.score, 0, entry.stats), stored_details(board, entry.details)
        achieved_at_ms = _achieved_at_ms(server, entry)
    submission = Submission(
        submission_id, board.name, entry.player, "", 0, at_ms, at_ms, claim, has_recording=False
    )
    return NewSubmission(
        submission,
        Judgement(State.PENDING, Reason.TRUSTED),
        credential=server.credential,
        nonce=server.nonce,
        content_digest=content_digest,
        recording=None,
        recording_digest=None,
        recording_bytes=0,
        simulator="",
        policy_digest=board.digest,
        achieved_at_ms=achieved_at_ms,
        details=details,
    )


def _achieved_at_ms(server: ServerRequest, entry: bodies.NewEntry) -> int | None:
    """Return when the score was reached (Unix ms). Raises `schema-violation` for the future, by our clock."""
    if entry.achieved_at is None:
        return None
    at_ms = parse_rfc3339(entry.achieved_at)
    if at_ms is None or at_ms < 0:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"achieved_at: {fault_of_rfc3339(entry.achieved_at)}")
    if at_ms > server.at_ms:
        now = rfc3339(server.at_ms)
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, f"achieved_at: is in the future; by our clock it is {now}"
        )
    return at_ms


def result_of(
    board: Board, server: ServerRequest, body: OperationBody, done: PerformedOperation
) -> outcomes.ScoreAccepted | outcomes.Removed:
    """Return the answer about an operation that is done."""
    if isinstance(body, bodies.NewRemoval):
        return removed(board, body, done)
    return count_acceptance(receipt_of(board, server, body, done), State.PROMOTED, outcome="trusted")


def removed(board: Board, removal: bodies.NewRemoval, done: PerformedOperation) -> outcomes.Removed:
    """Return the answer about a removal that is done."""
    return outcomes.Removed(board=board.name, player=removal.player, removed=list(done.revoked))


def receipt_of(board: Board, server: ServerRequest, entry: ScoreBody, done: PerformedOperation) -> Receipt:
    """Return the receipt of a score that is in the ledger."""
    operation = done.operation
    return Receipt(
        operation.operation_id,
        board.name,
        entry.player,
        entry.score,
        State.PROMOTED,
        server.nonce,
        operation.content_digest,
        is_new=done.is_new,
    )
