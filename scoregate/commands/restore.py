"""`scoregate restore`: check every file of a backup, then put the backup into an empty data directory."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import typer

from policies.errors import RecordingsUnavailable, ScoregateError
from scoregate.backup_files import (
    FACTS,
    FORMAT,
    LEDGER,
    RECORDINGS,
    SUMS,
    BackupFacts,
    make_folder,
    require_empty,
    sha256_of,
    sqlite_ledger_of,
    sync_file,
    sync_folder,
    write_durably,
)
from scoregate.commands.common import DataDir, settings_of

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings

NAMED_FAULTS: Final = 5
"""Faults of a backup that a message names; the rest are left out."""

_LINE: Final = re.compile(r"([0-9a-f]{64})  (\S.*)")


class RestoreFailed(ScoregateError):
    """The backup could not be restored."""


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """A restored backup: its newest event, and the boards whose policy has changed since, or is not there."""

    head: int
    recordings: int
    other_policies: tuple[str, ...]
    no_policy: tuple[str, ...]


def restore(directory: Path, data_dir: DataDir = None) -> None:
    """Put a backup into an empty data directory."""
    settings = settings_of(data_dir)
    backup = restore_backup(settings, directory)
    typer.echo(f"{settings.data_dir}: the ledger up to event {backup.head}, {backup.recordings} recordings")
    for board in backup.other_policies:
        typer.echo(f"board '{board}' had another policy then")
    if backup.no_policy:
        boards = ", ".join(map(repr, backup.no_policy))
        typer.echo(
            f"{settings.policies_dir} has no policy of {boards}: start the parts with "
            "SCOREGATE_POLICIES_DIR set to the policies of this deployment"
        )


def restore_backup(settings: Settings, source: Path) -> RestoredBackup:
    """Put a backup into the data directory, durably. Raises RestoreFailed, BackupFailed or SettingsError."""
    from policies.loader import load_policies

    ledger = sqlite_ledger_of(settings)
    in_force = load_policies(settings.policies_dir).by_name
    policies = {name: policy.digest for name, policy in in_force.items()}
    try:
        sums = _checked_sums(source)
        facts = _facts(source)
        require_empty(settings.data_dir)
        if ledger.exists():
            raise RestoreFailed(f"{ledger}: there is a ledger already")
        _copy(settings, source, sums, ledger)
    except (OSError, RecordingsUnavailable) as error:
        raise RestoreFailed(f"{source}: not restored: {error}; empty the data directory first") from None
    changed = sorted(name for name, digest in facts.policies.items() if policies.get(name, digest) != digest)
    missing = sorted(facts.policies.keys() - policies)
    return RestoredBackup(facts.head, facts.recordings, tuple(changed), tuple(missing))


def _checked_sums(source: Path) -> Mapping[str, str]:
    """Return the sum of each file by its name. Raises RestoreFailed if a file is missing or was changed."""
    if not (source / SUMS).is_file():
        raise RestoreFailed(f"{source}: not a finished backup: it has no {SUMS}")
    sums = dict(_lines(source / SUMS))
    faults = (fault for name, digest in sums.items() if (fault := _fault(source, name, digest)))
    named = list(islice(faults, NAMED_FAULTS))
    missing = [f"{name} is not in {SUMS}" for name in (LEDGER, FACTS) if name not in sums]
    if named or missing:
        raise RestoreFailed(f"{source}: the backup is damaged: {'; '.join(missing + named)}")
    return sums


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        # A name must not lead out of the backup.
        if not match or match[2].startswith("/") or ".." in PurePosixPath(match[2]).parts:
            raise RestoreFailed(
                f"{path}, line {number}: expected a SHA-256 and the name of a file in the backup"
            )
        yield match[2], match[1]


def _fault(source: Path, name: str, digest: str) -> str | None:
    """Return what is wrong with a file of a backup, or None."""
    if not (source / name).is_file():
        return f"{name} is missing"
    return None if sha256_of(source / name) == digest else f"{name} is not what it was"


def _facts(source: Path) -> BackupFacts:
    try:
        facts = json.loads((source / FACTS).read_bytes())
        if facts["format"] != FORMAT:
            raise RestoreFailed(
                f"{source}: a backup of format {facts['format']}; this scoregate reads {FORMAT}"
            )
        return BackupFacts(**facts)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RestoreFailed(f"{source / FACTS}: these are not the facts of a backup") from None


def _copy(settings: Settings, source: Path, sums: Mapping[str, str], ledger: Path) -> None:
    """Copy everything, the ledger last, because it names the rest."""
    from gateway.recordings.opening import store_of
    from gateway.recordings.recording_store import ASSETS, kept_digest

    make_folder(settings.data_dir)
    recordings = store_of(settings)
    assets, folder = recordings.of_assets(), f"{RECORDINGS}/"
    for name in sums:
        store = assets if name.startswith(folder + ASSETS) else recordings
        digest = kept_digest(name.removeprefix(folder).removeprefix(ASSETS))
        if digest is not None:
            store.store(digest, (source / name).read_bytes())
        elif "/" not in name and name.endswith(".key"):
            write_durably(settings.data_dir / name, (source / name).read_bytes())
    make_folder(ledger.parent)
    made = ledger.with_name(f".{ledger.name}.restoring")
    shutil.copyfile(source / LEDGER, made)
    if sha256_of(made) != sums[LEDGER]:
        raise RestoreFailed(f"{source}: the ledger changed while it was copied")
    made.chmod(0o600)
    sync_file(made)
    made.rename(ledger)
    sync_folder(ledger.parent)
    sync_folder(settings.data_dir)
