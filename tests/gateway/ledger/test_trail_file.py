"""The audit trail as a file that spreadsheets do not execute, and that leads to the seals again."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.moderation.trail_file import COLUMNS, read_rows, written
from policies.errors import TrailUnreadable

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
FORMULAS = st.sampled_from("=+-@\t\r\n'").flatmap(lambda begin: TEXT.map(lambda text: begin + text))


def event(**changes: Any) -> dict[str, Any]:
    facts = {
        "seq": 16,
        "submission_id": "run-5",
        "board": "sprint",
        "player": "ada",
        "from_state": "held",
        "to_state": "rejected",
        "actor": "moderator:mara",
        "reason": "rejected-by-moderator",
        "policy": "sha256:0",
        "rules_version": 1,
        "detail": json.dumps({"why": "=cmd()"}),
        "at_ms": 1_790_000_000_000,
    }
    return facts | changes


@given(
    st.fixed_dictionaries(dict.fromkeys(("actor", "reason", "board", "player", "detail"), TEXT | FORMULAS))
)
def test_any_event_is_read_back_as_it_was_and_no_cell_is_a_formula(texts: dict[str, str]):
    file = written([event(**texts)], has_header=True)
    assert [event(**texts)] == list(read_rows(io.StringIO(file, newline="")))
    cells = [cell for line in csv.reader(io.StringIO(file, newline="")) for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("", "the first line is not seq,"),
        ("seq,at\n", "the first line is not seq,"),
        (",".join(COLUMNS) + "\n1,2\n", "line 2: expected 13 cells, found 2"),
        (written([event()], has_header=True).replace('"16"', '"sixteen"'), "line 2: invalid literal"),
        (written([event()], has_header=True).replace('"16"', '"016"'), "line 2: it is not as it was written"),
        (
            written([event()], has_header=True).replace('"2026', '"2025'),
            "line 2: it is not as it was written",
        ),
        (written([event()], has_header=True)[:-3], "line 2: unexpected end of data"),
    ],
)
def test_what_was_never_exported_is_refused_with_its_line(file: str, said: str):
    with pytest.raises(TrailUnreadable, match=said):
        list(read_rows(io.StringIO(file, newline="")))


def test_parts_can_be_put_together():
    file = written([event()], has_header=True) + written([event(seq=9)], has_header=True)
    assert [16, 9] == [row["seq"] for row in read_rows(io.StringIO(file, newline=""))]
