"""Logins under way at the identity provider, which a browser keeps for us in a cookie that it cannot read."""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Final

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import ConfigDict, TypeAdapter

from gateway.edge.auth.moderator_secrets import new_secret

ATTEMPT_MS: Final = 600_000
"""The time in which a login at the provider has to come back."""

_NONCE_BYTES: Final = 12
_LONGEST: Final = 4_000
_PURPOSE: Final = b"scoregate-login-attempt"


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login under way: what the provider has to send back, and what is to happen then.

    `invitation` is the token of the invitation that is accepted by it; with `is_again`, somebody who is
    logged in has to prove again who they are.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    began_at_ms: int
    next: str = ""
    invitation: str = ""
    is_again: bool = False
    state: str = field(default_factory=new_secret)
    nonce: str = field(default_factory=new_secret)
    verifier: str = field(default_factory=new_secret, repr=False)


_ATTEMPT: Final = TypeAdapter(LoginAttempt)
"""Reads an attempt: an edge of another version may have sealed something else."""


class LoginAttempts:
    """Seals attempts for the browser that began them, under a key of all edges (AES-256-GCM)."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def sealed(self, attempt: LoginAttempt) -> str:
        """Return an attempt as a cookie has it."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, orjson.dumps(asdict(attempt)), _PURPOSE)
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def opened(self, text: str, *, now_ms: int) -> LoginAttempt | None:
        """Return the attempt of a cookie; None if it is not one of ours, or is over."""
        if not text or len(text) > _LONGEST:
            return None
        try:
            sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            plain = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _PURPOSE)
            attempt = _ATTEMPT.validate_json(plain)
        except (InvalidTag, ValueError):
            return None
        return attempt if now_ms - attempt.began_at_ms < ATTEMPT_MS else None
