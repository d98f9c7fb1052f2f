"""Blobs as files of a directory. A file is synced before it is named, and its name before a method ends."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from gateway.recordings.blobs import CLOCK, Blob
from gateway.runtime.boundary import boundary
from gateway.runtime.unexpected import FaultPlace
from policies.errors import RecordingsUnavailable

INCOMING: Final = "incoming"
"""The folder of files that have no name yet. The steward collects what crashes leave there."""

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


class DirectoryBlobs:
    """Blobs in a directory of a local file system with hard links. See `Blobs` for the methods."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._synced: set[Path] = set()

    def put(self, name: str, body: bytes) -> bool:
        """Write a file; return False if the name is taken."""
        path = self._root / name
        with _faults(), self._incoming(body) as written:
            self._make_folder(path.parent)
            try:
                os.link(written, path)
            except FileExistsError:
                is_new = False
            else:
                is_new = True
            _sync(path.parent)  # also if the name is taken: its writer may not have synced it yet
        return is_new

    def replace(self, name: str, body: bytes) -> None:
        """Replace a file in one step."""
        path = self._root / name
        with _faults(), self._incoming(body) as written:
            self._make_folder(path.parent)
            written.replace(path)
            _sync(path.parent)

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        """Return the file's bytes, or None."""
        with _faults():
            try:
                with (self._root / name).open("rb") as file:
                    return file.read(limit_bytes + 1)
            except FileNotFoundError:
                return None

    def size(self, name: str) -> int | None:
        """Return the size of the file, or None."""
        with _faults():
            try:
                return (self._root / name).stat().st_size
            except FileNotFoundError:
                return None

    def part(self, name: str, start: int, count: int) -> bytes | None:
        """Return bytes of the file from `start`, or None."""
        with _faults():
            try:
                with (self._root / name).open("rb") as file:
                    file.seek(start)
                    return file.read(count)
            except FileNotFoundError:
                return None

    def move(self, name: str, to: str) -> None:
        """Date a file, then rename it. A crash in between only makes it look newer."""
        source, target = self._root / name, self._root / to
        with _faults():
            self._make_folder(target.parent)
            try:
                os.utime(source)
                source.replace(target)
            except FileNotFoundError:
                return
            _sync(target.parent)
            _sync(source.parent)

    def remove(self, name: str) -> None:
        """Unlink the file."""
        with _faults():
            (self._root / name).unlink(missing_ok=True)

    def now_ms(self) -> int:
        """Return the date of a file that is touched for this."""
        path = self._root / CLOCK
        with _faults():
            self._make_folder(path.parent)
            path.touch(FILE_MODE)
            return path.stat().st_mtime_ns // 1_000_000

    def page(self, after: str, count: int) -> list[Blob]:
        """Return a page of all files, with those of crashed writes. It reads no more than the page."""
        with _faults():
            paths = islice(_files(self._root, tuple(after.split("/")) if after else ()), count)
            return [blob for path in paths if (blob := self._blob(path))]

    def _blob(self, path: Path) -> Blob | None:
        try:
            return Blob(path.relative_to(self._root).as_posix(), path.stat().st_mtime_ns // 1_000_000)
        except FileNotFoundError:
            return None

    @contextmanager
    def _incoming(self, body: bytes) -> Iterator[Path]:
        """Yield a synced file with this body, and remove it after the block unless the block moved it."""
        path = self._root / INCOMING / secrets.token_hex(16)
        self._make_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(descriptor)
            yield path
        finally:
            with suppress(OSError):  # a full or failing disk: the next collection tries again
                path.unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        """Make a folder, and sync its name and those above it once per process."""
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        while folder not in self._synced and folder != self._root.parent:
            _sync(folder.parent)
            self._synced.add(folder)
            folder = folder.parent


def _files(folder: Path, after: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files below a folder in the order of their names, after the relative path `after`."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    for name in names:
        if after and name < after[0]:
            continue
        path, is_first = folder / name, bool(after) and name == after[0]
        if path.is_dir():
            yield from _files(path, after[1:] if is_first else ())
        elif not is_first:
            yield path


def _sync(folder: Path) -> None:
    """Sync the names in a folder. Syncing a file does not sync its name (fsync(2), notes)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _faults() -> AbstractContextManager[None]:
    """Turn errors of the operating system into RecordingsUnavailable."""
    return boundary(FaultPlace.RECORDINGS, _unavailable)


def _unavailable(message: str) -> RecordingsUnavailable:
    return RecordingsUnavailable(f"the directory of recordings: {message}")
