"""Signatures and secrets of webhooks by Standard Webhooks 1.0, for which receivers have libraries.

The secret is written `whsec_<base64>`.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from standardwebhooks import Webhook as Signer

SECRET_BYTES: Final = 32
"""The length of new secrets. Standard Webhooks allows 24 to 64."""

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - it only says what follows


def new_secret() -> bytes:
    """Return a new random secret."""
    return secrets.token_bytes(SECRET_BYTES)


def written(secret: bytes) -> str:
    """Return a secret as its receiver is told it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def signed_headers(secret: bytes, event_id: str, body: bytes, *, at_s: int) -> Mapping[str, str]:
    """Return the header fields of an attempt made at `at_s` (Unix seconds).

    `body` is UTF-8. The id is the same for every attempt.
    """
    at = datetime.fromtimestamp(at_s, UTC)  # the library takes the hours of any other zone for those of UTC
    signature = Signer(secret).sign(event_id, at, body.decode())
    return {"webhook-id": event_id, "webhook-timestamp": str(at_s), "webhook-signature": signature}
