"""Reads the pages that PlayFab's GetLeaderboard answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scoregate.imports.imported_score import ImportedScore, text_of, turn_of, whole_or_text
from scoregate.imports.json_records import Record, scores_of_json


def scores_of_playfab(path: Path) -> Iterator[ImportedScore]:
    """Yield the score of each entry. It has no time: equal scores keep the order of `Position`."""
    return scores_of_json(path, ("data", "Leaderboard"), _imported)


def _imported(record: Record, _number: int) -> ImportedScore:
    turn = turn_of(record["Position"])
    return ImportedScore(text_of(record["PlayFabId"]), whole_or_text(record["StatValue"]), turn)
