"""Trusted servers' writes: signed with a registered Ed25519 key, canonical at once, and in the ledger by name."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from aiohttp import web

from gateway.edge import signatures, wire
from gateway.edge.answers import score_accepted
from gateway.edge.context import EDGE, Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reading import board_of, parse_body, read_body
from gateway.edge.runs import SMALL_BODY
from gateway.edge.server_keys import TrustedServer
from gateway.edge.signed import SignedRequest, invalid, read_signature
from gateway.ledger.records import SERVER_CREDENTIAL, NewSubmission
from gateway.settlement import settle, trusted
from gateway.telemetry import logger
from policies.loader import Board
from policies.vocabulary import Claim, Reason, State
from validators.bounds import is_score_possible
from validators.judge import Judgement
from validators.submission import Submission

_DECOY: Final = signatures.load_server_public_key(
    bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
)
"""A public key nobody here signs with (RFC 8032, §7.1, test 1), so that an unknown key id costs as much as a known one."""

_log = logger()


async def write_entry(request: web.Request) -> web.Response:
    """202 once the score is durable and settled; sending the same operation again changes nothing."""
    edge, board = request.app[EDGE], board_of(request)
    body = await read_body(request, SMALL_BODY)
    server, nonce = await _authenticate(edge, request, board, body)
    entry = parse_body(body, wire.NewEntry)
    if not is_score_possible(entry.score, board.policy):
        raise Problem(ProblemType.BOUNDS_VIOLATION)
    digest = hashlib.sha256(body).digest()
    new = _new_submission(edge, board, server, entry, nonce=nonce, content_digest=digest)
    receipt = await edge.ledger.append(new)
    if (receipt.content_digest, receipt.board) != (new.content_digest, board.name):
        raise Problem(ProblemType.IDEMPOTENCY_MISMATCH)
    await settle(
        edge.ledger, edge.index, board, [trusted(receipt.submission_id, new.credential, edge.clock())]
    )
    return score_accepted(receipt, State.PROMOTED, outcome="trusted")


async def _authenticate(
    edge: Edge, request: web.Request, board: Board, body: bytes
) -> tuple[TrustedServer, str]:
    """The server that signed, and its nonce. Unknown keys and wrong signatures are told alike, and cost alike."""
    signed = read_signature(request)
    parsed = signed.parsed
    server = await signing_server(edge, signed)
    if server is None:
        raise _forbidden_or_invalid(edge, signed)
    if parsed.tag is not signatures.Tag.SERVER:
        raise invalid()
    signatures.check_algorithm(parsed, "ed25519")
    signatures.check_time(parsed, edge.clock() / 1000, edge.settings.clock_skew_s)
    signatures.check_content_digest(signed.content_digest, body)
    if not server.may_write(board.name):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for this board")
    return server, parsed.nonce


async def signing_server(edge: Edge, signed: SignedRequest) -> TrustedServer | None:
    """The registered server that signed a request, or None; an unknown key costs as much as a wrong signature."""
    server = await edge.server_keys.find(signed.parsed.keyid)
    key = server.public_key if server else _DECOY
    is_genuine = signatures.verify_ed25519(key, signed.base, signed.parsed.signature)
    return server if is_genuine else None


def _forbidden_or_invalid(edge: Edge, signed: SignedRequest) -> Problem:
    """A client's valid signature reaches no server's endpoint; anything else is just invalid."""
    key = edge.tickets.key(signed.parsed.keyid)
    if signatures.verify_hmac_sha256(key, signed.base, signed.parsed.signature):
        return Problem(ProblemType.SCOPE_FORBIDDEN, "a run's key does not write entries")
    return invalid()


def _new_submission(
    edge: Edge,
    board: Board,
    server: TrustedServer,
    entry: wire.NewEntry,
    *,
    nonce: str,
    content_digest: bytes,
) -> NewSubmission:
    now_ms = edge.clock()
    submission_id = operation_submission(server.key_id, entry.operation)
    claim = Claim(entry.score, 0)
    submission = Submission(
        submission_id, board.name, entry.player, "", 0, now_ms, now_ms, claim, has_recording=False
    )
    return NewSubmission(
        submission,
        Judgement(State.PENDING, Reason.TRUSTED),
        credential=SERVER_CREDENTIAL + server.key_id,
        nonce=nonce,
        content_digest=content_digest,
        recording=None,
        recording_digest=None,
        simulator="",
        policy_digest=board.digest,
    )


def operation_submission(key_id: str, operation: str) -> str:
    """The submission id of a server's operation: the same operation always has the same one."""
    digest = hashlib.sha256(f"{key_id}\0{operation}".encode()).digest()
    return "op" + base64.b32encode(digest[:15]).decode().lower()
