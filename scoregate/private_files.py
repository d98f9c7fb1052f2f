"""Keeps a deployment's files for its own user: they hold players' recordings and secrets of webhooks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from policies.errors import SettingsError

_OTHERS: Final = 0o077


def write_privately() -> None:
    """Make files that this process and its children create readable by their own user alone."""
    os.umask(_OTHERS)


def keep_private(data_dir: Path) -> None:
    """Create the data directory, or revoke other users' rights in it. Raises SettingsError if that fails.

    Two levels are enough: nothing deeper can be reached past them.
    """
    write_privately()
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"{data_dir}: cannot be a data directory: {error.strerror}; give another with --data-dir"
        ) from None
    try:
        if data_dir.stat().st_mode & stat.S_ISVTX:
            raise SettingsError(f"{data_dir}: expected a directory of its own, not one that users share")
        for path in _within(data_dir):
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & _OTHERS and not path.is_symlink():
                path.chmod(mode & ~_OTHERS)
    except OSError as error:
        raise SettingsError(f"{error.filename}: cannot be kept from other users: {error.strerror}") from None


def _within(folder: Path) -> Iterator[Path]:
    yield folder
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from path.iterdir()
