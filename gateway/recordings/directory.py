"""Blobs as files of one directory. A file is synced before it gets its name, and its name before anybody is told."""

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
"""Where a file is written before it gets its name; what a crash leaves there is collected."""

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


class DirectoryBlobs:
    """Blobs in a directory of a local file system with hard links. See `Blobs` for the methods."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._synced: set[Path] = set()

    def put(self, name: str, body: bytes) -> bool:
        """True once file and name are on the disk; a name that is taken is left as it is."""
        path = self._root / name
        with _faults(), self._incoming(body) as written:
            self._make_folder(path.parent)
            try:
                os.link(written, path)
            except FileExistsError:
                is_new = False
            else:
                is_new = True
            _sync(path.parent)  # also where it was there: whoever wrote it may not have come to this yet
        return is_new

    def replace(self, name: str, body: bytes) -> None:
        """Puts the new file in the place of the old in one step."""
        path = self._root / name
        with _faults(), self._incoming(body) as written:
            self._make_folder(path.parent)
            written.replace(path)
            _sync(path.parent)

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        """The file's bytes, or None."""
        with _faults():
            try:
                with (self._root / name).open("rb") as file:
                    return file.read(limit_bytes + 1)
            except FileNotFoundError:
                return None

    def move(self, name: str, to: str) -> None:
        """Dates the file, then renames it: what was dated and not renamed is merely found later."""
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
        """Unlinks the file."""
        with _faults():
            (self._root / name).unlink(missing_ok=True)

    def now_ms(self) -> int:
        """The date of a file that is touched for it."""
        path = self._root / CLOCK
        with _faults():
            self._make_folder(path.parent)
            path.touch(FILE_MODE)
            return path.stat().st_mtime_ns // 1_000_000

    def page(self, after: str, count: int) -> list[Blob]:
        """Files below the directory, those of crashed writes among them; no more than a page of them is looked at."""
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
        """A synced file with this body and a name of its own, gone after the block unless the block moved it."""
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
        """Has the folder, and its name and those above it on the disk, looked after once by each process."""
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        while folder not in self._synced and folder != self._root.parent:
            _sync(folder.parent)
            self._synced.add(folder)
            folder = folder.parent


def _files(folder: Path, after: tuple[str, ...]) -> Iterator[Path]:
    """Files below a folder in the order of their names, beyond the one whose path from there is `after`."""
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
    """Puts the names in a folder on the disk; POSIX needs that beside the sync of the files (fsync(2), notes)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _faults() -> AbstractContextManager[None]:
    """Has what the operating system refuses say so as RecordingsUnavailable."""
    return boundary(FaultPlace.RECORDINGS, _unavailable)


def _unavailable(said: str) -> RecordingsUnavailable:
    return RecordingsUnavailable(f"the directory of recordings: {said}")
