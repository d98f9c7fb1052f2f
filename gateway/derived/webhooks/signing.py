"""Signatures and secrets of webhooks by Standard Webhooks 1.0, for which receivers have libraries.

Signed is `<id>.<timestamp>.<body>` with HMAC-SHA256; the secret is written `whsec_<base64>`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

SECRET_BYTES: Final = 32
"""Standard Webhooks asks for 24 to 64."""

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - it only says what follows


def new_secret() -> bytes:
    """A secret nobody else has."""
    return secrets.token_bytes(SECRET_BYTES)


def written(secret: bytes) -> str:
    """A secret as its receiver is told it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def signed_headers(secret: bytes, event_id: str, body: bytes, *, at_s: int) -> Mapping[str, str]:
    """The header fields of one attempt, made at `at_s` (Unix seconds). The id is the same for every attempt."""
    content = b".".join((event_id.encode(), str(at_s).encode(), body))
    signature = base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()
    return {"webhook-id": event_id, "webhook-timestamp": str(at_s), "webhook-signature": f"v1,{signature}"}
