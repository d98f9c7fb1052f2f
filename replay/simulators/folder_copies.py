"""Copies of the folders that programs read, made of the very bytes that were hashed, and shown read-only.

A copy serves all programs of this process until its folder changes, which each start of a program checks. A
running program keeps the copy that it began with.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from policies.trees import EntryKind, Tree, fingerprint, read_tree
from replay.simulators.workspace import Workspace, writing

COPIES_AT_ONCE: Final = 8
"""Unused copies that are kept; the oldest is removed first."""

ENTRY_TIME_S: Final = 315_532_800
"""Modification time of every entry of a copy, since the digest covers no times: the beginning of 1980, the
earliest date of a ZIP archive. Python then ignores `.pyc` files that go by their source's time."""


def copy_folder(source: Path, target: Path) -> Tree:
    """Copy a folder into a new one.

    Raises OSError and TreeRefused for the source, SandboxUnavailable for the target.
    """
    sink = _CopyingSink(target)
    tree = read_tree(source, sink)
    sink.finish()
    return tree


@dataclass(slots=True)
class FolderCopy:
    """A copy, the fingerprint of its source, and how many programs use it.

    `is_current`: the next program may use it, too. `owner` is the process that made it; no other removes it.
    """

    path: Path
    tree: Tree
    fingerprint: str
    owner: int
    users: int = 0
    is_current: bool = True


class FolderCopies:
    """The copies of this process. A forked one makes its own."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._workspace: Workspace | None = None
        self._copies: dict[Path, FolderCopy] = {}

    @property
    def workspace(self) -> Workspace:
        """Return the folder of the copies. Raises SandboxUnavailable if it cannot be created."""
        if self._owner != os.getpid():
            self._owner, self._workspace, self._copies = os.getpid(), None, {}
        if self._workspace is None:
            self._workspace = Workspace()
        return self._workspace

    @contextmanager
    def copy_of(self, source: Path) -> Iterator[FolderCopy]:
        """Yield a copy of the folder as it is now. It stays while the block runs.

        Raises OSError and TreeRefused for the folder, SandboxUnavailable if it cannot be copied.
        """
        copy = self._current(source)
        copy.users += 1
        try:
            yield copy
        finally:
            copy.users -= 1
            self._remove_unused(copy)

    def close(self) -> None:
        """Remove all copies."""
        if self._workspace is not None and self._owner == os.getpid():
            self._workspace.close()
        self._workspace, self._copies = None, {}

    def _current(self, source: Path) -> FolderCopy:
        workspace, now = self.workspace, fingerprint(source)
        copy = self._copies.get(source)
        if copy is None or copy.fingerprint != now:
            self._retire(source)
            while len(self._copies) >= COPIES_AT_ONCE:
                self._retire(next(iter(self._copies)))
            copy = self._copies[source] = self._made(source, workspace, now)
        return copy

    def _made(self, source: Path, workspace: Workspace, now: str) -> FolderCopy:
        path = workspace.folder()
        try:
            return FolderCopy(path, copy_folder(source, path), now, self._owner)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def _retire(self, source: Path) -> None:
        copy = self._copies.pop(source, None)
        if copy is not None:
            copy.is_current = False
            self._remove_unused(copy)

    def _remove_unused(self, copy: FolderCopy) -> None:
        if not copy.is_current and not copy.users and copy.owner == os.getpid():
            shutil.rmtree(copy.path, ignore_errors=True)


class _CopyingSink:
    """Writes what is read into a folder."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folders = [target]

    def folder(self, path: str) -> None:
        with writing():
            (self._target / path).mkdir()
            (self._target / path).chmod(0o755)
        self._folders.append(self._target / path)

    def link(self, path: str, target: str) -> None:
        copy = self._target / path
        with writing():
            copy.symlink_to(target)
            os.utime(copy, (ENTRY_TIME_S, ENTRY_TIME_S), follow_symlinks=False)

    @contextmanager
    def file(self, path: str, kind: EntryKind) -> Iterator[Callable[[bytes], object]]:
        copy = self._target / path
        with writing():
            file = copy.open("xb", buffering=0)

        def write(chunk: bytes) -> None:
            view = memoryview(chunk)
            with writing():
                while view:
                    view = view[file.write(view) :]

        with file:
            yield write
        with writing():
            copy.chmod(0o555 if kind is EntryKind.PROGRAM else 0o444)
            os.utime(copy, (ENTRY_TIME_S, ENTRY_TIME_S))

    def finish(self) -> None:
        """Set the times of the folders, once they are complete."""
        with writing():
            for folder in self._folders:
                os.utime(folder, (ENTRY_TIME_S, ENTRY_TIME_S))
