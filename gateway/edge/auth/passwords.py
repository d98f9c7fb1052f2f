"""Passwords of moderators: argon2id, a few at a time, beside the event loop."""

from __future__ import annotations

import asyncio
import os
import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from string import ascii_lowercase
from typing import Final, TypeVar

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from gateway.edge.problems import Problem, ProblemType

T = TypeVar("T")

MEMORY_KIB: Final = 19_456
PASSES: Final = 2
LANES: Final = 1
"""The least that OWASP's Password Storage Cheat Sheet recommends for argon2id: 19 MiB, twice, in one lane."""

SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
"""The salt and the tag of RFC 9106, section 4: 128 and 256 bits."""

AT_ONCE: Final = 2
"""Passwords that are hashed at once, each in a thread: 38 MiB."""

WAITING: Final = 32
"""Most passwords that wait for that; more are refused."""

SHORTEST: Final = 12
"""Characters of a password; eight are the least (OWASP ASVS 5.0, 6.2.1)."""

LONGEST: Final = 256

FEWEST_DIFFERENT: Final = 5

FEWEST_UNFORESEEN: Final = 6
"""Characters that are left when common words, and what goes on as it began, are taken out of a password."""

_COMMON: Final = re.compile(
    "correcthorsebatterystaple|changeme|trustno|iloveyou|password|passwort|passw|letmein|welcome|willkommen|"
    "administrator|admin|root|login|user|guest|default|secret|geheim|master|monkey|dragon|shadow|sunshine|"
    "princess|football|baseball|superman|batman|starwars|pokemon|michael|jordan|charlie|ashley|hello|hallo|"
    "spring|summer|autumn|winter|january|february|march|april|june|july|august|september|october|november|"
    "december|monday|tuesday|wednesday|thursday|friday|saturday|sunday|moderator|scoregate|console|gamer|game|"
    "score|azerty|qwerty|qwertz|zxcvbn|1q2w3e4r5t6y|1qaz2wsx3edc|1q2w3e4r|1qaz2wsx|test|(?:19|20)[0-9]{2}"
)
"""What people choose everywhere, written by us for ASVS 5.0, 6.2.4: a short list, that rules go on from."""

_ROWS: Final = (
    "qwertyuiop[]|qwertzuiopü|azertyuiop|asdfghjkl;'|zxcvbnm,./|1234567890123|!@#$%^&*()|" + ascii_lowercase
)
_READ_AS: Final = str.maketrans("@4310$57!", "aaeiossti")
"""Letters that look alike."""

_NOBODYS: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$6xmcZ6WcbiRmjBunEL6QzQ$WXRwg+H0BalfV4dSQXbjVANysJAGjCkRBEGY3Yr4zHI"
)
"""The hash of a password that no account has, so that an unknown name costs what a known one does."""


class Passwords:
    """Hashes passwords, and compares them with hashes, AT_ONCE at a time."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def hashed(self, password: str) -> str:
        """Return the hash of a password, as a PHC string. Raises `temporary-reduced-capacity`."""
        return await self._in_turn(_hash, _normal(password))

    async def are_equal(self, password: str, stored: str | None) -> bool:
        """Return whether a password is the stored one; no password is one that is not stored.

        Raises `temporary-reduced-capacity`.
        """
        is_equal = await self._in_turn(_is_hash_of, _normal(password), stored or _NOBODYS)
        return is_equal and stored is not None

    async def _in_turn(self, work: Callable[..., T], *arguments: object) -> T:
        if self._waiting >= WAITING:
            raise Problem(ProblemType.REDUCED_CAPACITY, "too many are logging in at once")
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(work, *arguments)
        finally:
            self._waiting -= 1


def check_new_password(password: str, name: str) -> None:
    """Raise `schema-violation` for a password that is too easy to guess for the account of this name."""
    if not SHORTEST <= len(password) <= LONGEST:
        detail = f"password: expected {SHORTEST} to {LONGEST} characters"
    elif len(set(password)) < FEWEST_DIFFERENT:
        detail = f"password: expected at least {FEWEST_DIFFERENT} different characters"
    elif name.lower() in password.lower():
        detail = "password: expected one without the name of the account in it"
    elif min(_unforeseen(text) for text in _spellings(password)) < FEWEST_UNFORESEEN:
        detail = "password: expected one that is less common, such as a few unrelated words"
    else:
        return
    raise Problem(ProblemType.SCHEMA_VIOLATION, detail)


def _spellings(password: str) -> tuple[str, str]:
    """Return a password without spaces and hyphens, as it is and as its signs look."""
    text = re.sub(r"[\s_-]", "", unicodedata.normalize("NFKC", password).lower())
    return text, text.translate(_READ_AS)


def _unforeseen(text: str) -> int:
    """Return how many characters are no common word, no repeat, and no step on from the two before them."""
    cycle = next((n for n in range(1, len(text)) if text[n:] == text[:-n]), len(text))
    left = _COMMON.sub("", text[:cycle])
    steps = [_step(one, other) for one, other in pairwise(left)]
    return len(left) - sum(one == other is not None for one, other in pairwise(steps))


def _step(one: str, other: str) -> int | None:
    """Return whether a character is the one before again (0), or its neighbour (1 or -1) on a keyboard."""
    if one == other:
        return 0
    return next((step for step, pair in ((1, one + other), (-1, other + one)) if pair in _ROWS), None)


def _normal(password: str) -> bytes:
    """Return the bytes of a password, however a keyboard composes its characters (NIST SP 800-63B)."""
    return unicodedata.normalize("NFKC", password).encode()


def _hash(password: bytes) -> str:
    salt = os.urandom(SALT_BYTES)
    function = Argon2id(salt=salt, length=HASH_BYTES, iterations=PASSES, lanes=LANES, memory_cost=MEMORY_KIB)
    return function.derive_phc_encoded(password)


def _is_hash_of(password: bytes, stored: str) -> bool:
    try:
        Argon2id.verify_phc_encoded(password, stored)
    except InvalidKey:
        return False
    return True
