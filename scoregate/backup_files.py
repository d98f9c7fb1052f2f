"""Files of a backup: their names, their sums, and writes that survive a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from policies.errors import ScoregateError, SettingsError

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings

FORMAT: Final = 1
LEDGER: Final = "ledger.sqlite3"
KEYS: Final = "*.key"
RECORDINGS: Final = "recordings"
FACTS: Final = "backup.json"
SUMS: Final = "SHA256SUMS"
"""SHA-256 and name of every other file, as `sha256sum --check` reads them."""


class BackupFailed(ScoregateError):
    """The backup could not be written."""


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """The facts of a backup. `head` is its newest event; `lost` recordings were no longer in our store."""

    format: int
    scoregate: str
    made_at: str
    head: int
    policies: dict[str, str]
    keys: list[str]
    recordings: int
    lost: list[str]


def sqlite_ledger_of(settings: Settings) -> Path:
    """Return the file of the ledger. Raises SettingsError for a ledger on PostgreSQL."""
    if settings.is_on_postgres:
        raise SettingsError(
            "SCOREGATE_LEDGER_URL: this copies a ledger on SQLite; a database server has tools of its own, "
            "see docs/how-to/backup-and-restore.md"
        )
    return settings.ledger_path


def require_empty(folder: Path) -> None:
    """Raise BackupFailed if the path exists and is not an empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupFailed(f"{folder} is not empty")


def files_in(folder: Path) -> Iterator[Path]:
    """Yield every file of a folder and its subfolders, by name."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from files_in(path)
        else:
            yield path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, and those above it, and sync the names of the new ones."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in new:
        sync_folder(each.parent)


def write_durably(path: Path, body: bytes) -> None:
    """Write a new file for its owner alone, and sync it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Sync the content of a file to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
