"""Reads the records of leaderboards that other services give as JSON: pages, or a value on each line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from policies.errors import SettingsError
from scoregate.imports.imported_score import ImportedScore
from scoregate.imports.text_lines import text_lines

LARGEST: Final = 64 * 2**20
"""Most characters that are read as a whole: a line, or a page over several lines."""

Record = dict[str, Any]

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


def scores_of_json(
    path: Path,
    names: Sequence[str],
    score_of: Callable[[Record, int], ImportedScore],
    beside: frozenset[str] | None = None,
) -> Iterator[ImportedScore]:
    """Yield the score of each record. `names` lead to the records of a page.

    An object with no other members than `beside` is a page without records; None means that there are none
    such. Raises SettingsError with file, line and record for text that is not JSON, or no such record, and
    OSError.
    """
    number = 0
    for place, value in _values(path):
        for at, record in enumerate(_records(value, names, f"{path}: {place}", beside), 1):
            where = f"{place}, record {at}"
            if not isinstance(record, dict):
                raise SettingsError(f"{path}: {where}: expected an object")
            try:
                yield score_of(record, number)._replace(place=where)
            except (KeyError, TypeError) as error:
                raise SettingsError(f"{path}: {where}: expected a record with {error}") from None
            number += 1


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield values with their places: those of each line, or of a whole file if the first line ends none."""
    lines = enumerate(text_lines(path, LARGEST), 1)
    is_first = True
    for number, line in lines:
        if not line.strip():
            continue
        try:
            values = list(_parsed(line))
        except json.JSONDecodeError as error:
            if not is_first:
                raise SettingsError(f"{path}: line {number}: is not JSON: {error.msg}") from None
            yield from _whole(path, number, chain((line,), (rest for _, rest in lines)))
            return
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"{path}: line {number}: {error}") from None
        is_first = False
        for _, value in values:
            yield f"line {number}", value


def _whole(path: Path, first: int, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the values of the lines from number `first` on, which may be one over several lines."""
    text = "".join(_up_to_largest(path, lines))
    line, end = first, 0
    try:
        for begin, value in _parsed(text):
            line, end = line + text.count("\n", end, begin), begin
            yield f"line {line}", value
    except json.JSONDecodeError as error:
        at = first + error.lineno - 1
        raise SettingsError(f"{path}: line {at}: is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: after line {line}: {error}") from None


def _up_to_largest(path: Path, lines: Iterable[str]) -> Iterator[str]:
    length = 0
    for line in lines:
        length += len(line)
        if length > LARGEST:
            most = f"{LARGEST >> 20} MiB"
            raise SettingsError(f"{path}: a JSON value has more than {most}; write one record on each line")
        yield line


def _parsed(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each of the values that stand one behind the other, with the place where it begins.

    Raises JSONDecodeError, ValueError for a number of thousands of digits, and RecursionError.
    """
    at = _end_of_blank(text, 0)
    while at < len(text):
        begin = at
        value, end = _DECODER.raw_decode(text, begin)
        yield begin, value
        at = _end_of_blank(text, end)


def _end_of_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()


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
