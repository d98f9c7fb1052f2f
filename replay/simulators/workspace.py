"""A folder of this process' own among the temporary ones, for what its programs read; it does not outlive the process.

The process keeps a file in it locked. What a killed one leaves behind is taken away by whichever comes next.
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
    """The folder. Raises SandboxUnavailable if there can be none."""

    def __init__(self) -> None:
        remove_abandoned()
        with writing():
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self.path.chmod(0o711)  # a worker that is root runs programs as nobody, who has to come through
            unready = self.path / _UNREADY
            self._lock = os.open(unready, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unready.rename(self.path / _LOCK)  # whoever sees the file sees it locked

    def folder(self) -> Path:
        """A new folder in it. Raises SandboxUnavailable."""
        with writing():
            made = Path(tempfile.mkdtemp(dir=self.path))
            made.chmod(0o755)
        return made

    def close(self) -> None:
        """Removes it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


@contextmanager
def writing() -> Iterator[None]:
    """Has a failure to write what a program reads be ours: raises SandboxUnavailable for an OSError."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(f"what a program reads cannot be copied: {error}") from None


def remove_abandoned() -> None:
    """Removes the folders of this user's processes that are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is somebody else's, or went meanwhile
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
