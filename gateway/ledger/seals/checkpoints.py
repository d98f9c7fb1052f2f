"""Export of checkpoints: one line of JSON for each seal, in a file elsewhere, shows if seals are cut off.

The command line and the settings call a checkpoint a head.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import ValidationError

from gateway.ledger.ledger import Ledger
from gateway.ledger.seals import chain
from gateway.ledger.seals.chain import LOWEST, Seal
from policies.errors import LedgerTampered, SettingsError

LINE_BYTES: Final = 1024
"""More than a checkpoint can have."""

BEGINNING: Final = b'{"first_seq":'
"""The beginning of each line."""


def exported_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of an export. What is longer than a checkpoint comes in parts, none of which is one."""
    return iter(lambda: file.readline(LINE_BYTES), b"")


async def export_checkpoints(ledger: Ledger, path: Path) -> int:
    """Append a checkpoint for every seal after the file's last line, durable on return, and return how many.

    Raises SettingsError if the file cannot be written or is no export, and LedgerTampered if the ledger lacks
    its last checkpoint. Then nothing is appended.
    """
    try:
        with open(path, "a+b") as file:  # noqa: ASYNC230, PTH123 - a few lines, through one handle
            last = _last_checkpoint(file, path)
            if last is not None and await ledger.read(chain.seal_at(last.first_seq)) != last:
                raise LedgerTampered(f"{last}, which stands in {path}, is not in the ledger")
            count = 0
            async for seal in chain.seals_after(ledger, last.first_seq if last else LOWEST):
                file.write(seal.model_dump_json().encode() + b"\n")
                count += 1
            if count:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise SettingsError(f"{path}: heads cannot be written there: {error}") from None
    return count


def _last_checkpoint(file: BinaryIO, path: Path) -> Seal | None:
    """Return the checkpoint of the last whole line, and cut off what a crash left of the next one."""
    end = file.seek(0, os.SEEK_END)
    begin = file.seek(max(0, end - 2 * LINE_BYTES))
    whole, newline, torn = file.read(2 * LINE_BYTES).rpartition(b"\n")
    if not BEGINNING.startswith(torn[: len(BEGINNING)]) or (begin and not newline):
        raise SettingsError(f"{path}: is not a file of heads; nothing was appended")
    try:
        last = Seal.model_validate_json(whole.rpartition(b"\n")[2]) if newline else None
    except ValidationError:
        raise SettingsError(f"{path}: its last line is not a head; nothing was appended") from None
    file.truncate(end - len(torn))
    return last
