"""`scoregate backup`: back up a running deployment on SQLite: ledger, recordings and secret keys.

The ledger is copied first, as it stood at one moment, then the recordings that it names, and the assets of
boards. Named ones are never removed, so all of them still exist, whatever was submitted meanwhile. The sums
come last: without them, a backup is not finished.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from scoregate.backup_files import (
    FACTS,
    FORMAT,
    KEYS,
    LEDGER,
    RECORDINGS,
    SUMS,
    BackupFacts,
    BackupFailed,
    files_in,
    make_folder,
    require_empty,
    sha256_of,
    sqlite_ledger_of,
    sync_file,
    sync_folder,
    write_durably,
)
from scoregate.commands.common import WHERE, DataDir, deployment_of, fail, own_version

if TYPE_CHECKING:
    from gateway.recordings.recording_store import RecordingStore
    from gateway.runtime.settings import Settings

_STORED_APART: Final = "SELECT digest, size_bytes FROM recordings WHERE body IS NULL ORDER BY digest"
_ASSETS: Final = "SELECT DISTINCT asset, ? FROM boards WHERE asset IS NOT NULL ORDER BY asset"
"""Selects each digest that the store must have, with the most bytes that it stands for."""


def backup(directory: Path, data_dir: DataDir = None) -> None:
    """Write a backup of a deployment on SQLite into an empty directory, while it runs."""
    facts = back_up(deployment_of(data_dir), directory)
    keys = ", ".join(facts.keys) or "no key"
    typer.echo(f"{directory}: the ledger up to event {facts.head}, {facts.recordings} recordings, {keys}")
    if facts.lost:
        fail(f"lost before this, and not in the backup: {', '.join(facts.lost)}")


def back_up(settings: Settings, target: Path) -> BackupFacts:
    """Write a backup into `target`, durably. Raises BackupFailed or SettingsError."""
    import sqlite3

    from gateway.recordings.opening import store_of
    from gateway.runtime.clock import rfc3339, wall_clock
    from policies.loader import load_policies

    ledger = sqlite_ledger_of(settings)
    in_force = load_policies(settings.policies_dir).by_name
    policies = {name: policy.digest for name, policy in in_force.items()}
    try:
        require_empty(target)
        if not ledger.is_file():
            raise BackupFailed(f"{ledger}: there is no ledger{WHERE}")
        make_folder(target)
        head = _copy_ledger(ledger, target / LEDGER)
        keys = [_copy_key(path, target) for path in sorted(settings.data_dir.glob(KEYS))]
        copied, lost = _copy_recordings(store_of(settings), target)
        now = rfc3339(wall_clock())
        facts = BackupFacts(FORMAT, own_version(), now, head, policies, keys, copied, lost)
        write_durably(target / FACTS, json.dumps(asdict(facts), indent=2).encode() + b"\n")
        _write_sums(target)
        sync_folder(target)
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"{target}: the backup is not finished: {error}") from None
    return facts


def _copy_ledger(ledger: Path, target: Path) -> int:
    """Copy the ledger as it is at one moment, without blocking writers, and return its newest event.

    Raises BackupFailed for a file that was copied to PostgreSQL, and for one that is damaged.
    """
    import sqlite3

    from gateway.ledger.sqlite.copy_mark import mark_in
    from gateway.ledger.sqlite.store import written_version

    with closing(sqlite3.connect(ledger)) as source:
        if mark := mark_in(written_version(source, ledger) or ""):
            raise BackupFailed(mark.sentence(ledger))
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)  # in one step, and so in one read transaction (sqlite.org/backup.html)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            result = copy.execute("PRAGMA integrity_check").fetchone()
            if result != ("ok",):
                raise BackupFailed(f"{ledger}: the ledger is damaged: {result[0]}")
            [head] = copy.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    target.chmod(0o600)
    sync_file(target)
    return int(head)


def _copy_key(path: Path, target: Path) -> str:
    write_durably(target / path.name, path.read_bytes())
    return path.name


def _copy_recordings(store: RecordingStore, target: Path) -> tuple[int, list[str]]:
    """Copy what the copied ledger names of the store. Return its number, and the digests of what is lost."""
    import sqlite3

    from gateway.recordings.directory import INCOMING, DirectoryBlobs
    from gateway.recordings.recording_store import RecordingStore
    from policies.errors import RecordingLost
    from policies.opened_board import ASSET_BYTES

    copies, copied, lost = RecordingStore(DirectoryBlobs(target / RECORDINGS)), 0, []
    stores = (store, copies), (store.of_assets(), copies.of_assets())
    with closing(sqlite3.connect(target / LEDGER)) as ledger:
        named = ledger.execute(_STORED_APART), ledger.execute(_ASSETS, (ASSET_BYTES,))
        for (source, copy), rows in zip(stores, named, strict=True):
            for digest, size_bytes in rows:
                try:
                    copy.store(digest, source.load(digest, size_bytes))
                    copied += 1
                except RecordingLost:
                    lost.append(digest.hex())
    if copied:
        (target / RECORDINGS / INCOMING).rmdir()
    return copied, lost


def _write_sums(target: Path) -> None:
    with (target / SUMS).open("w", encoding="utf-8") as sums:
        for path in files_in(target):
            if path.name != SUMS:
                sums.write(f"{sha256_of(path)}  {path.relative_to(target).as_posix()}\n")
        sums.flush()
        os.fsync(sums.fileno())
