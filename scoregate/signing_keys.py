"""Reads the keys that a person gives to sign a request, or to have one explained."""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gateway.edge.auth.server_keys import EVERY_BOARD, TrustedServer
from policies.bounded_files import bytes_of
from policies.errors import SettingsError

KEY_BYTES: Final = 32

LONGEST_KEY: Final = 2**16
"""Most bytes of a file with a key."""

SHOWN_CHARACTERS: Final = 100
"""Most characters that a fault repeats of a key's id."""

LONGEST_REQUEST: Final = 2**26
"""Most bytes of a request that is signed or explained; no route takes as many."""

_KEY_ID: Final = re.compile(r"[!#-\[\]-~]{1,1024}")
"""The `keyid` that a signature may name, as signatures.md says."""

_EXPECTED: Final = (
    "expected the answer that opened a run (JSON), the `key` of one (32 bytes in base64), "
    "or the private key of a server (Ed25519, PEM)"
)


class GivenKey(NamedTuple):
    """A key, and the `keyid` that came with it, empty if none did."""

    key: bytes | Ed25519PrivateKey
    key_id: str = ""


def checked_key_id(key_id: str, where: str) -> str:
    """Return the `keyid` of a signature. Raises SettingsError for one that no request can name."""
    if not _KEY_ID.fullmatch(key_id):
        shown = f"{key_id[:SHOWN_CHARACTERS]}…" if len(key_id) > SHOWN_CHARACTERS else key_id
        raise SettingsError(
            f'{where}: expected 1 to 1024 characters of ASCII without ", \\ and blanks, not {shown!r}'
        )
    return key_id


def read_key_file(path: Path) -> GivenKey:
    """Return the key in a file. Raises SettingsError, and OSError for a file that cannot be read."""
    return key_in(bytes_of(path, LONGEST_KEY).decode(errors="replace"), str(path))


def key_in(text: str, where: str) -> GivenKey:
    """Return the key in a text: a run, a run's key, or a server's private key. Raises SettingsError."""
    text = text.strip()
    if text.startswith("-----BEGIN"):
        return GivenKey(_server_key(text, where))
    if text.startswith("{"):
        return _key_of_run(text, where)
    return GivenKey(_key_bytes(text, where))


def _server_key(text: str, where: str) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError):
        raise SettingsError(f"{where}: {_EXPECTED}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(f"{where}: {_EXPECTED}")
    return key


def _key_of_run(text: str, where: str) -> GivenKey:
    try:
        run = json.loads(text)
        return GivenKey(_key_bytes(run["key"], where), str(run["ticket"]))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise SettingsError(f"{where}: {_EXPECTED}") from None


def _key_bytes(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(f"{where}: {_EXPECTED}") from None
    if len(key) != KEY_BYTES:
        raise SettingsError(f"{where}: {_EXPECTED}; it has {len(key)} bytes")
    return key


class GivenKeys:
    """A given key in the place of all keys of a deployment."""

    def __init__(self, given: GivenKey) -> None:
        self._given = given

    def key(self, _ticket: str) -> bytes:
        """Return the key of a run; for a server's key, one that nobody has."""
        return self._given.key if isinstance(self._given.key, bytes) else secrets.token_bytes(KEY_BYTES)

    async def find(self, key_id: str) -> TrustedServer | None:
        """Return a server with the public part of a given private key."""
        if isinstance(self._given.key, bytes):
            return None
        return TrustedServer(key_id, self._given.key.public_key(), (EVERY_BOARD,))
