"""Hands of a game server that stores files for its boards, signed as each test wants it."""

from __future__ import annotations

import hashlib
import random
import secrets
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth.signing import Draft, sign_ed25519
from tests.support.harness import Harness, Request

OCTETS = "application/octet-stream"
MIB = 1_048_576


def a_map(size_bytes: int, seed: int = 1) -> bytes:
    """A file that compresses to nothing less, always the same for its size and seed."""
    return random.Random(seed).randbytes(size_bytes)


def digest_text(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def upload_path(content: bytes, family: str = "track") -> str:
    return f"/v1/families/{family}/assets/{digest_text(content)}"


def upload(
    harness: Harness, private: Ed25519PrivateKey, content: bytes, *, path: str = "", **draft: Any
) -> Request:
    """A signed upload; `draft` replaces parts of what is signed."""
    path = path or upload_path(content)
    created = harness.clock() // 1000
    parts: dict[str, Any] = {
        "method": "PUT",
        "authority": harness.authority,
        "path": path,
        "body": content,
        "created": created,
        "expires": created + 290,
        "nonce": secrets.token_urlsafe(18),
        "keyid": "eu-1",
        "tag": "scoregate-server",
        "content_type": OCTETS,
    }
    return Request("PUT", path, content, dict(sign_ed25519(private, Draft(**(parts | draft)))))
