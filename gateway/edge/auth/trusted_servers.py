"""Authentication of trusted servers by registered Ed25519 keys."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from aiohttp import web

from gateway.edge.auth import signatures
from gateway.edge.auth.server_keys import EVERY_BOARD, TrustedServer
from gateway.edge.auth.signed_request import SignedRequest, read_signature
from gateway.edge.auth.structured_fields import byte_sequence
from gateway.edge.context import EDGE, Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.records import SERVER_CREDENTIAL
from gateway.ledger.submissions.operations import ServerRequest
from gateway.runtime.clock import Clock
from policies.choices import Writes
from policies.errors import KeyRevoked, NonceReused, OperationReused
from policies.loader import Board

_DECOY: Final = signatures.load_server_public_key(
    bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
)
"""A key that no server has (RFC 8032, §7.1, test 1), so that unknown key ids cost as much as known ones."""


class ServerHead(NamedTuple):
    """The head of a request that a trusted server signed; the body is not read yet."""

    server: TrustedServer
    signed: SignedRequest
    target: str
    clock: Clock

    def with_body(self, body: bytes) -> ServerRequest:
        """Return the server's request. Raises `signature-invalid` for another body than the signed one."""
        self.signed.check_body(body)
        key_id, nonce = self.server.key_id, self.signed.parsed.nonce
        content = hashlib.sha256(self.target.encode() + b"\0" + body).digest()
        return ServerRequest(key_id, SERVER_CREDENTIAL + key_id, nonce, content, self.clock())


async def authenticate(request: web.Request, board: Board) -> ServerHead:
    """Return the head of a server's request.

    Unknown keys and wrong signatures get the same answer, at equal cost.
    """
    head = await _verified(request)
    _refuse_other_boards(head.server, board)
    return head


async def authenticate_writer(request: web.Request, board: Board) -> ServerHead:
    """Return the head of a server's request to write to a board.

    Raises `scope-forbidden` also for a rollup.
    """
    head = await _verified(request)
    if board.policy.writes is Writes.DERIVED:
        detail = "the board is a rollup, to which nobody writes: write to the boards of its family"
        raise Problem(ProblemType.SCOPE_FORBIDDEN, detail)
    _refuse_other_boards(head.server, board)
    return head


async def authenticate_for_family(request: web.Request, family: str) -> ServerHead:
    """Return the head of a server's request to open or change boards of a family, or to send it a file."""
    head = await _verified(request)
    if not head.server.may_open(family):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for this family")
    return head


async def authenticate_for_every_board(request: web.Request) -> ServerHead:
    """Return the head of a server's request whose effects show on every board."""
    head = await _verified(request)
    if not head.server.may_write(EVERY_BOARD):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for every board")
    return head


async def authenticate_upload(request: web.Request, family: str, digest: bytes) -> TrustedServer:
    """Return the server that sends a family the file with this SHA-256. The body is not read.

    Raises `asset-mismatch` if the signed Content-Digest is another.
    """
    head = await authenticate_for_family(request, family)
    expected = f"sha-256={byte_sequence(digest)}"
    if head.signed.content_digest != expected:
        raise Problem(ProblemType.ASSET_MISMATCH, f"Content-Digest: expected {expected}, as in the path")
    return head.server


def _refuse_other_boards(server: TrustedServer, board: Board) -> None:
    if not server.may_write(board.name):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for this board")


async def _verified(request: web.Request) -> ServerHead:
    """Return the head of a request that a server signed."""
    edge = request.app[EDGE]
    signed = read_signature(request)
    parsed = signed.parsed
    server = await signing_server(edge, signed)
    if server is None:
        raise _forbidden_or_invalid(edge, signed)
    if parsed.tag is not signatures.Tag.SERVER:
        raise signatures.invalid_signature()
    signatures.check_algorithm(parsed, "ed25519")
    signatures.check_time(parsed, edge.clock() / 1000, edge.settings.clock_skew_s)
    return ServerHead(server, signed, request.raw_path, edge.clock)


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
    return signatures.invalid_signature()


@contextmanager
def ledger_refusals_as_problems(operation: str = "") -> Iterator[None]:
    """Turn the ledger's refusals of a whole server request into problems.

    `operation` is the id of a request that the ledger refuses if its id was used for other content.
    """
    try:
        yield
    except KeyRevoked:
        raise signatures.invalid_signature() from None
    except NonceReused:
        raise Problem(ProblemType.NONCE_REUSED, signatures.FRESH_NONCE) from None
    except OperationReused:
        detail = f"{operation}: this operation id was used before, with other content; take a new one"
        raise Problem(ProblemType.IDEMPOTENCY_MISMATCH, detail) from None


def operation_submission(key_id: str, operation: str) -> str:
    """Return the id of a server's operation and its submission, always the same for an operation."""
    digest = hashlib.sha256(f"{key_id}\0{operation}".encode()).digest()
    return "op" + base64.b32encode(digest[:15]).decode().lower()
