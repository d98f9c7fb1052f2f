"""Reads boards to open from files: CSV with a head, JSON, or a JSON object on each line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from policies.errors import SettingsError
from policies.family import Family
from policies.family_policy import FilterType
from policies.opened_board import family_named_by

PLAIN: Final = ("board", "title", "asset", "opens_at", "closes_at")
"""Columns of texts. Those named `metadata.x`, `parameters.x` and `bounds.x` have a value each."""

OBJECTS: Final = ("metadata", "parameters", "bounds")
"""Columns of JSON objects, and the beginnings of columns of their parts."""

_TEXT: Final = ("metadata", FilterType.TEXT)


def boards_in(path: Path, families: Mapping[str, Family]) -> Iterator[dict[str, Any]]:
    """Yield the boards of a file, as operations that open them. Raises SettingsError with the line."""
    if path.suffix == ".csv":
        yield from _from_csv(path, families)
        return
    for place, value in _values(path):
        if not isinstance(value, dict) or value.get("action", "open") != "open":
            raise SettingsError(
                f"{path}:{place}: expected a board to open, as an object with `board` and `title`"
            )
        yield {"action": "open", **value}


def _values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each value of a JSON file with its number: the parts of a list or of `boards`, or the lines'."""
    if path.suffix == ".jsonl":
        yield from _lines(path)
        return
    try:
        with path.open(encoding="utf-8-sig") as file:
            whole = json.load(file)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not JSON: {error}") from None
    listed = whole.get("boards") if isinstance(whole, dict) else whole
    if not isinstance(listed, list):
        raise SettingsError(f"{path}: expected a list of boards, or an object with the list `boards`")
    yield from enumerate(listed, 1)


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the value of each line that is not empty, with the line's number."""
    line = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for line, text in enumerate(file, 1):
                if text.strip():
                    yield line, json.loads(text.rstrip())
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 after line {line}: {error}") from None
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}:{line}: not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a number, or a nesting, beyond what Python reads
        raise SettingsError(f"{path}:{line}: not JSON: {error}") from None


def _from_csv(path: Path, families: Mapping[str, Family]) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            _refuse_columns(path, rows.fieldnames or ())
            for row in rows:
                if None in row or None in row.values():
                    raise SettingsError(
                        f"{path}:{rows.line_num}: this line has not as many cells as the head"
                    )
                yield _board_of(row, families)
    except (csv.Error, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not CSV: {error}") from None


def _refuse_columns(path: Path, names: Any) -> None:
    unknown = [name for name in names if name not in PLAIN and name.partition(".")[0] not in OBJECTS]
    if unknown or "board" not in names:
        expected = f"{', '.join(PLAIN)}, {', '.join(f'{name}.<field>' for name in OBJECTS)}"
        message = f"unknown columns {', '.join(unknown)}" if unknown else "no column `board`"
        raise SettingsError(f"{path}:1: {message}; expected {expected}")


def _board_of(row: Mapping[str, str], families: Mapping[str, Family]) -> dict[str, Any]:
    """Return a line of a table as the operation that opens its board. An empty cell says nothing."""
    item: dict[str, Any] = {"action": "open"}
    family = families.get(family_named_by(row["board"]) or "")
    filters = family.policy.metadata_filters if family else {}
    # Parts first, so that a column of the whole wins over them wherever it stands.
    for column, text in sorted(row.items(), key=lambda cell: -cell[0].count(".")):
        if not text:
            continue
        first, _, rest = column.partition(".")
        value = text if column in PLAIN or (first, filters.get(rest)) == _TEXT else _value(text)
        _put(item, [first, *(rest.split(".") if first == "bounds" else [rest])] if rest else [first], value)
    return item


def _put(part: dict[str, Any], names: list[str], value: Any) -> None:
    """Put a value where the names lead to."""
    for name in names[:-1]:
        part = part.setdefault(name, {})
    part[names[-1]] = value


def _value(text: str) -> Any:
    """Return what a cell says in JSON, or its text if that is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
