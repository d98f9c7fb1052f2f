"""Second factors of moderators: one-time codes by time (RFC 6238), from secrets under a key."""

from __future__ import annotations

import os
import re
from base64 import b32encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor import InvalidToken
from cryptography.hazmat.primitives.twofactor.totp import TOTP

SECRET_BYTES: Final = 20
"""The recommended length of a secret, 160 bits (RFC 4226, section 4, R6)."""

STEP_S: Final = 30
DIGITS: Final = 6
"""What every authenticator app computes, with SHA-1 (RFC 6238, section 4)."""

STEPS_OFF: Final = (0, -1, 1)
"""Time steps that a code may be off: one, for a slow network or clock (RFC 6238, section 5.2)."""

ISSUER: Final = "Scoregate"

_NONCE_BYTES: Final = 12
_CODE: Final = re.compile(r"[0-9]{6}")


class SecondFactors:
    """Makes secrets, and keeps them from whoever reads the ledger without the master key (AES-256-GCM)."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def new_secret(self) -> bytes:
        """Return a new secret."""
        return os.urandom(SECRET_BYTES)

    def sealed(self, secret: bytes, name: str) -> bytes:
        """Return a secret as the ledger keeps it, for the account of this name alone."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, name.encode())

    def step_of(self, code: str, sealed: bytes, name: str, *, now_ms: int) -> int | None:
        """Return the time step whose code this is, None if it is none of now.

        Who takes it must see to it that the step was not taken before (RFC 6238, section 5.2).
        """
        secret = self._opened(sealed, name)
        code = code.replace(" ", "")
        if secret is None or not _CODE.fullmatch(code):
            return None
        now_step = now_ms // 1000 // STEP_S
        return next((now_step + off for off in STEPS_OFF if _is_code(secret, code, now_step + off)), None)

    def _opened(self, sealed: bytes, name: str) -> bytes | None:
        """Return a secret, None if it was sealed for another account, or under another master key."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except InvalidTag:
            return None


def spelled(secret: bytes) -> str:
    """Return a secret as people type it into an app."""
    return b32encode(secret).decode()


def address_of(secret: bytes, name: str) -> str:
    """Return the `otpauth` address that apps read from a QR code."""
    return _codes(secret).get_provisioning_uri(name, ISSUER)


def code_at(secret: bytes, now_ms: int) -> str:
    """Return the code of a time, as an app shows it."""
    return _codes(secret).generate(now_ms // 1000).decode()


def _is_code(secret: bytes, code: str, step: int) -> bool:
    try:
        _codes(secret).verify(code.encode(), step * STEP_S)
    except InvalidToken:
        return False
    return True


def _codes(secret: bytes) -> TOTP:
    return TOTP(secret, DIGITS, SHA1(), STEP_S)  # noqa: S303 - RFC 6238's, and what apps know
