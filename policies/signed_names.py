"""Names of boards that a studio signs, so that players open boards of real maps alone."""

from __future__ import annotations

import base64
from typing import Final

_DOMAIN: Final = b"scoregate/board-name/1\n"

_KEY_BYTES: Final = 32
_FIELD_PRIME: Final = 2**255 - 19
_ORDER_8_Y: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER_Y: Final = frozenset({0, 1, _FIELD_PRIME - 1, _ORDER_8_Y, _FIELD_PRIME - _ORDER_8_Y})
"""The y of the eight points whose order divides 8: 1 (order 1), -1 (order 2), 0 (order 4), others (order 8).

The list is that of Chalkias, Garillot and Nikolaenko, "Taming the many EdDSAs" (2020), table 1; the tests
derive it from the curve (RFC 8032, §5.1). The sign of x does not matter, since both points are of small
order.
"""


def signed_text(board: str) -> bytes:
    """Return what the studio signs for a board: a line that says what it is, and the whole name."""
    return _DOMAIN + board.encode()


def refuse_weak_key(raw: bytes) -> None:
    """Raise ValueError for what is no Ed25519 public key, is not canonical, or is of small order."""
    if len(raw) != _KEY_BYTES:
        raise ValueError("An Ed25519 public key has 32 bytes.")
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= _FIELD_PRIME:
        raise ValueError("The public key is not canonically encoded.")
    if y in _SMALL_ORDER_Y:
        raise ValueError("The public key is a point of small order.")


def public_key_bytes(text: str) -> bytes:
    """Return the 32 bytes of a public key in base64. Raises ValueError as `refuse_weak_key` does."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("expected 32 bytes in base64") from None
    refuse_weak_key(raw)
    return raw
