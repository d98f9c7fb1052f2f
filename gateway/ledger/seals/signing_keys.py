"""The Ed25519 key (RFC 8032) that signs seals, and the public keys that check them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from gateway.runtime.key_files import KEY_BYTES, decode_key, make_key, read_key
from policies.bounded_files import bytes_of
from policies.errors import SettingsError

FILE_NAME: Final = "seal.key"

LARGEST_FILE: Final = 2**20
"""Most bytes of a file of public keys."""

_KEY_LABEL: Final = "the seal key"
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


class SealKey:
    """The steward's private key."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise SettingsError(f"{_KEY_LABEL} must have {KEY_BYTES} bytes, it has {len(secret)}")
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public_key = self._key.public_key()
        self.key_id = key_id_of(self.public_key)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return self._key.sign(message)

    def public_pem(self) -> str:
        """Return the public key as PEM (RFC 8410), which `read_public_keys` and other programs read."""
        return self.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def __repr__(self) -> str:
        return f"SealKey({self.key_id[:8]}...)"


class PublicKeys:
    """Trusted public keys, by their ids."""

    def __init__(self, *keys: Ed25519PublicKey) -> None:
        self._keys: Mapping[str, Ed25519PublicKey] = {key_id_of(key): key for key in keys}

    def is_signed(self, key_id: str, message: bytes, signature: bytes) -> bool:
        """Return whether the key is one of these and made the signature."""
        try:
            self._keys[key_id].verify(signature, message)
        except (KeyError, InvalidSignature):
            return False
        return True


def key_id_of(key: Ed25519PublicKey) -> str:
    """Return the id of a key: the SHA-256 of its 32 bytes, in hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def load_seal_key(data_dir: Path, configured: str | None, *, is_made: bool) -> SealKey:
    """Return the configured base64 key, or the key in the data directory, which `is_made` makes if necessary.

    Raises SettingsError if it cannot be read, or if others may read its file.
    """
    if configured is not None:
        return SealKey(decode_key(configured, "SCOREGATE_SEAL_KEY", _KEY_LABEL))
    path = data_dir / FILE_NAME
    if is_made:
        make_key(path, _KEY_LABEL)
    elif not path.exists():
        raise SettingsError(f"{path}: there is no seal key yet; the steward makes it when it first starts")
    return SealKey(read_key(path, _KEY_LABEL))


def read_public_keys(path: Path) -> PublicKeys:
    """Return the keys of a file, one or more in PEM. Raises SettingsError."""
    try:
        keys = [load_pem_public_key(pem) for pem in _PEM.findall(bytes_of(path, LARGEST_FILE))]
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"{path}: the public key cannot be read: {error}") from None
    ed25519_keys = [key for key in keys if isinstance(key, Ed25519PublicKey)]
    if not ed25519_keys or len(ed25519_keys) != len(keys):
        raise SettingsError(
            f"{path}: expected Ed25519 public keys in PEM, as `scoregate ledger public-key` prints them"
        )
    return PublicKeys(*ed25519_keys)
