"""Lists of the commands: a table for people, whole rows as JSON for programs."""

from __future__ import annotations

import json

import pytest

from scoregate.commands.tables import cell, show

ROWS = [
    {"board": "arcade", "closes_at": None, "players": ["ada", "bob"], "hidden": 1},
    {"board": "a-board-with-a-long-name", "closes_at": "2026-11-30", "players": (), "hidden": 2},
]


def test_a_table_has_a_head_and_its_columns_in_line(capsys: pytest.CaptureFixture[str]):
    """As wide as the widest cell, with two blanks between, in the order that was asked for."""
    show(ROWS, ("board", "players", "closes_at"), as_json=False)
    assert (
        "BOARD                     PLAYERS  CLOSES AT\n"
        "arcade                    ada,bob  -\n"
        "a-board-with-a-long-name  -        2026-11-30\n"
    ) == capsys.readouterr().out
    show([], ("board", "closes_at"), as_json=False)
    assert "BOARD  CLOSES AT\n" == capsys.readouterr().out


def test_programs_get_each_row_whole_on_a_line(capsys: pytest.CaptureFixture[str]):
    """Also what the table does not show, and nothing is changed for a terminal."""
    show([*ROWS, {"name": "a\x1b[31m"}], ("board",), as_json=True)
    expected = [*ROWS[:1], {**ROWS[1], "players": []}, {"name": "a\x1b[31m"}]
    assert expected == [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), ((), "-"), ([], "-"), ("", ""), (0, "0"), (("a", 1), "a,1"), (["a\nb", "\x9b"], "a?b,?")],
)
def test_nothing_is_a_dash_and_no_cell_commands_a_terminal(value: object, text: str):
    """A list without anything in it is nothing too; 0 is a number, and an empty text is what it is."""
    assert text == cell(value)
