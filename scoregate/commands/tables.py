"""How commands print lists: a table with a head for people, or JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")]


def show(rows: Iterable[Mapping[str, object]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows: as columns under their names, or each as a JSON object with all it has."""
    if as_json:
        show_json(rows)
        return
    lines = [[name.upper().replace("_", " ") for name in columns]]
    lines += [[_cell(row[name]) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


def show_json(rows: Iterable[Mapping[str, object]]) -> None:
    """Print each row as a JSON object on a line of its own."""
    import orjson

    for row in rows:
        typer.echo(orjson.dumps(dict(row)))


def _cell(value: object) -> str:
    """A value as one word or sentence; what a terminal would obey is shown as `?`."""
    if value is None or value in ((), []):
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    return "".join(each if each.isprintable() else "?" for each in text)
