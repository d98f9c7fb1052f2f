"""The identity of a folder that a program reads: one SHA-256 over a list of everything in it.

The list has a line for each entry, in byte order of the paths, each ended by a line feed:

    file <SHA-256 of the content>  ./<path>
    program <SHA-256 of the content>  ./<path>      a file that its owner may execute
    link <SHA-256 of the target>  ./<path>
    folder -  ./<path>

Owners, times and other permissions do not count and do not reach the program. Links are never followed, so
nothing outside the folder is read.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from policies.errors import ScoregateError
from policies.system import SYSTEM

ENTRIES_LIMIT: Final = 65_536
BYTES_LIMIT: Final = 1024 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024


class TreeRefused(ScoregateError):
    """A program cannot be given this folder."""


class EntryKind(StrEnum):
    """The kind of a folder's entry, by its word in the list."""

    FILE = "file"
    PROGRAM = "program"
    LINK = "link"
    FOLDER = "folder"


class TreeEntry(NamedTuple):
    """An entry of a folder: its path from there, with slashes, and its `stat` result."""

    path: str
    kind: EntryKind
    status: os.stat_result


class Tree(NamedTuple):
    """A folder that was read: its digest in hex, and the bytes of its files."""

    digest: str
    size_bytes: int


class TreeSink(Protocol):
    """Receives the contents of a folder, each folder before what it holds."""

    def folder(self, path: str) -> None:
        """Receive a folder."""

    def link(self, path: str, target: str) -> None:
        """Receive a link."""

    def file(self, path: str, kind: EntryKind) -> AbstractContextManager[Callable[[bytes], object]]:
        """Return a receiver for the content of a file, called chunk by chunk."""


class _DiscardingSink:
    """Discards everything, for callers that need only the digest."""

    def folder(self, path: str) -> None:
        """Discard a folder."""

    def link(self, path: str, target: str) -> None:
        """Discard a link."""

    def file(self, _path: str, _kind: EntryKind) -> AbstractContextManager[Callable[[bytes], object]]:
        """Discard the content of a file."""
        return nullcontext(len)


_DISCARD: Final = _DiscardingSink()


def read_tree(folder: Path, sink: TreeSink = _DISCARD) -> Tree:
    """Read a folder once and return its digest. The sink receives the very bytes that are hashed.

    Raises OSError for unreadable entries, and TreeRefused.
    """
    lines, size_bytes = {}, 0
    for entry in entries(folder):
        value, read_bytes = _value(entry, folder, sink, BYTES_LIMIT - size_bytes)
        size_bytes += read_bytes
        lines[entry.path] = f"{entry.kind} {value}  ./{entry.path}\n"
    listing = "".join(lines[path] for path in sorted(lines, key=str.encode))
    return Tree(hashlib.sha256(listing.encode()).hexdigest(), size_bytes)


def fingerprint(folder: Path) -> str:
    """Return a digest that changes with any entry, without reading contents.

    Raises OSError and TreeRefused.
    """
    digest = hashlib.sha256()
    for entry in entries(folder):
        status = entry.status
        times = status.st_mtime_ns, status.st_ctime_ns
        digest.update(repr((entry.path, status.st_mode, status.st_size, status.st_ino, *times)).encode())
    return digest.hexdigest()


def entries(folder: Path) -> Iterator[TreeEntry]:
    """Yield everything in a folder, each folder before what it holds. Raises OSError and TreeRefused."""
    waiting, count = [""], 0
    while waiting:
        within = waiting.pop()
        with os.scandir(folder / within) as directory:
            for item in directory:
                count += 1
                if count > ENTRIES_LIMIT:
                    raise TreeRefused(f"{folder}: it has more than {ENTRIES_LIMIT} entries")
                entry = _entry(item, within, folder)
                if entry.kind is EntryKind.FOLDER:
                    waiting.append(entry.path)
                yield entry


def _entry(item: os.DirEntry[str], within: str, folder: Path) -> TreeEntry:
    path = posixpath.join(within, item.name)
    status = item.stat(follow_symlinks=False)
    _refuse_name(path, folder)
    kind = _kind(status.st_mode)
    if kind is None:
        raise TreeRefused(f"{folder}: {path} is not a file, folder or link")
    return TreeEntry(path, kind, status)


def _refuse_name(path: str, folder: Path) -> None:
    with suppress(UnicodeEncodeError):
        path.encode()
        if all(ord(character) >= ord(" ") for character in path):
            return
    raise TreeRefused(f"{folder}: {path!r} is not a name that can be listed: it must be text on one line")


def _kind(mode: int) -> EntryKind | None:
    if stat.S_ISREG(mode):
        return EntryKind.PROGRAM if mode & stat.S_IXUSR else EntryKind.FILE
    if stat.S_ISLNK(mode):
        return EntryKind.LINK
    return EntryKind.FOLDER if stat.S_ISDIR(mode) else None


def _value(entry: TreeEntry, folder: Path, sink: TreeSink, limit_bytes: int) -> tuple[str, int]:
    """Return an entry's value in the list, and the bytes of its content."""
    if entry.kind is EntryKind.FOLDER:
        sink.folder(entry.path)
        return "-", 0
    if entry.kind is EntryKind.LINK:
        target = os.readlink(folder / entry.path)  # noqa: PTH115 - a Path would rewrite what the link says
        _refuse_target(entry.path, target, folder)
        sink.link(entry.path, target)
        return hashlib.sha256(target.encode()).hexdigest(), 0
    with sink.file(entry.path, entry.kind) as write:
        return _content(folder / entry.path, write, limit_bytes, entry.status.st_size)


def _refuse_target(path: str, target: str, folder: Path) -> None:
    """Raise TreeRefused for a link that would lead nowhere in the sandbox."""
    # This helps the folder's author. A link that escapes it reaches only what a program could open anyway.
    _refuse_name(target, folder)
    destination = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    is_inside = not destination.startswith(("/", "../")) and destination != ".."
    if not is_inside and not any(f"{destination}/".startswith(f"{path}/") for path in SYSTEM):
        raise TreeRefused(
            f"{folder}: {path} links to {target!r}, which is neither in the folder nor among the "
            "system folders that a sandbox shows (/usr, /bin, /lib)"
        )


def _content(
    source: Path, write: Callable[[bytes], object], limit_bytes: int, likely_bytes: int
) -> tuple[str, int]:
    digest, read_bytes = hashlib.sha256(), 0
    piece_bytes = min(likely_bytes + 1, CHUNK_BYTES)  # most files are small, and a large buffer costs time
    # A file may have been replaced since it was listed: do not follow a link or wait for a pipe.
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while chunk := file.read(piece_bytes):
            read_bytes += len(chunk)
            if read_bytes > limit_bytes:
                raise TreeRefused(f"{source}: with this file its folder exceeds {BYTES_LIMIT} bytes")
            digest.update(chunk)
            write(chunk)
    return digest.hexdigest(), read_bytes
