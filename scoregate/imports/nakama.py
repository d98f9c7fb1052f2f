"""Reads the records that Nakama lists of a leaderboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scoregate.imports.imported_score import ImportedScore, text_of, whole_or_text
from scoregate.imports.json_records import Record, scores_of_json

_BESIDE: Final = frozenset({"owner_records", "next_cursor", "prev_cursor", "rank_count"})
"""What a page has beside its records. Nakama leaves an empty list out, so that `{}` is a page without any."""


def scores_of_nakama(path: Path) -> Iterator[ImportedScore]:
    """Yield the score of each record. Its `update_time` breaks ties, a `subscore` becomes a statistic."""
    return scores_of_json(path, ("records",), _imported, _BESIDE)


def _imported(record: Record, number: int) -> ImportedScore:
    """Return the score of a record, in which zeros are left out and 64-bit numbers are text."""
    score, subscore = _number(record, "score"), _number(record, "subscore")
    stats = {"subscore": subscore} if subscore else {}
    return ImportedScore(text_of(record["owner_id"]), score, number, text_of(record["update_time"]), stats)


def _number(record: Record, name: str) -> object:
    value = record.get(name)
    return 0 if value is None else whole_or_text(value)
