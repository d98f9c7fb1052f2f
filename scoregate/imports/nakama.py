"""Reads the records that Nakama lists of a leaderboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scoregate.imports.imported_score import ImportedScore, whole_or_text
from scoregate.imports.json_records import Record, scores_of_json

_BESIDE: Final = frozenset({"owner_records", "next_cursor", "prev_cursor", "rank_count"})
"""What a page has beside its records. Nakama leaves an empty list out, so that `{}` is a page without any."""


def scores_of_nakama(path: Path) -> Iterator[ImportedScore]:
    """Yield the score of each record. Its `update_time` breaks ties, a `subscore` becomes a statistic."""
    return scores_of_json(path, ("records",), _imported, _BESIDE)


def _imported(record: Record, number: int) -> ImportedScore:
    """Return the score of a record, in which zeros are left out and 64-bit numbers are text."""
    subscore = whole_or_text(record.get("subscore", 0))
    stats = {"subscore": subscore} if subscore else {}
    score = whole_or_text(record.get("score", 0))
    return ImportedScore(str(record["owner_id"]), score, number, str(record["update_time"]), stats)
