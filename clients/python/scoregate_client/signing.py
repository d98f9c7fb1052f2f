"""Signs requests for a Scoregate gateway, in its profile of RFC 9421 and RFC 9530, with pure functions."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CONTENT_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Target:
    """A request's target: lower-case authority without default port, raw path, raw query without `?`.

    The media type of the body is signed with it.
    """

    method: str
    authority: str
    path: str
    query: str = ""
    content_type: str = CONTENT_TYPE


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a signature: times in Unix seconds, a nonce, the key's id, and a tag for the kind of key.

    With None for `alg` the signature does not name its algorithm, which the gateway allows.
    """

    created: int
    expires: int
    nonce: str
    keyid: str
    tag: str
    alg: str | None = None


def sign_for_run(key: bytes, target: Target, body: bytes, parameters: Parameters) -> dict[str, str]:
    """Return the header fields of a request signed with a run's key (HMAC-SHA256)."""
    return _sign(target, body, parameters, lambda base: hmac.digest(key, base, "sha256"))


def sign_for_server(
    key: Ed25519PrivateKey, target: Target, body: bytes, parameters: Parameters
) -> dict[str, str]:
    """Return the header fields of a request signed with a trusted server's key (Ed25519)."""
    return _sign(target, body, parameters, key.sign)


def sign_board_name(key: Ed25519PrivateKey, board: str) -> str:
    """Return the `name_signature` with which a player's first run opens a board. A map server signs it."""
    return b64encode(key.sign(b"scoregate/board-name/1\n" + board.encode())).decode()


def content_digest(body: bytes) -> str:
    """Return the Content-Digest field of a body."""
    return f"sha-256={_byte_sequence(hashlib.sha256(body).digest())}"


def signature_params(parameters: Parameters) -> str:
    """Return the value of `@signature-params`: the covered components and the parameters."""
    alg = "" if parameters.alg is None else f';alg="{parameters.alg}"'
    return (
        '("@method" "@authority" "@path" "@query" "content-type" "content-digest")'
        f";created={parameters.created};expires={parameters.expires}"
        f';nonce="{parameters.nonce}";keyid="{parameters.keyid}"{alg};tag="{parameters.tag}"'
    )


def signature_base(target: Target, digest: str, params_text: str) -> bytes:
    """Return the bytes to sign (RFC 9421, §2.5)."""
    lines = (
        f'"@method": {target.method}',
        f'"@authority": {target.authority}',
        f'"@path": {target.path}',
        f'"@query": ?{target.query}',
        f'"content-type": {target.content_type}',
        f'"content-digest": {digest}',
        f'"@signature-params": {params_text}',
    )
    return "\n".join(lines).encode("ascii")


def _sign(
    target: Target, body: bytes, parameters: Parameters, sign: Callable[[bytes], bytes]
) -> dict[str, str]:
    digest = content_digest(body)
    params_text = signature_params(parameters)
    return {
        "Content-Type": target.content_type,
        "Content-Digest": digest,
        "Signature-Input": f"sg={params_text}",
        "Signature": f"sg={_byte_sequence(sign(signature_base(target, digest, params_text)))}",
    }


def _byte_sequence(value: bytes) -> str:
    return f":{b64encode(value).decode('ascii')}:"
