"""Reads the files that somebody names up to a limit, since one of them may be a device without an end."""

from __future__ import annotations

from pathlib import Path

from policies.errors import SettingsError


def bytes_of(path: Path, most: int) -> bytes:
    """Return the content of a file. Raises SettingsError if it has more than `most` bytes, and OSError."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise SettingsError(f"{path}: expected up to {most} bytes")
    return content
