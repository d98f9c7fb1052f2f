"""The secrets of an edge, all derived from one master key, so that no key of a run is stored."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Final

from gateway.runtime.key_files import KEY_BYTES, decode_key, make_key, read_key
from gateway.runtime.settings import Settings
from policies.errors import SettingsError

_SALT: Final = b"scoregate/v1"


class Keyring:
    """Keys derived from a master key by HKDF-SHA256 (RFC 5869): extracted once, expanded per purpose."""

    def __init__(self, master: bytes) -> None:
        if len(master) < KEY_BYTES:
            raise SettingsError(f"the master key must have at least {KEY_BYTES} bytes, it has {len(master)}")
        # Copied for each key. `hmac.digest` would give the interpreter lock away, and wait to get it back.
        self._expanding = hmac.new(hmac.digest(_SALT, master, "sha256"), digestmod="sha256")

    def derive(self, purpose: bytes) -> bytes:
        """Return 32 bytes: the first block of HKDF-Expand with `purpose` as info (RFC 5869, §2.3)."""
        expanding = self._expanding.copy()
        expanding.update(purpose + b"\x01")
        return expanding.digest()

    def __repr__(self) -> str:
        return "Keyring(...)"

    @property
    def fingerprint(self) -> str:
        """Return eight hex digits that tell master keys apart in logs without revealing them."""
        return hashlib.sha256(self.derive(b"fingerprint")).hexdigest()[:8]


def load_keyring(data_dir: Path, configured: str | None) -> Keyring:
    """Return the keyring of the configured base64 master key, or of the data directory's, made if missing.

    Raises SettingsError if the key cannot be read, is too short, or is in a file that others may read.
    """
    if configured is not None:
        return Keyring(decode_key(configured, "SCOREGATE_MASTER_KEY", "the master key"))
    path = data_dir / "master.key"
    make_key(path, "the master key")
    return Keyring(read_key(path, "the master key"))


def keyring_of(settings: Settings) -> Keyring:
    """Return the keyring of this deployment. Raises SettingsError."""
    configured = settings.master_key.get_secret_value() if settings.master_key else None
    return load_keyring(settings.data_dir, configured)
