"""Putting a backup into an empty data directory, after every file of it was found to be what it was."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from gateway.recordings.opening import store_of
from gateway.recordings.store import kept_digest
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies
from policies.errors import RecordingsUnavailable, ScoregateError
from scoregate.backup import (
    FACTS,
    FORMAT,
    LEDGER,
    RECORDINGS,
    SUMS,
    Facts,
    require_empty,
    sha256_of,
    sqlite_ledger_of,
    sync_file,
    sync_folder,
    write_durably,
)

NAMED: Final = 5
"""How many faults of a backup are told before the rest is only counted."""

_LINE: Final = re.compile(r"([0-9a-f]{64})  (\S.*)")


class RestoreFailed(ScoregateError):
    """The backup could not be restored."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored: the newest event, and the boards whose policy was another one then."""

    head: int
    recordings: int
    other_policies: tuple[str, ...]


def restore(settings: Settings, source: Path) -> Restored:
    """What is in the data directory now, all of it durable. Raises RestoreFailed, BackupFailed or SettingsError."""
    ledger = sqlite_ledger_of(settings)
    policies = {name: board.digest for name, board in load_policies(settings).items()}
    try:
        sums = _checked_sums(source)
        facts = _facts(source)
        require_empty(settings.data_dir)
        if ledger.exists():
            raise RestoreFailed(f"{ledger}: there is a ledger already")
        _copy(settings, source, sums, ledger)
    except (OSError, RecordingsUnavailable) as error:
        raise RestoreFailed(f"{source}: not restored: {error}; empty the data directory first") from None
    other = [name for name, digest in facts.policies.items() if policies.get(name) != digest]
    return Restored(facts.head, facts.recordings, tuple(sorted(other)))


def _checked_sums(source: Path) -> Mapping[str, str]:
    """The sum of each file by its name. Raises RestoreFailed if one is missing or is not what it was."""
    if not (source / SUMS).is_file():
        raise RestoreFailed(f"{source}: not a finished backup: it has no {SUMS}")
    sums = dict(_lines(source / SUMS))
    faults = (fault for name, digest in sums.items() if (fault := _fault(source, name, digest)))
    named = list(islice(faults, NAMED))
    missing = [f"{name} is not in {SUMS}" for name in (LEDGER, FACTS) if name not in sums]
    if named or missing:
        raise RestoreFailed(f"{source}: the backup is damaged: {'; '.join(missing + named)}")
    return sums


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = _LINE.fullmatch(line)
        if not found or found[2].startswith("/") or ".." in PurePosixPath(found[2]).parts:
            raise RestoreFailed(
                f"{path}, line {number}: expected a SHA-256 and the name of a file in the backup"
            )
        yield found[2], found[1]


def _fault(source: Path, name: str, digest: str) -> str | None:
    """What is wrong with a file of a backup, or None."""
    if not (source / name).is_file():
        return f"{name} is missing"
    return None if sha256_of(source / name) == digest else f"{name} is not what it was"


def _facts(source: Path) -> Facts:
    facts = json.loads((source / FACTS).read_bytes())
    if facts.get("format") != FORMAT:
        raise RestoreFailed(
            f"{source}: a backup of format {facts.get('format')}; this scoregate reads {FORMAT}"
        )
    return Facts(**facts)


def _copy(settings: Settings, source: Path, sums: Mapping[str, str], ledger: Path) -> None:
    """Copies everything, the ledger last: it names the rest."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = store_of(settings)
    for name in sums:
        digest = kept_digest(name.removeprefix(f"{RECORDINGS}/"))
        if digest is not None:
            store.store(digest, (source / name).read_bytes())
        elif "/" not in name and name.endswith(".key"):
            write_durably(settings.data_dir / name, (source / name).read_bytes())
    ledger.parent.mkdir(parents=True, exist_ok=True)
    made = ledger.with_name(f".{ledger.name}.restoring")
    shutil.copyfile(source / LEDGER, made)
    if sha256_of(made) != sums[LEDGER]:
        raise RestoreFailed(f"{source}: the ledger changed while it was copied")
    made.chmod(0o600)
    sync_file(made)
    made.rename(ledger)
    sync_folder(ledger.parent)
    sync_folder(settings.data_dir)
