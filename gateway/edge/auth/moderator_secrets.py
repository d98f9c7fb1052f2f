"""The secrets that moderators are given: made at random, shown once, and stored as digests.

A digest without a salt is enough: nobody guesses 256 random bits, unlike a password.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from typing import Final

SECRET_BYTES: Final = 32
"""Random bytes of a secret; 16 are the least for a session (OWASP ASVS 5.0, 7.2.3)."""

TOKEN_PREFIX: Final = "sgm_"  # noqa: S105 - a form, and no token
"""The beginning of every personal token, by which scanners find one that leaked."""

_CSRF: Final = b"scoregate-csrf "

_FORM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def new_secret(prefix: str = "") -> str:
    """Return a new secret in letters, digits, `-` and `_`, behind a prefix."""
    return prefix + secrets.token_urlsafe(SECRET_BYTES)


def is_secret(text: str, prefix: str = "") -> bool:
    """Return whether a text has the form of a secret behind this prefix, so that it is worth a look."""
    return text.startswith(prefix) and _FORM.fullmatch(text, len(prefix)) is not None


def new_id() -> str:
    """Return a new name for a session or a token, which is no secret."""
    return secrets.token_hex(8)


def digest_of(secret: str) -> bytes:
    """Return the SHA-256 of a secret, under which the ledger knows it."""
    return hashlib.sha256(secret.encode()).digest()


def csrf_of(session: str) -> str:
    """Return what a write has to carry besides the session's cookie. It follows from the session alone."""
    return urlsafe_b64encode(hashlib.sha256(_CSRF + session.encode()).digest()).rstrip(b"=").decode()
