"""Authenticates runs by their signature and ticket, before a byte of the body is read."""

from __future__ import annotations

from typing import NamedTuple

from aiohttp import web

from gateway.edge.auth import signatures
from gateway.edge.auth.signed_request import SignedRequest, read_signature
from gateway.edge.auth.tickets import Ticket
from gateway.edge.auth.trusted_servers import signing_server
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import player_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.submissions.runs import refuse_runs
from policies.loader import Board


class SignedRun(NamedTuple):
    """A run whose sender is authenticated: its ticket, its nonce, and the SHA-256 of its body."""

    ticket: Ticket
    nonce: str
    content_digest: bytes


class RunHead(NamedTuple):
    """The head of a submission that the run's key signed; the body is not read yet."""

    ticket: Ticket
    signed: SignedRequest

    def with_body(self, body: bytes) -> SignedRun:
        """Return the run. Raises `signature-invalid` for another body than the signed one."""
        return SignedRun(self.ticket, self.signed.parsed.nonce, self.signed.check_body(body))


async def authenticate_run(request: web.Request, board: Board) -> RunHead:
    """Return the head of a run's submission to a board.

    An unknown ticket and a wrong signature get the same answer after the same work.
    """
    edge = request.app[EDGE]
    await edge.turnstile.pass_through()
    signed = read_signature(request)
    if not is_signed_by_run(edge, signed):
        raise await _refusal(edge, signed)
    ticket = valid_ticket(edge, signed, board)
    if "Authorization" in request.headers and (await player_of(request)).subject != ticket.player:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the ticket belongs to another player")
    return RunHead(ticket, signed)


def is_signed_by_run(edge: Edge, signed: SignedRequest) -> bool:
    """Return whether the key of a run signed exactly this, whatever the run."""
    parsed = signed.parsed
    is_genuine = signatures.verify_hmac_sha256(edge.tickets.key(parsed.keyid), signed.base, parsed.signature)
    return is_genuine and parsed.tag is signatures.Tag.RUN


def valid_ticket(edge: Edge, signed: SignedRequest, board: Board) -> Ticket:
    """Return the ticket of a genuine signature. Raises the refusals of one that may not be submitted now."""
    parsed = signed.parsed
    ticket = edge.tickets.read(parsed.keyid)
    signatures.check_algorithm(parsed, "hmac-sha256")
    now_ms = edge.clock()
    signatures.check_time(parsed, now_ms / 1000, edge.settings.clock_skew_s)
    _check_ticket(ticket, board)
    # Only a run that seems late asks how far the clocks may be off.
    if now_ms > ticket.expires_at_ms and _earliest_ms(edge, ticket, now_ms) > ticket.expires_at_ms:
        raise Problem(ProblemType.RUN_EXPIRED, "open a new run")
    return ticket


async def _refusal(edge: Edge, signed: SignedRequest) -> Problem:
    """Return the refusal: `scope-forbidden` for a server's valid signature, or else `invalid-signature`."""
    if signed.parsed.tag is signatures.Tag.SERVER and await signing_server(edge, signed):
        return Problem(ProblemType.SCOPE_FORBIDDEN, "a server's key does not submit runs")
    return signatures.invalid_signature()


def _earliest_ms(edge: Edge, ticket: Ticket, now_ms: int) -> int:
    """Return when it may be now at the earliest, by the clock that issued the ticket."""
    return now_ms - edge.clock_error_ms - ticket.clock_error_ms


def _check_ticket(ticket: Ticket, board: Board) -> None:
    """Refuse a run that may not be submitted here."""
    refuse_runs(board)
    if ticket.board != board.name:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the ticket is for another board")
    if ticket.board_content != board.content_digest:
        raise Problem(ProblemType.BOARD_REPLACED, "it has other parameters or another asset; open a new run")
