"""The steps of which the queue's changes on a disk consist. A process may be killed between any two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Disk(Protocol):
    """A folder of files."""

    def names(self) -> list[str]:
        """Return the names of all files."""

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError."""

    def write(self, name: str, content: bytes) -> None:
        """Make a file that only its owner reads, and have its content on the disk."""

    def rename(self, name: str, new: str) -> None:
        """Give a file another name, in the place of the file that had it."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def sync(self) -> None:
        """Have the names of files on the disk."""

    def locked(self, name: str, *, waits: bool) -> AbstractContextManager[bool]:
        """Hold the lock of this name; without `waits` give false if somebody else has it."""


class FolderDisk:
    """A folder on a real disk. It is made when it is first used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """Return the names of all files."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [path.name for path in self._folder.iterdir()]

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self._folder / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Make a file that only its owner reads, and have its content on the disk."""
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)

    def rename(self, name: str, new: str) -> None:
        """Give a file another name."""
        (self._folder / name).replace(self._folder / new)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            (self._folder / name).unlink()

    def sync(self) -> None:
        """Have the names of files on the disk."""
        if os.name == "nt":  # Windows opens no folders, and writes names through
            return
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def locked(self, name: str, *, waits: bool) -> Iterator[bool]:
        """Hold the lock of this name; without `waits` give false if somebody else has it.

        The system lets go of it when the process dies.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _lock(descriptor, waits=waits)
        finally:
            os.close(descriptor)


def _lock(descriptor: int, *, waits: bool) -> bool:
    if fcntl is None:
        return _lock_on_windows(descriptor, waits=waits)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(descriptor: int, *, waits: bool) -> bool:
    import msvcrt  # noqa: PLC0415 - only Windows has it

    kind = "LK_LOCK" if waits else "LK_NBLCK"  # the first tries for ten seconds
    try:
        msvcrt.locking(descriptor, getattr(msvcrt, kind), 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return False
    return True
