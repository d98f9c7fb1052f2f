"""Secret keys in the data directory: made once, and readable by their owner alone."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from policies.errors import SettingsError

KEY_BYTES: Final = 32


def make_key(path: Path, what: str) -> None:
    """Make the file with 32 random bytes in base64, unless it exists. Raises SettingsError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create(path)
    except OSError as error:
        raise SettingsError(f"{path}: {what} cannot be made: {error}") from None


def read_key(path: Path, what: str) -> bytes:
    """Return the key in the file. Raises SettingsError if it is unreadable, or readable by others."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SettingsError(f"{path}: others may read {what}; run: chmod 600 {path}")
        return decode_key(path.read_text(encoding="ascii").strip(), str(path), what)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {what} cannot be read: {error}") from None


def decode_key(text: str, where: str, what: str) -> bytes:
    """Return the key that `text` holds in base64. Raises SettingsError, which does not repeat the text."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(f"{where}: expected {what} in base64") from None
    if len(key) < KEY_BYTES:
        raise SettingsError(f"{where}: {what} must have at least {KEY_BYTES} bytes, it has {len(key)}")
    return key


def _create(path: Path) -> None:
    # The first processes of two containers over one volume have the same number.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)  # atomic, and never replaces a key that another process has just made
    finally:
        draft.unlink()
