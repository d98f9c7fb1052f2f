"""The audit trail as CSV: a row for each event, from which its leaf under the seals can be computed again.

A cell that a spreadsheet would take for a formula begins with an apostrophe, which is no part of it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO

from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.trail import TrailRow
from gateway.ledger.seals import chain
from gateway.ledger.seals.chain import Seal
from gateway.ledger.seals.leaves import EVENT_COLUMNS, entry_of
from gateway.ledger.seals.merkle import leaf_hash
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.runtime.clock import rfc3339
from policies.errors import LedgerTampered, ProofInvalid, TrailUnreadable

_NUMBERS: Final = ("seq", "at_ms", "rules_version")
_TEXTS: Final = (
    "actor", "reason", "from_state", "to_state", "board", "player", "submission_id", "policy", "detail",
)  # fmt: skip
COLUMNS: Final = ("seq", "at", "at_ms", *_TEXTS, "rules_version")
"""The columns of the file: those of an event, and `at`, which is `at_ms` for people."""

assert set(COLUMNS) - {"at"} == set(EVENT_COLUMNS)

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
"""How a cell begins that spreadsheets may execute (OWASP, "CSV Injection"), or that has the mark already."""

_MARK: Final = "'"

_LINE_CHARACTERS: Final = 2**20
"""More than a row has. A longer line comes in parts, which are no rows: `csv` limits a cell to fewer."""


def written(events: Iterable[TrailRow], *, has_header: bool) -> str:
    """Return events as lines of CSV (RFC 4180), every cell in quotes."""
    out = io.StringIO()
    lines = csv.writer(out, quoting=csv.QUOTE_ALL)
    if has_header:
        lines.writerow(COLUMNS)
    lines.writerows([_cells(event) for event in events])
    return out.getvalue()


def read_rows(file: TextIO) -> Iterator[TrailRow]:
    """Yield the events of a file, which may be several parts in a row.

    Raises TrailUnreadable for what `written` never writes.
    """
    lines = csv.reader(iter(lambda: file.readline(_LINE_CHARACTERS), ""), strict=True)
    try:
        if tuple(next(lines, ())) != COLUMNS:
            raise TrailUnreadable(f"the first line is not {','.join(COLUMNS)}")
        for cells in lines:
            if tuple(cells) != COLUMNS:  # the header of a further part
                yield _event(cells, lines.line_num)
    except (csv.Error, UnicodeDecodeError) as error:
        raise TrailUnreadable(f"line {lines.line_num}: {error}") from None


class TrailCheck(NamedTuple):
    """How many rows of a file are as they were sealed, and how many have no seal yet."""

    sealed: int
    unsealed: int


async def check_trail(ledger: Ledger, rows: Iterable[TrailRow], keys: PublicKeys) -> TrailCheck:
    """Compare the rows of a file with the ledger's seals.

    Raises ProofInvalid for a row that is not what was sealed, and LedgerTampered for a broken seal.
    """
    sealed = unsealed = 0
    seal: Seal | None = None
    leaves: Sequence[bytes] = ()
    for row in rows:
        seq = row["seq"]
        if seal is None or not seal.first_seq <= seq <= seal.last_seq:
            seal = await ledger.read(chain.seal_at(seq))
            leaves = await _leaves_under(ledger, seal, keys) if seal else ()
        if seal is None:
            unsealed += 1
            continue
        if leaves[seq - seal.first_seq] != leaf_hash(entry_of(row, None)):
            raise ProofInvalid(f"event {seq} is not what was sealed")
        sealed += 1
    return TrailCheck(sealed, unsealed)


async def _leaves_under(ledger: Ledger, seal: Seal, keys: PublicKeys) -> Sequence[bytes]:
    if not seal.is_signed_by_any(keys):
        raise LedgerTampered(f"{seal} is not signed by the key")
    leaves = await ledger.read(chain.sealed_leaves(seal))
    if leaves is None:
        raise LedgerTampered(f"the leaves of {seal} do not lead to its root")
    return leaves


def _cells(event: Mapping[str, Any]) -> list[str]:
    values = {**event, "at": rfc3339(event["at_ms"])}
    return [_guarded(str(values[name])) for name in COLUMNS]


def _guarded(cell: str) -> str:
    return _MARK + cell if cell.startswith(_FORMULA) else cell


def _event(cells: Sequence[str], line: int) -> TrailRow:
    if len(cells) != len(COLUMNS):
        raise TrailUnreadable(f"line {line}: expected {len(COLUMNS)} cells, found {len(cells)}")
    event: dict[str, Any] = dict(zip(COLUMNS, (cell.removeprefix(_MARK) for cell in cells), strict=True))
    try:
        event |= {name: int(event[name]) for name in _NUMBERS}
        is_as_written = _cells(event) == list(cells)
    except (ValueError, OverflowError) as error:
        raise TrailUnreadable(f"line {line}: {error}") from None
    if not is_as_written:
        raise TrailUnreadable(f"line {line}: it is not as it was written")
    del event["at"]
    return event
