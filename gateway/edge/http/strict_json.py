"""JSON as this interface reads it: one meaning per text, and bounded before it is parsed."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from gateway.edge.problems import Problem, ProblemType

CONTAINER_LIMIT: Final = 32
"""Most objects and arrays in a body, nested or not; bounds the parser's recursion as well."""

KEY_LIMIT: Final = 64
"""Most keys in one object."""

KEY_CHARS: Final = 64
"""Longest key; longer ones would be repeated in refusals that name their field."""

LONGEST_NUMBER: Final = 40
"""Digits beyond which a whole number is cut: it is out of every range by far, and its field says so."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(body: bytes, *, containers: int = CONTAINER_LIMIT) -> Any:
    """The value of a JSON text in UTF-8.

    Refused as `malformed-request`: byte order marks and other encodings, duplicate keys, NaN and infinities, lone
    surrogates, NUL, control characters in strings, more than `containers` objects and arrays or KEY_LIMIT keys, and keys
    of more than KEY_CHARS characters.
    `-0` is read as 0.
    """
    if body.count(b"{") + body.count(b"[") > containers:
        _refuse("the body has too many objects or arrays")
    try:
        text = body.decode("utf-8")
        value = _DECODER.decode(text)
    except UnicodeDecodeError:
        _refuse("the body is not UTF-8")
    except (ValueError, RecursionError):
        _refuse("the body is not JSON")
    if "\\u" in text:
        _check_text(value)
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse("an object has the same key twice")
    if len(found) > KEY_LIMIT or max(map(len, found), default=0) > KEY_CHARS:
        _refuse("an object has too many keys, or one is too long")
    return found


def _finite(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        _refuse("a number is out of range")
    return value


def _whole(literal: str) -> int:
    """The number; of one that no field takes, some other that no field takes: Python refuses to read thousands of digits."""
    return int(literal) if len(literal) <= LONGEST_NUMBER else int(literal[:LONGEST_NUMBER])


def _refuse_constant(_literal: str) -> NoReturn:
    _refuse("NaN and infinities are not JSON")


def _check_text(value: Any) -> None:
    if isinstance(value, str):
        if "\x00" in value or _SURROGATE.search(value):
            _refuse("a string holds a NUL or a lone surrogate")
    elif isinstance(value, dict):
        for key, each in value.items():
            _check_text(key)
            _check_text(each)
    elif isinstance(value, list):
        for each in value:
            _check_text(each)


def _refuse(detail: str) -> NoReturn:
    raise Problem(ProblemType.MALFORMED_REQUEST, detail)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole
)
