"""Writing a backup of a running deployment on SQLite: the ledger, the recordings it names, and the secret keys.

The ledger is copied first, as it stood at one moment, and then what it names: recordings that are named are never
removed, so they are all still there, whatever was submitted meanwhile. The sums come last: a backup without them is
not finished.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import file_digest
from importlib.metadata import version
from pathlib import Path
from typing import Final

from gateway.recordings.directory import INCOMING, DirectoryBlobs
from gateway.recordings.opening import store_of
from gateway.recordings.store import RecordingStore
from gateway.runtime.clock import rfc3339, wall_clock
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies
from policies.errors import RecordingLost, ScoregateError, SettingsError

FORMAT: Final = 1
LEDGER: Final = "ledger.sqlite3"
KEYS: Final = "*.key"
RECORDINGS: Final = "recordings"
FACTS: Final = "backup.json"
SUMS: Final = "SHA256SUMS"
"""SHA-256 and name of every other file, in the form that `sha256sum --check` reads."""

_ELSEWHERE: Final = "SELECT digest, size_bytes FROM recordings WHERE body IS NULL ORDER BY digest"


class BackupFailed(ScoregateError):
    """The backup could not be written."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a backup is of. `head` is its newest event; `lost` are recordings that our store no longer had."""

    format: int
    scoregate: str
    made_at: str
    head: int
    policies: dict[str, str]
    keys: list[str]
    recordings: int
    lost: list[str]


def back_up(settings: Settings, target: Path) -> Facts:
    """What was backed up into `target`, all of it durable. Raises BackupFailed or SettingsError."""
    ledger = sqlite_ledger_of(settings)
    policies = {name: board.digest for name, board in load_policies(settings).items()}
    try:
        require_empty(target)
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = _copy_ledger(ledger, target / LEDGER)
        keys = [_copy_key(path, target) for path in sorted(settings.data_dir.glob(KEYS))]
        kept, lost = _copy_recordings(store_of(settings), target)
        now = rfc3339(wall_clock())
        facts = Facts(FORMAT, version("scoregate"), now, head, policies, keys, kept, lost)
        write_durably(target / FACTS, json.dumps(asdict(facts), indent=2).encode() + b"\n")
        _write_sums(target)
        sync_folder(target)
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"{target}: the backup is not finished: {error}") from None
    return facts


def sqlite_ledger_of(settings: Settings) -> Path:
    """The file of the ledger. Raises SettingsError for a ledger that is none."""
    if settings.is_on_postgres:
        raise SettingsError(
            "SCOREGATE_LEDGER_URL: this copies a ledger on SQLite; a database server has tools of its own, "
            "see docs/how-to/backup-and-restore.md"
        )
    return settings.ledger_path


def require_empty(folder: Path) -> None:
    """Raises BackupFailed if the folder is there with anything in it, or is no folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupFailed(f"{folder} is not empty")


def _copy_ledger(ledger: Path, target: Path) -> int:
    """The newest event of the copy, which is the ledger at one moment; whoever writes to the ledger need not wait."""
    if not ledger.is_file():
        raise BackupFailed(f"{ledger}: there is no ledger")
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)  # in one step, and so in one read transaction (sqlite.org/backup.html)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        found = copy.execute("PRAGMA integrity_check").fetchone()
        if found != ("ok",):
            raise BackupFailed(f"{ledger}: the ledger is damaged: {found[0]}")
        [head] = copy.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    target.chmod(0o600)
    sync_file(target)
    return int(head)


def _copy_key(path: Path, target: Path) -> str:
    write_durably(target / path.name, path.read_bytes())
    return path.name


def _copy_recordings(store: RecordingStore, target: Path) -> tuple[int, list[str]]:
    """How many recordings that the copied ledger names were copied, and the digests of those that were lost."""
    copies, copied, lost = RecordingStore(DirectoryBlobs(target / RECORDINGS)), 0, []
    with closing(sqlite3.connect(target / LEDGER)) as ledger:
        for digest, size_bytes in ledger.execute(_ELSEWHERE):
            try:
                copies.store(digest, store.load(digest, size_bytes))
                copied += 1
            except RecordingLost:
                lost.append(digest.hex())
    if copied:
        (target / RECORDINGS / INCOMING).rmdir()
    return copied, lost


def _write_sums(target: Path) -> None:
    with (target / SUMS).open("w", encoding="utf-8") as sums:
        for path in _files(target):
            if path.name != SUMS:
                sums.write(f"{sha256_of(path)}  {path.relative_to(target).as_posix()}\n")
        sums.flush()
        os.fsync(sums.fileno())


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def write_durably(path: Path, body: bytes) -> None:
    """Writes a new file that its owner alone may read, and syncs it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Puts what was written to a file on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
