"""Prints lists: as a table with a head for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def show(rows: Iterable[Mapping[str, object]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows: the named columns under their names, or each whole row as a JSON object."""
    if as_json:
        show_json(rows)
        return
    lines = [[name.upper().replace("_", " ") for name in columns]]
    lines += [[cell(row[name]) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


def show_json(rows: Iterable[Mapping[str, object]]) -> None:
    """Print each row as a JSON object on a line of its own."""
    import orjson

    for row in rows:
        typer.echo(orjson.dumps(dict(row)))


def cell(value: object) -> str:
    """Return a value as one word or sentence, with `?` for characters that a terminal would obey."""
    if value is None or value in ((), []):
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    return "".join(character if character.isprintable() else "?" for character in text)
