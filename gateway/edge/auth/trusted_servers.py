"""Who a trusted server is: the owner of the registered Ed25519 key that signed the request."""

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
from gateway.edge.context import EDGE, Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.records import SERVER_CREDENTIAL
from gateway.ledger.submissions.operations import ServerRequest
from policies.errors import KeyRevoked, NonceReused, OperationReused
from policies.loader import Board

_DECOY: Final = signatures.load_server_public_key(
    bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
)
"""A public key nobody here signs with (RFC 8032, §7.1, test 1), so that an unknown key id costs as much as a known one."""


async def authenticate(request: web.Request, board: Board, body: bytes) -> ServerRequest:
    """Whose request it is. Unknown keys and wrong signatures are told alike, and cost alike."""
    server, asked = await _signer(request, body)
    if not server.may_write(board.name):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for this board")
    return asked


async def authenticate_for_every_board(request: web.Request, body: bytes) -> ServerRequest:
    """Whose request it is, where what it asks for shows on every board."""
    server, asked = await _signer(request, body)
    if not server.may_write(EVERY_BOARD):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the key is not registered for every board")
    return asked


async def _signer(request: web.Request, body: bytes) -> tuple[TrustedServer, ServerRequest]:
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
    signatures.check_content_digest(signed.content_digest, body)
    said = hashlib.sha256(request.raw_path.encode() + b"\0" + body).digest()
    credential = SERVER_CREDENTIAL + server.key_id
    return server, ServerRequest(server.key_id, credential, parsed.nonce, said, edge.clock())


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
    return invalid_signature()


@contextmanager
def ledger_refusals_as_problems() -> Iterator[None]:
    """Turns what the ledger refuses of a server's request as a whole into its problem."""
    try:
        yield
    except KeyRevoked:
        raise invalid_signature() from None
    except NonceReused:
        raise Problem(ProblemType.NONCE_REUSED) from None
    except OperationReused as error:
        raise Problem(ProblemType.IDEMPOTENCY_MISMATCH, str(error)) from None


def operation_submission(key_id: str, operation: str) -> str:
    """The id of a server's operation in the ledger, and of its submission: the same operation always has the same one."""
    digest = hashlib.sha256(f"{key_id}\0{operation}".encode()).digest()
    return "op" + base64.b32encode(digest[:15]).decode().lower()
