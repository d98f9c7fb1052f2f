"""What a folder that a program reads is known by: one SHA-256 over a list of everything in it.

The list has a line for each entry, in the order of the bytes of the paths, with a line feed after each:

    file <SHA-256 of the content>  ./<path>
    program <SHA-256 of the content>  ./<path>      a file that its owner may execute
    link <SHA-256 of the target>  ./<path>
    folder -  ./<path>

Nothing else of an entry counts, and nothing else reaches the program: no owner, no time, no other permission. Links are never
followed, so nothing outside of the folder is read.
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
    """A folder cannot be what a program reads."""


class EntryKind(StrEnum):
    """What an entry of a folder is, by the word that the list has for it."""

    FILE = "file"
    PROGRAM = "program"
    LINK = "link"
    FOLDER = "folder"


class TreeEntry(NamedTuple):
    """One entry: its path from the folder, with slashes, and what the system says of it."""

    path: str
    kind: EntryKind
    status: os.stat_result


class Tree(NamedTuple):
    """What was read of a folder: its digest in hex, and the bytes of its files."""

    digest: str
    size_bytes: int


class TreeSink(Protocol):
    """Takes what is read of a folder, each folder before what it holds."""

    def folder(self, path: str) -> None:
        """Takes a folder."""

    def link(self, path: str, target: str) -> None:
        """Takes a link."""

    def file(self, path: str, kind: EntryKind) -> AbstractContextManager[Callable[[bytes], object]]:
        """What takes the content of a file, piece by piece."""


class _DiscardingSink:
    """Keeps nothing."""

    def folder(self, path: str) -> None:
        """Lets it go."""

    def link(self, path: str, target: str) -> None:
        """Lets it go."""

    def file(self, path: str, kind: EntryKind) -> AbstractContextManager[Callable[[bytes], object]]:  # noqa: ARG002
        """Lets each piece go."""
        return nullcontext(len)


_DISCARD: Final = _DiscardingSink()


def read_tree(folder: Path, keeper: TreeSink = _DISCARD) -> Tree:
    """Reads everything in `folder` once: what the keeper is given are the very bytes that are hashed.

    Raises OSError for what cannot be read, and TreeRefused.
    """
    lines, size_bytes = {}, 0
    for entry in entries(folder):
        value, read_bytes = _value(entry, folder, keeper, BYTES_LIMIT - size_bytes)
        size_bytes += read_bytes
        lines[entry.path] = f"{entry.kind} {value}  ./{entry.path}\n"
    listing = "".join(lines[path] for path in sorted(lines, key=str.encode))
    return Tree(hashlib.sha256(listing.encode()).hexdigest(), size_bytes)


def fingerprint(folder: Path) -> str:
    """What changes if an entry does, of all that can be known without reading one. Raises OSError and TreeRefused."""
    digest = hashlib.sha256()
    for each in entries(folder):
        status = each.status
        times = status.st_mtime_ns, status.st_ctime_ns
        digest.update(repr((each.path, status.st_mode, status.st_size, status.st_ino, *times)).encode())
    return digest.hexdigest()


def entries(folder: Path) -> Iterator[TreeEntry]:
    """Everything in a folder, each folder in it before what it holds. Raises OSError and TreeRefused."""
    waiting, count = [""], 0
    while waiting:
        within = waiting.pop()
        with os.scandir(folder / within) as listed:
            for each in listed:
                count += 1
                if count > ENTRIES_LIMIT:
                    raise TreeRefused(f"{folder}: it has more than {ENTRIES_LIMIT} entries")
                entry = _entry(each, within, folder)
                if entry.kind is EntryKind.FOLDER:
                    waiting.append(entry.path)
                yield entry


def _entry(found: os.DirEntry[str], within: str, folder: Path) -> TreeEntry:
    path = posixpath.join(within, found.name)
    status = found.stat(follow_symlinks=False)
    _refuse_name(path, folder)
    kind = _kind(status.st_mode)
    if kind is None:
        raise TreeRefused(f"{folder}: {path} is no file, folder or link")
    return TreeEntry(path, kind, status)


def _refuse_name(path: str, folder: Path) -> None:
    with suppress(UnicodeEncodeError):
        path.encode()
        if all(ord(each) >= ord(" ") for each in path):
            return
    raise TreeRefused(f"{folder}: {path!r} is no name that a list can have: it has to be text in one line")


def _kind(mode: int) -> EntryKind | None:
    if stat.S_ISREG(mode):
        return EntryKind.PROGRAM if mode & stat.S_IXUSR else EntryKind.FILE
    if stat.S_ISLNK(mode):
        return EntryKind.LINK
    return EntryKind.FOLDER if stat.S_ISDIR(mode) else None


def _value(entry: TreeEntry, folder: Path, keeper: TreeSink, limit_bytes: int) -> tuple[str, int]:
    """What the list says of an entry, and how many bytes its content has."""
    if entry.kind is EntryKind.FOLDER:
        keeper.folder(entry.path)
        return "-", 0
    if entry.kind is EntryKind.LINK:
        target = os.readlink(folder / entry.path)  # noqa: PTH115 - a Path would rewrite what the link says
        _refuse_target(entry.path, target, folder)
        keeper.link(entry.path, target)
        return hashlib.sha256(target.encode()).hexdigest(), 0
    with keeper.file(entry.path, entry.kind) as keep:
        return _content(folder / entry.path, keep, limit_bytes, entry.status.st_size)


def _refuse_target(path: str, target: str, folder: Path) -> None:
    """Raises TreeRefused for a link that would lead nowhere in the sandbox.

    It helps whoever made the folder. A link that leads out by a way that this does not see reaches no more than what a
    program can open by itself.
    """
    _refuse_name(target, folder)
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    is_inside = not meant.startswith(("/", "../")) and meant != ".."
    if not is_inside and not any(f"{meant}/".startswith(f"{each}/") for each in SYSTEM):
        raise TreeRefused(
            f"{folder}: {path} links to {target!r}, which is neither in the folder nor in what a sandbox shows of "
            "the system (/usr, /bin, /lib)"
        )


def _content(
    source: Path, keep: Callable[[bytes], object], limit_bytes: int, likely_bytes: int
) -> tuple[str, int]:
    digest, read_bytes = hashlib.sha256(), 0
    piece_bytes = min(likely_bytes + 1, CHUNK_BYTES)  # most files are small, and room for a piece is paid for
    # What was a file as it was listed may be something else by now: no link is followed, and no pipe waited for.
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while chunk := file.read(piece_bytes):
            read_bytes += len(chunk)
            if read_bytes > limit_bytes:
                raise TreeRefused(f"{source}: with it, its folder has more than {BYTES_LIMIT} bytes")
            digest.update(chunk)
            keep(chunk)
    return digest.hexdigest(), read_bytes
