"""Secret keys that are kept in the data directory: made once, for their owner's eyes alone."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from policies.errors import SettingsError

KEY_BYTES: Final = 32


def make_key(path: Path, what: str) -> None:
    """Makes the file with 32 random bytes in base64, if there is none. Raises SettingsError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create(path)
    except OSError as error:
        raise SettingsError(f"{path}: {what} cannot be made: {error}") from None


def read_key(path: Path, what: str) -> bytes:
    """The key in the file. Raises SettingsError if it cannot be read, or if others may read its file."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SettingsError(f"{path}: others may read {what}; run: chmod 600 {path}")
        return decode_key(path.read_text(encoding="ascii").strip(), str(path), what)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {what} cannot be read: {error}") from None


def decode_key(text: str, where: str, what: str) -> bytes:
    """The key that is written as base64. Raises SettingsError, which does not repeat it."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(f"{where}: expected {what} in base64") from None


def _create(path: Path) -> None:
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
