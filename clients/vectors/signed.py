"""RFC 9421 by hand, for the vectors: a request, its signature base, and the two kinds of signature."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

COMPONENTS: Final = ("@method", "@authority", "@path", "@query", "content-type", "content-digest")
NOW: Final = 1_700_000_000
SECRET: Final = bytes(range(32))
SEED: Final = bytes(range(32, 64))
RUN_TAG: Final = "scoregate-run"
SERVER_TAG: Final = "scoregate-server"
BODY: Final = b'{"score":1200,"ticks":3600,"stats":{"coins":7},"recording":"U0dSMQEAAQEA"}'


def base64(content: bytes) -> str:
    """Return standard base64, padded."""
    return b64encode(content).decode()


def sha256_field(body: bytes) -> str:
    """Return the Content-Digest of a body."""
    return f"sha-256=:{base64(sha256(body).digest())}:"


def public_of(seed: bytes) -> bytes:
    """Return the Ed25519 public key of a seed."""
    return (
        Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    )


@dataclass(frozen=True)
class Parts:
    """What is signed, and with which key."""

    algorithm: str = "hmac-sha256"
    key: bytes = SECRET
    method: str = "POST"
    authority: str = "localhost:8080"
    path: str = "/v1/boards/arcade/scores"
    query: str = ""
    content_type: str = "application/json"
    body: bytes = BODY
    created: int = NOW
    expires: int = NOW + 60
    nonce: str = "example-nonce_0001"
    keyid: str = "example-ticket"
    alg: str | None = "hmac-sha256"
    tag: str = RUN_TAG
    content_digest: str | None = None

    @property
    def digest(self) -> str:
        """Content-Digest: the given one, or the SHA-256 of the body."""
        return sha256_field(self.body) if self.content_digest is None else self.content_digest

    @property
    def parameters(self) -> str:
        """The parameters in the order of our clients."""
        alg = "" if self.alg is None else f';alg="{self.alg}"'
        return (
            f';created={self.created};expires={self.expires};nonce="{self.nonce}"'
            f';keyid="{self.keyid}"{alg};tag="{self.tag}"'
        )

    def base(self, params: str, components: Sequence[str] = COMPONENTS) -> str:
        """Return the signature base (RFC 9421, 2.5) of these components under these parameters."""
        values = {
            "@method": self.method,
            "@authority": self.authority,
            "@path": self.path,
            "@query": f"?{self.query}",
            "content-type": self.content_type,
            "content-digest": self.digest,
        }
        lines = [f'"{name}": {values.get(name, "x")}\n' for name in components]
        return "".join(lines) + f'"@signature-params": {params}'

    def sign(self, base: str) -> bytes:
        """Return the signature of a base."""
        if self.algorithm == "ed25519":
            return Ed25519PrivateKey.from_private_bytes(self.key).sign(base.encode())
        return hmac.new(self.key, base.encode(), "sha256").digest()


SERVER: Final[dict[str, Any]] = {
    "algorithm": "ed25519",
    "key": SEED,
    "keyid": "server-1",
    "alg": "ed25519",
    "tag": SERVER_TAG,
    "path": "/v1/boards/arcade/entries",
    "body": b'{"operation":"match-4711/ada","player":"p_1","score":1200}',
}
"""What a trusted server's request has of its own."""


def listed(components: Sequence[str] = COMPONENTS) -> str:
    """Return the inner list of components."""
    return "(" + " ".join(f'"{name}"' for name in components) + ")"
