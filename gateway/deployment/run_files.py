"""Which processes of a deployment run on this machine: each keeps a locked file in `run/` of the data directory.

The kernel says who holds a lock, so a number in a file is never believed: a process that is gone holds none.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from gateway.runtime.clock import wall_clock
from gateway.runtime.telemetry import Event, logger

BEGAN_MS: Final = wall_clock()
"""When this process began, in Unix milliseconds."""

FOLDER: Final = "run"

_FLOCK: Final = "qqihh" if sys.platform == "darwin" else "hhqqi4x"
"""`struct flock` of fcntl(2) in the order of the platform's fields."""

_log = logger()


@dataclass(frozen=True, slots=True)
class RunningPart:
    """A part that runs here; `pid` is 0 if its process is in another container."""

    part: str
    pid: int
    since_ms: int
    path: Path


class _Lock(NamedTuple):
    kind: int
    pid: int


@contextmanager
def noted(data_dir: Path, part: str) -> Iterator[None]:
    """Keeps the file of this process while the block runs. One process keeps one file: POSIX locks end when any is closed."""
    try:
        file, path = _note(data_dir / FOLDER, part)
    except OSError as error:
        _log.warning(
            Event.NOT_NOTED, part=part, error=str(error)
        )  # `reload` and `status` miss it, and no more
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def running_parts(data_dir: Path) -> list[RunningPart]:
    """The parts that run here; files of processes that are gone are taken away. Raises OSError."""
    folder = data_dir / FOLDER
    if not folder.is_dir():
        return []
    found = (_read(path) for path in sorted(folder.iterdir()) if not path.name.startswith("."))
    return [each for each in found if each]


def hang_up(part: RunningPart) -> bool:
    """Sends SIGHUP to a part; False if it is gone, or in another container."""
    if not part.pid:
        return False
    process = None
    try:
        process = os.pidfd_open(part.pid) if sys.platform == "linux" else None
        if (again := _read(part.path)) is None or again.pid != part.pid:
            return False
        if process is None:
            os.kill(part.pid, signal.SIGHUP)
        else:
            signal.pidfd_send_signal(process, signal.SIGHUP)
    except ProcessLookupError:
        return False
    finally:
        if process is not None:
            os.close(process)
    return True


def _note(folder: Path, part: str) -> tuple[int, Path]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    running_parts(folder.parent)
    name = f"{part}-{os.getpid()}-{secrets.token_hex(4)}"
    unready, path = folder / f".{name}", folder / name
    file = os.open(unready, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(file, orjson.dumps({"part": part, "since_ms": BEGAN_MS}))
        unready.rename(path)  # whoever sees the file sees it locked
    except OSError:
        os.close(file)
        unready.unlink(missing_ok=True)
        raise
    return file, path


def _read(path: Path) -> RunningPart | None:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        lock = _lock_of(file)
        if lock.kind == fcntl.F_UNLCK:
            path.unlink(missing_ok=True)
            return None
        said = orjson.loads(os.read(file, 4096))
        return RunningPart(said["part"], max(lock.pid, 0), said["since_ms"], path)
    finally:
        os.close(file)


def _lock_of(file: int) -> _Lock:
    asked = (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET) if sys.platform == "darwin" else (fcntl.F_WRLCK, 0, 0, 0, 0)
    told = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(_FLOCK, *asked)))
    return _Lock(told[3], told[2]) if sys.platform == "darwin" else _Lock(told[0], told[4])
