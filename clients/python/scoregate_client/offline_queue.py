"""The offline queue: a folder of runs that were played, from which none is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Final

from .errors import own_refusal
from .queue_disk import Disk, FolderDisk
from .queue_entries import QueueEntry, digest_of

MOST_ENTRIES: Final = 100
KEPT_S: Final = 7 * 24 * 3600
"""No run lives that long."""
RECORDING_KEPT_S: Final = 60 * 24 * 3600
"""A board may ask for a recording long after the run, and then gives up to 30 days to send it."""
_ENTRY: Final = re.compile(r"[0-9]{13}-[0-9a-f]{8}\.json")
_FRESH: Final = ".fresh"
"""A file that is being written; one that is left belongs to a process that died meanwhile."""
_WRITING: Final = ".writing.lock"
_FLUSHING: Final = ".flushing.lock"


class OfflineQueue:
    """Entries in a folder, one file each, which only their owner reads. They have the keys of runs in them.

    What `add` returned is on the disk, whatever happens to the process or the machine.
    """

    def __init__(self, folder: Path | str | None = None, *, disk: Disk | None = None) -> None:
        self._disk = disk or FolderDisk(Path(folder or "."))

    def names(self) -> list[str]:
        """Return the names of the entries, the oldest first."""
        return sorted(name for name in self._disk.names() if _ENTRY.fullmatch(name))

    def swept(self) -> list[str]:
        """Remove what dead processes left, and return the names of the entries."""
        with self._disk.locked(_WRITING, waits=True):
            return self._swept()

    def read(self, name: str) -> QueueEntry | None:
        """Return an entry, None if it is gone. Raises ValueError for a damaged one."""
        try:
            return QueueEntry.decoded(self._disk.read(name))
        except FileNotFoundError:
            return None

    def add(self, entry: QueueEntry, now_ms: int) -> QueueEntry:
        """Write an entry durably, and return it; the one that is there already if it submits the same.

        Raises a `ScoregateError` named `queue-full`: the newest is refused, and no other dropped for it.
        """
        with self._disk.locked(_WRITING, waits=True):
            names = self._swept()
            digest = digest_of(entry.ticket)
            for stored in self._entries(name for name in names if digest in name):
                if stored.same_run(entry):
                    return stored
            if len(names) >= MOST_ENTRIES and self._waiting(names) >= MOST_ENTRIES:
                raise own_refusal("queue-full", f"{len(names)} runs wait to be submitted already.")
            taken = {name[:13] for name in names}
            while f"{now_ms:013}" in taken:
                now_ms += 1
            entry = replace(entry, written_at=now_ms // 1000)
            self._store(f"{now_ms:013}-{digest}.json", entry)
        return entry

    def change(self, name: str, entry: QueueEntry) -> None:
        """Write an entry anew, durably."""
        with self._disk.locked(_WRITING, waits=True):
            self._swept()
            self._store(name, entry)

    def remove(self, name: str) -> None:
        """Remove an entry."""
        self._disk.remove(name)
        self._disk.sync()

    def set_aside(self, name: str) -> str:
        """Keep a damaged entry under a name that is no entry's, and return that."""
        aside = f"{name}.damaged"
        self._disk.rename(name, aside)
        self._disk.sync()
        return aside

    def flushing(self) -> AbstractContextManager[bool]:
        """Give whether nobody else flushes this folder meanwhile."""
        return self._disk.locked(_FLUSHING, waits=False)

    def _store(self, name: str, entry: QueueEntry) -> None:
        self._disk.write(name + _FRESH, entry.encoded())
        self._disk.rename(name + _FRESH, name)
        self._disk.sync()

    def _swept(self) -> list[str]:
        """Return the names of the entries, after what a dead process left is gone. Needs the lock."""
        for name in self._disk.names():
            if name.endswith(_FRESH):
                self._disk.remove(name)
        return self.names()

    def _waiting(self, names: list[str]) -> int:
        """Return how many entries are still to be sent: recordings that are only kept fill no queue."""
        return sum(not entry.submission for entry in self._entries(iter(names)))

    def _entries(self, names: Iterator[str]) -> Iterator[QueueEntry]:
        for name in names:
            try:
                entry = self.read(name)
            except ValueError:  # the next flush sets it aside
                continue
            if entry:
                yield entry
