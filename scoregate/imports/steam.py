"""Reads the pages that GetLeaderboardEntries of Steam's Web API answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scoregate.imports.imported_score import ImportedScore, text_of, turn_of, whole_or_text
from scoregate.imports.json_records import Record, scores_of_json


def scores_of_steam(path: Path) -> Iterator[ImportedScore]:
    """Yield the score of each entry. It has no time: equal scores keep the order of `rank`."""
    return scores_of_json(path, ("leaderboardEntryInformation", "leaderboardEntries"), _imported)


def _imported(record: Record, _number: int) -> ImportedScore:
    turn = turn_of(record["rank"])
    return ImportedScore(text_of(record["steamID"]), whole_or_text(record["score"]), turn)
