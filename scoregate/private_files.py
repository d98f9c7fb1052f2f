"""What a deployment keeps on disk is for its own user alone: it holds players' recordings and the secrets of webhooks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from policies.errors import SettingsError

_OTHERS: Final = 0o077


def write_privately() -> None:
    """Has what this process and its children make from now on be readable by their own user alone."""
    os.umask(_OTHERS)


def keep_private(data_dir: Path) -> None:
    """Makes the data directory, or takes back what others may do in it. Raises SettingsError if that cannot be.

    Two levels are looked at: what is deeper cannot be reached past them.
    """
    write_privately()
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
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
