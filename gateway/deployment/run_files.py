"""The processes of a deployment on this machine. Each keeps a locked file in `run/` of the data directory.

The kernel knows who holds a lock, so no number in a file is believed: a process that is gone holds none. What
a process has to say besides is in a hidden file of the same name, its note.
"""

from __future__ import annotations

import fcntl
import os
import re
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
"""The start of this process (Unix milliseconds)."""

FOLDER: Final = "run"

HIDDEN: Final = "***"
"""What an address has in place of its credentials, which no note may have."""

_USER: Final = re.compile(r"//[^/]*@")
_OPTION: Final = re.compile(r"([?&](?!db=)[^=&]*)=[^&]*")

_FLOCK: Final = "qqihh" if sys.platform == "darwin" else "hhqqi4x"
"""The layout of `struct flock` (fcntl(2)) on this platform."""

_log = logger()


@dataclass(frozen=True, slots=True)
class RunningPart:
    """A part that runs on this machine. `pid` is 0 if its process is in another container.

    `redis` is the address of its index, without credentials, and `bind` where an edge listens. Either is None
    for a part that noted none.
    """

    part: str
    pid: int
    since_ms: int
    path: Path
    redis: str | None = None
    bind: str | None = None

    def note(self) -> bytes | None:
        """Return what the part has noted last, None if nothing. Raises OSError."""
        try:
            return _note_of(self.path).read_bytes()
        except FileNotFoundError:
            return None


class PartFile:
    """The file of this process. Without a `path` there is none, and its notes go nowhere."""

    def __init__(self, part: str, path: Path | None) -> None:
        self.part = part
        self._path = path

    def put_note(self, note: bytes) -> None:
        """Note what the process has to say, in place of what it said before."""
        if self._path is None:
            return
        unready = _unready(self._path)
        try:
            unready.write_bytes(note)
            unready.replace(_note_of(self._path))  # a reader sees the whole note, or the one before
        except OSError as error:
            _log.warning(Event.NOT_NOTED, part=self.part, error=str(error))


class _Lock(NamedTuple):
    kind: int
    pid: int


@contextmanager
def noted(
    data_dir: Path, part: str, redis_url: str | None = None, bind: str | None = None
) -> Iterator[PartFile]:
    """Keep the file of this process while the block runs. Use it once per process."""
    # A second file would end the lock of the first when it is closed (fcntl(2): POSIX locks are of the
    # process).
    try:
        file, path = _note(data_dir / FOLDER, part, redis_url and without_credentials(redis_url), bind)
    except OSError as error:
        # The part itself needs no file. `reload` and `status` do not find it now, nor do commands its Redis.
        _log.warning(Event.NOT_NOTED, part=part, error=str(error))
        yield PartFile(part, None)
        return
    try:
        yield PartFile(part, path)
    finally:
        _remove(path)
        os.close(file)


def running_parts(data_dir: Path) -> list[RunningPart]:
    """Return the parts that run here, and remove the files of those that are gone. Raises OSError."""
    folder = data_dir / FOLDER
    if not folder.is_dir():
        return []
    files = (path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and path.is_file())
    return [part for part in map(_read, files) if part]


def without_credentials(url: str) -> str:
    """Return the URL of a Redis with HIDDEN in place of its user, its password, and all options but `db`."""
    return _OPTION.sub(rf"\1={HIDDEN}", _USER.sub(f"//{HIDDEN}@", url))


def hang_up(part: RunningPart) -> bool:
    """Send SIGHUP to a part; return False if it is gone, or in another container."""
    if not part.pid:
        return False
    process = None
    try:
        # The descriptor is opened before the second look at the lock, so that a reused pid is never
        # signalled.
        process = os.pidfd_open(part.pid) if sys.platform == "linux" else None
        if (current := _read(part.path)) is None or current.pid != part.pid:
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


def _note(folder: Path, part: str, redis: str | None, bind: str | None) -> tuple[int, Path]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    running_parts(folder.parent)
    name = f"{part}-{os.getpid()}-{secrets.token_hex(4)}"
    unready, path = folder / f".{name}", folder / name
    file = os.open(unready, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(file, orjson.dumps({"part": part, "since_ms": BEGAN_MS, "redis": redis, "bind": bind}))
        unready.rename(path)  # nobody sees the file before it is locked
    except OSError:
        os.close(file)
        unready.unlink(missing_ok=True)
        raise
    return file, path


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.note")


def _unready(path: Path) -> Path:
    return path.with_name(f".{path.name}.unready")


def _remove(path: Path) -> None:
    """Remove the file of a process, and its note."""
    for each in (path, _note_of(path), _unready(path)):
        each.unlink(missing_ok=True)


def _read(path: Path) -> RunningPart | None:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        lock = _lock_of(file)
        if lock.kind == fcntl.F_UNLCK:
            _remove(path)
            return None
        facts = orjson.loads(os.read(file, 4096))
        where = facts.get("redis"), facts.get("bind")
        return RunningPart(facts["part"], max(lock.pid, 0), facts["since_ms"], path, *where)
    finally:
        os.close(file)


def _lock_of(file: int) -> _Lock:
    is_darwin = sys.platform == "darwin"
    query = (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET) if is_darwin else (fcntl.F_WRLCK, 0, 0, 0, 0)
    answer = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(_FLOCK, *query)))
    return _Lock(answer[3], answer[2]) if is_darwin else _Lock(answer[0], answer[4])
