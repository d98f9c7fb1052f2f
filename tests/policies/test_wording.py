"""Errors of a policy file say what was expected or meant, in the words of who writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.document import read_document
from policies.errors import PolicyError
from policies.loader import load_policy

BOARD = "board: track\ntitle: Track\nwrites: trusted\n"
FAMILY = "family: track\ntitle: Track\nwrites: trusted\n"
NAME = "expected 1 to 48 small letters, digits and -, with a letter first"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOARD + "windos: [daily]\n", ":4: windos: unknown setting; did you mean `windows`? (given"),
        (BOARD + "score: {maximal: 5}\n", ":4: score.maximal: unknown setting; did you mean `maximum`?"),
        (BOARD + "stats: {coins: {titel: 5}}\n", ":4: stats.coins.titel: unknown setting (given"),
        (BOARD + "zzz: 1\n", ":4: zzz: unknown setting (given"),
        (
            BOARD + "metadata_filters: {country: text}\n",
            ":4: metadata_filters: only a family has this setting",
        ),
        (
            FAMILY + "metadata_filter: {}\n",
            ":4: metadata_filter: unknown setting; did you mean `metadata_filters`?",
        ),
        (FAMILY.replace("family", "famliy"), ":1: famliy: unknown setting; did you mean `family`? (given"),
        (FAMILY.replace("family", "famliy"), ":1: board: `board` or `family` is missing\n"),
        (FAMILY.replace("family", "bord"), ":1: bord: unknown setting; did you mean `board`? (given"),
        (FAMILY.replace("title: Track", ""), ":1: title: this setting is missing"),
        (BOARD + "order: asc\n", ":4: order: expected `descending` or `ascending` (given: 'asc')\n"),
        (BOARD + "decimals: 12\n", ":4: decimals: expected at most 9 (given: 12)\n"),
        (BOARD + "shards: 1.5\n", ":4: shards: expected a whole number (given: 1.5)\n"),
        (BOARD + "limits: 5\n", ":4: limits: expected a mapping (given: 5)\n"),
        (BOARD + "segments: {}\n", ":4: segments: expected a list\n"),
        (FAMILY.replace("track", "My Track"), f":1: family: {NAME} (given: 'My Track')"),
        (BOARD.replace("track", "Track_1"), f":1: board: {NAME} (given: 'Track_1')"),
    ],
)
def test_a_wrong_setting_is_told_with_what_was_meant(tmp_path: Path, text: str, said: str):
    """The nearest setting of the same section, the kind of file that has it, or how a name is made."""
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError) as refused:
        load_policy(read_document(path))
    assert f"{path}{said}" in f"{refused.value}\n"
