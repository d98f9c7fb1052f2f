"""Reads the records of leaderboards that other services give as JSON: pages, or a value on each line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from policies.errors import SettingsError
from scoregate.imports.imported_score import ImportedScore

LARGEST: Final = 64 * 2**20
"""Most characters of one JSON value, which is read as a whole: a page, or a line."""

Record = dict[str, Any]


def scores_of_json(
    path: Path,
    names: Sequence[str],
    score_of: Callable[[Record, int], ImportedScore],
    beside: frozenset[str] | None = None,
) -> Iterator[ImportedScore]:
    """Yield the score of each record. `names` lead to the records of a page.

    An object with no other members than `beside` is a page without records; None means that there are none
    such. Raises SettingsError with file, line and record for text that is not JSON, or no such record.
    """
    number = 0
    with path.open(encoding="utf-8-sig") as file:
        for place, value in _values(path, file):
            for at, record in enumerate(_records(value, names, place, beside), 1):
                where = f"{place}, record {at}"
                if not isinstance(record, dict):
                    raise SettingsError(f"{where}: expected an object")
                try:
                    yield score_of(record, number)
                except (KeyError, TypeError) as error:
                    raise SettingsError(f"{where}: expected a record with {error}") from None
                number += 1


def _values(path: Path, file: TextIO) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file with their places: one on each line, or one that is the whole file."""
    number = 0
    try:
        while line := file.readline(LARGEST + 1):
            number += 1
            if not line.strip():
                continue
            try:
                value = _parsed(line)
            except json.JSONDecodeError:
                if number > 1:
                    raise
                yield f"{path}", _parsed(line + file.read(LARGEST + 1 - len(line)))
                return
            yield f"{path}: line {number}", value
    except json.JSONDecodeError as error:
        at = number if number > 1 else error.lineno
        raise SettingsError(f"{path}: line {at}: is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: after line {number}: {error}") from None


def _parsed(text: str) -> Any:
    if len(text) > LARGEST:
        raise ValueError(f"a JSON value has more than {LARGEST >> 20} MiB; write one record on each line")
    return json.loads(text)


def _records(value: Any, names: Sequence[str], place: str, beside: frozenset[str] | None) -> list[Any]:
    """Return the records of a page, of a list, or the one that is not in a page."""
    if isinstance(value, list):
        return value
    inner = value
    for name in names:
        if isinstance(inner, dict) and name in inner:
            inner = inner[name]
    if beside is not None and isinstance(inner, dict) and inner.keys() <= beside:
        return []
    if not isinstance(inner, list | dict):
        raise SettingsError(f"{place}: expected an object with {'.'.join(names)}, or a record")
    return inner if isinstance(inner, list) else [inner]
