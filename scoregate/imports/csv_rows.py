"""Reads the scores of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from policies.errors import SettingsError
from scoregate.imports.imported_score import ImportedScore, whole_or_text
from scoregate.imports.text_lines import text_lines

LONGEST_ROW: Final = 2**20
"""Most characters of a row, and of the lines that it goes over."""

_DELIMITERS: Final = ",;\t"


class Columns(NamedTuple):
    """The columns of a CSV file; without `achieved_at` the order of the rows breaks ties."""

    player: str
    score: str
    achieved_at: str | None


def scores_of_csv(path: Path, columns: Columns) -> Iterator[ImportedScore]:
    """Yield the score of each row. Cells are parted by commas, or else by semicolons or tabs.

    Raises SettingsError if a column is missing or there twice, or the text is no CSV, and OSError.
    """
    lines = text_lines(path, LONGEST_ROW)
    first = next(lines, None)
    wanted = [column for column in columns if column is not None]
    if first is None:
        raise SettingsError(f"{path}: is empty; expected a line with {', '.join(wanted)}")
    if first.lstrip().startswith(("{", "[")):
        raise SettingsError(f"{path}: line 1: is JSON; --from says of what it is an export")
    rows = _Rows(chain((first,), lines), _delimiter(first, wanted))
    try:
        places = _places(next(rows, []), wanted)
        yield from _scores(rows, places, columns)
    except (SettingsError, csv.Error) as error:
        named = str(error)
        named = named if named.startswith(f"{path}: ") else f"{path}: line {rows.begins_at}: {named}"
        raise SettingsError(named) from None


class _Rows:
    """Iterates over rows of cells, of which none is longer than `LONGEST_ROW`."""

    def __init__(self, lines: Iterator[str], delimiter: str) -> None:
        self.begins_at = 1
        self._length = 0
        self._lines = lines
        how: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": True, "strict": True}
        self._reader = csv.reader(self._bounded(), **how)

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self._length = 0
        self.begins_at = self._reader.line_num + 1
        return next(self._reader)

    def _bounded(self) -> Iterator[str]:
        for line in self._lines:
            self._length += len(line)
            if self._length > LONGEST_ROW:
                raise SettingsError(f"has more than {LONGEST_ROW} characters; is a double quote missing?")
            yield line


def _delimiter(first: str, wanted: Sequence[str]) -> str:
    for delimiter in _DELIMITERS:
        with suppress(csv.Error):
            [cells] = csv.reader([first], delimiter=delimiter, skipinitialspace=True)
            if set(wanted) <= {cell.strip() for cell in cells}:
                return delimiter
    return ","


def _places(cells: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the wanted columns, and the number of all by an empty name."""
    names = [cell.strip() for cell in cells]
    if missing := [column for column in wanted if column not in names]:
        found = ", ".join(names)[:200] or "none"
        raise SettingsError(f"expected the columns {', '.join(missing)}; there are {found!r}")
    if double := [column for column in wanted if names.count(column) > 1]:
        raise SettingsError(f"the column {double[0]} is there {names.count(double[0])} times")
    return {column: names.index(column) for column in wanted} | {"": len(names)}


def _scores(rows: _Rows, places: dict[str, int], columns: Columns) -> Iterator[ImportedScore]:
    number = 0
    for cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        player, score = _cell(cells, places[columns.player]), _cell(cells, places[columns.score])
        at = _cell(cells, places[columns.achieved_at]) if columns.achieved_at else None
        fault = None
        if any(cell.strip() for cell in cells[places[""] :]):
            fault = f"the row has {len(cells)} cells, and the header {places['']}"
        place = f"line {rows.begins_at}"
        yield ImportedScore(player, whole_or_text(score), number, at, place=place, fault=fault)
        number += 1


def _cell(cells: Sequence[str], place: int) -> str:
    return cells[place] if place < len(cells) else ""
