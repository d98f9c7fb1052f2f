"""The Ed25519 key (RFC 8032) that seals are signed with, and the public keys that they are checked with."""

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
from policies.errors import SettingsError

FILE_NAME: Final = "seal.key"

_WHAT: Final = "the seal key"
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


class SealKey:
    """The steward's private key."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise SettingsError(f"{_WHAT} must have {KEY_BYTES} bytes, it has {len(secret)}")
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public_key = self._key.public_key()
        self.key_id = key_id_of(self.public_key)

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes."""
        return self._key.sign(message)

    def public_pem(self) -> str:
        """The public key as PEM (RFC 8410), which `read_public_keys` and other programs take."""
        return self.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def __repr__(self) -> str:
        return f"SealKey({self.key_id[:8]}...)"


class PublicKeys:
    """The keys whose signatures are believed, by their ids."""

    def __init__(self, *keys: Ed25519PublicKey) -> None:
        self._keys: Mapping[str, Ed25519PublicKey] = {key_id_of(key): key for key in keys}

    def is_signed(self, key_id: str, message: bytes, signature: bytes) -> bool:
        """True if the key is one of these and the signature is its own."""
        try:
            self._keys[key_id].verify(signature, message)
        except (KeyError, InvalidSignature):
            return False
        return True


def key_id_of(key: Ed25519PublicKey) -> str:
    """The name of a key: the SHA-256 of its 32 bytes, in hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def load_seal_key(data_dir: Path, configured: str | None, *, is_made: bool) -> SealKey:
    """The configured base64 key, or the one kept in the data directory, where it is made if `is_made`.

    Raises SettingsError if it cannot be read, or if others may read its file.
    """
    if configured is not None:
        return SealKey(decode_key(configured, "SCOREGATE_SEAL_KEY", _WHAT))
    path = data_dir / FILE_NAME
    if is_made:
        make_key(path, _WHAT)
    elif not path.exists():
        raise SettingsError(f"{path}: there is no seal key yet; the steward makes it when it first starts")
    return SealKey(read_key(path, _WHAT))


def read_public_keys(path: Path) -> PublicKeys:
    """The keys of a file, one or more in PEM. Raises SettingsError."""
    try:
        found = _PEM.findall(path.read_bytes())
        keys = [load_pem_public_key(each) for each in found]
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"{path}: the public key cannot be read: {error}") from None
    known = [key for key in keys if isinstance(key, Ed25519PublicKey)]
    if not known or len(known) != len(keys):
        raise SettingsError(
            f"{path}: expected Ed25519 public keys in PEM, as `scoregate ledger public-key` prints them"
        )
    return PublicKeys(*known)
