"""A temporary folder of this process for what its programs read. It does not outlive the process.

The process holds a lock on a file in it. The next process removes what a killed one left behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from replay.simulators.child_process import SandboxUnavailable

PREFIX: Final = "scoregate-simulator-"
_LOCK, _UNREADY = "lock", "unready"


class Workspace:
    """The folder. Raises SandboxUnavailable if it cannot be created."""

    def __init__(self) -> None:
        remove_abandoned()
        with writing():
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self.path.chmod(0o711)  # a root worker runs programs as nobody, who must be able to enter
            unready = self.path / _UNREADY
            self._lock = os.open(unready, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unready.rename(self.path / _LOCK)  # so that nobody ever sees the file unlocked

    def folder(self) -> Path:
        """Create a folder in it. Raises SandboxUnavailable."""
        with writing():
            folder = Path(tempfile.mkdtemp(dir=self.path))
            folder.chmod(0o755)
        return folder

    def close(self) -> None:
        """Remove it with its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


@contextmanager
def writing() -> Iterator[None]:
    """Raise SandboxUnavailable for an OSError: failing to write what a program reads is our fault."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(f"what a program reads cannot be copied: {error}") from None


def remove_abandoned() -> None:
    """Remove the folders of this user's processes that are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is another user's, or already gone
            if path.lstat().st_uid == os.geteuid() and _is_abandoned(path / _LOCK):
                shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
