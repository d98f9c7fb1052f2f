"""Recovery codes: 95 random bits in letters and digits that are hard to mistake, and one to check them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: without I, L, O and U."""

RANDOM: Final = 19
"""Random characters, of five bits each; the twentieth checks them."""

_GROUP: Final = 5
_FIELD: Final = 0b100101
"""x^5 + x^2 + 1, which is primitive: no power below 31 of x is 1, so swapped neighbours are noticed."""

_READ_AS: Final = str.maketrans({"O": "0", "I": "1", "L": "1"})
_BETWEEN: Final = re.compile(r"[\s-]+")


def new_recovery_code() -> str:
    """Return a new code, as people write it down: four groups of five characters."""
    values = [secrets.randbelow(32) for _ in range(RANDOM)]
    values.append(_times_x(_remainder(values)))
    text = "".join(ALPHABET[value] for value in values)
    return "-".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))


def read_recovery_code(text: str) -> str | None:
    """Return the characters of a code that somebody typed, in whatever case and groups; None for a typo."""
    code = _BETWEEN.sub("", text).upper().translate(_READ_AS)
    if len(code) != RANDOM + 1 or not set(code) <= set(ALPHABET):
        return None
    return code if _remainder([ALPHABET.index(character) for character in code]) == 0 else None


def _remainder(values: Sequence[int]) -> int:
    """Return the sum of each value times x to the power of its place, over the field of 32 elements.

    It is 0 of a whole code, and of none that differs in one character, or in the order of two neighbours.
    """
    total = 0
    for value in values:
        total = _times_x(total) ^ value
    return total


def _times_x(value: int) -> int:
    return value << 1 ^ (_FIELD if value & 0b10000 else 0)
