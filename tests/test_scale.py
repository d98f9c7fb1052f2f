"""What the page on scale says of tables is true of the schema: which could follow their board to another database."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.ledger.schema import metadata

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "scale.md"


def rows_of_tables() -> list[tuple[list[str], str]]:
    """The tables of each row of the list, and what it says that they would need."""
    text = PAGE.read_text().partition("| tables | what they would need |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    return [(re.findall(r"`(\w+)`", tables), needs) for tables, needs in rows]


def test_every_table_is_in_the_list_of_what_lanes_with_databases_of_their_own_would_need():
    """Each once, so that nobody finds out later that one was forgotten."""
    listed = sorted(name for names, _ in rows_of_tables() for name in names)
    assert sorted(metadata.tables) == listed


def test_tables_that_need_nothing_have_the_board_in_their_key():
    """A table is distributed by a column of every unique key of it."""
    [(names, _)] = [row for row in rows_of_tables() if row[1].startswith("nothing:")]
    for table in map(metadata.tables.__getitem__, names):
        unique = [index.columns for index in table.indexes if index.unique]
        assert all("board" in key for key in (table.primary_key.columns, *unique)), table.name
