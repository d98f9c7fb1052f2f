"""A strict JSON parser: each text has one meaning, and its size is bounded before it is parsed."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from gateway.edge.problems import Problem, ProblemType

CONTAINER_LIMIT: Final = 32
"""The maximum number of objects and arrays in a body, which also bounds the parser's recursion."""

KEY_LIMIT: Final = 64
"""The maximum number of keys in an object."""

KEY_CHARS: Final = 64
"""The longest key, since refusals repeat the keys of wrong fields."""

NUMBER_CHARS: Final = 40
"""The length at which whole numbers are cut. Longer ones are out of range of every field, and stay so."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(body: bytes, *, containers: int = CONTAINER_LIMIT) -> Any:
    """Return the value of a JSON text in UTF-8, reading `-0` as 0.

    Raises `malformed-request` for byte order marks and other encodings, duplicate keys, NaN and infinities,
    lone surrogates, NUL, control characters in strings, more than `containers` objects and arrays, more than
    KEY_LIMIT keys in an object, and keys longer than KEY_CHARS characters.
    """
    # Brackets inside strings count as well: this is cheap, and honest bodies stay far below the limit.
    if body.count(b"{") + body.count(b"[") > containers:
        _refuse("the body has too many objects or arrays")
    try:
        text = body.decode("utf-8")
        value = _DECODER.decode(text)
    except UnicodeDecodeError:
        _refuse("the body is not UTF-8")
    except (ValueError, RecursionError):
        _refuse("the body is not JSON")
    if "\\u" in text:  # only an escape can spell a surrogate or NUL here
        _check_text(value)
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _refuse("an object has the same key twice")
    if len(members) > KEY_LIMIT or max(map(len, members), default=0) > KEY_CHARS:
        _refuse("an object has too many keys, or one is too long")
    return members


def _finite(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        _refuse("a number is out of range")
    return value


def _whole(literal: str) -> int:
    # Python raises ValueError for thousands of digits, which would be told as "not JSON".
    return int(literal) if len(literal) <= NUMBER_CHARS else int(literal[:NUMBER_CHARS])


def _refuse_constant(_literal: str) -> NoReturn:
    _refuse("NaN and infinities are not JSON")


def _check_text(value: Any) -> None:
    if isinstance(value, str):
        if "\x00" in value or _SURROGATE.search(value):
            _refuse("a string holds a NUL or a lone surrogate")
    elif isinstance(value, dict):
        for key, member in value.items():
            _check_text(key)
            _check_text(member)
    elif isinstance(value, list):
        for element in value:
            _check_text(element)


def _refuse(detail: str) -> NoReturn:
    raise Problem(ProblemType.MALFORMED_REQUEST, detail)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole
)
