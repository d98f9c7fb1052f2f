"""Every secret of the edge, derived from one master key, so that nothing per run is stored or looked up."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from policies.errors import SettingsError

KEY_BYTES: Final = 32

_SALT: Final = b"scoregate/v1"


class Keyring:
    """Keys derived from a master key by HKDF-SHA256 (RFC 5869): extracted once, expanded per purpose."""

    def __init__(self, master: bytes) -> None:
        if len(master) < KEY_BYTES:
            raise SettingsError(f"the master key must have at least {KEY_BYTES} bytes, it has {len(master)}")
        self._extracted = hmac.digest(_SALT, master, "sha256")

    def derive(self, purpose: bytes) -> bytes:
        """32 bytes for a purpose: HKDF-Expand with `purpose` as info (RFC 5869, §2.3), whose first block is enough."""
        return hmac.digest(self._extracted, purpose + b"\x01", "sha256")

    def __repr__(self) -> str:
        return "Keyring(...)"

    @property
    def fingerprint(self) -> str:
        """Eight hex digits to tell master keys apart in logs; says nothing of the key."""
        return hashlib.sha256(self.derive(b"fingerprint")).hexdigest()[:8]


def load_keyring(data_dir: Path, configured: str | None) -> Keyring:
    """The keyring of the configured base64 master key, or of the one kept in the data directory, made if missing.

    Raises SettingsError if it cannot be read, is too short, or if others may read its file.
    """
    if configured is not None:
        return Keyring(_decode(configured, "SCOREGATE_MASTER_KEY"))
    path = data_dir / "master.key"
    try:
        _create(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SettingsError(f"{path}: others may read the master key; run: chmod 600 {path}")
        return Keyring(_decode(path.read_text(encoding="ascii").strip(), str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: the master key cannot be read: {error}") from None


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return
    made = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(made, path)  # whole or not at all, and never over a key that another process has just made
    except FileExistsError:
        pass
    finally:
        made.unlink()


def _decode(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(f"{where}: expected the master key in base64") from None
