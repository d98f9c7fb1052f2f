"""Reads the scores of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from policies.errors import SettingsError
from scoregate.imports.imported_score import ImportedScore, whole_or_text


class Columns(NamedTuple):
    """The columns of a CSV file; without `achieved_at` the order of the rows breaks ties."""

    player: str
    score: str
    achieved_at: str | None


def scores_of_csv(path: Path, columns: Columns) -> Iterator[ImportedScore]:
    """Yield the score of each row. Raises SettingsError if a column is missing, or the text is no CSV."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            yield from _scores(reader, columns)
        except (UnicodeDecodeError, csv.Error) as error:
            raise SettingsError(f"{path}: after line {reader.line_num}: {error}") from None


def _scores(reader: csv.DictReader[str], columns: Columns) -> Iterator[ImportedScore]:
    wanted = [column for column in columns if column is not None]
    if missing := [column for column in wanted if column not in (reader.fieldnames or ())]:
        raise SettingsError(f"the file has no column {', '.join(missing)}")
    for number, cells in enumerate(reader):
        at = (cells[columns.achieved_at] or "") if columns.achieved_at else None
        yield ImportedScore(cells[columns.player] or "", whole_or_text(cells[columns.score]), number, at)
