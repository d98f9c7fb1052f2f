"""Authentication of trusted servers by registered Ed25519 keys."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from gateway.edge.auth import signatures
from gateway.edge.auth.server_keys import EVERY_BOARD, TrustedServer
from gateway.edge.auth.signed_request import SignedRequest, invalid_signature, read_signature
from gateway.edge.auth.structured_fields import byte_sequence
from gateway.edge.context import EDGE, Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.records import SERVER_CREDENTIAL
from gateway.ledger.submissions.operations import ServerRequest
from policies.errors import KeyRevoked, NonceReused, OperationReused
from policies.loader import Board
from policies.model import Writes

_DECOY: Final = signatures.load_server_public_key(
    bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
)
"""A key that no server has (RFC 8032, §7.1, test 1), so that unknown key ids cost as much as known ones."""


async def authenticate(request: web.Request, board: Board, body: bytes) -> ServerRequest:
    """Return a server's request. Unknown keys and wrong signatures get the same answer, at equal cost."""
    server, server_request = await _signer(request, body)
    _refuse_other_boards(server, board)
    return server_request


async def authenticate_writer(request: web.Request, board: Board, body: bytes) -> ServerRequest:
    """Return a server's request to write to a board. Raises `scope-forbidden` also for a rollup."""
    server, server_request = await _signer(request, body)
    if board.policy.writes is Writes.DERIVED:
        detail = "the board is a rollup, to which nobody writes: write to the boards of its family"
        raise Problem(ProblemType.SCOPE_FORBIDDEN, detail)
    _refuse_other_boards(server, board)
    return server_request


async def authenticate_for_family(request: web.Request, family: str, body: bytes) -> ServerRequest:
    """Return a server's request to open or change boards of a family."""
    server, server_request = await _signer(request, body)
    if not server.may_open(family):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for this family")
    return server_request


async def authenticate_for_every_board(request: web.Request, body: bytes) -> ServerRequest:
    """Return a server's request whose effects show on every board."""
    server, server_request = await _signer(request, body)
    if not server.may_write(EVERY_BOARD):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for every board")
    return server_request


async def authenticate_upload(request: web.Request, family: str, digest: bytes) -> TrustedServer:
    """Return the server that sends a family the file with this SHA-256. The body is not read.

    Raises `asset-mismatch` if the signed Content-Digest is another.
    """
    server, signed = await _verified(request)
    if not server.may_open(family):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for this family")
    expected = f"sha-256={byte_sequence(digest)}"
    if signed.content_digest != expected:
        raise Problem(ProblemType.ASSET_MISMATCH, f"Content-Digest: expected {expected}, as in the path")
    return server


def _refuse_other_boards(server: TrustedServer, board: Board) -> None:
    if not server.may_write(board.name):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for this board")


async def _signer(request: web.Request, body: bytes) -> tuple[TrustedServer, ServerRequest]:
    server, signed = await _verified(request)
    signatures.check_content_digest(signed.content_digest, body)
    content = hashlib.sha256(request.raw_path.encode() + b"\0" + body).digest()
    credential, now_ms = SERVER_CREDENTIAL + server.key_id, request.app[EDGE].clock()
    return server, ServerRequest(server.key_id, credential, signed.parsed.nonce, content, now_ms)


async def _verified(request: web.Request) -> tuple[TrustedServer, SignedRequest]:
    """Return the server whose signature covers the head of a request, without looking at the body."""
    edge = request.app[EDGE]
    signed = read_signature(request)
    parsed = signed.parsed
    server = await signing_server(edge, signed)
    if server is None:
        raise _forbidden_or_invalid(edge, signed)
    if parsed.tag is not signatures.Tag.SERVER:
        raise invalid_signature()
    signatures.check_algorithm(parsed, "ed25519")
    signatures.check_time(parsed, edge.clock() / 1000, edge.settings.clock_skew_s)
    return server, signed


async def signing_server(edge: Edge, signed: SignedRequest) -> TrustedServer | None:
    """Return the server that signed a request, or None. Unknown keys cost as much as wrong signatures."""
    server = await edge.server_keys.find(signed.parsed.keyid)
    key = server.public_key if server else _DECOY
    is_genuine = signatures.verify_ed25519(key, signed.base, signed.parsed.signature)
    return server if is_genuine else None


def _forbidden_or_invalid(edge: Edge, signed: SignedRequest) -> Problem:
    """Return the refusal of a signature that no server made: forbidden for a run's, else invalid."""
    key = edge.tickets.key(signed.parsed.keyid)
    if signatures.verify_hmac_sha256(key, signed.base, signed.parsed.signature):
        return Problem(ProblemType.SCOPE_FORBIDDEN, "a run's key does not write entries")
    return invalid_signature()


@contextmanager
def ledger_refusals_as_problems() -> Iterator[None]:
    """Turn the ledger's refusals of a whole server request into problems."""
    try:
        yield
    except KeyRevoked:
        raise invalid_signature() from None
    except NonceReused:
        raise Problem(ProblemType.NONCE_REUSED) from None
    except OperationReused as error:
        raise Problem(ProblemType.IDEMPOTENCY_MISMATCH, str(error)) from None


def operation_submission(key_id: str, operation: str) -> str:
    """Return the id of a server's operation and its submission, always the same for an operation."""
    digest = hashlib.sha256(f"{key_id}\0{operation}".encode()).digest()
    return "op" + base64.b32encode(digest[:15]).decode().lower()
