"""What is wrong with a value, in words for whoever sent it: the one place that speaks for pydantic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

PATTERNS: Final[Mapping[str, str]] = {
    r"^[A-Za-z0-9_-]{1,64}$": "1 to 64 letters, digits, `_` and `-`",
    r"^[a-z0-9]{1,64}$": "1 to 64 small letters and digits",
    r"^[a-z0-9-]{1,32}$": "1 to 32 small letters, digits and `-`",
    r"^[a-z][a-z0-9-]{0,31}$": "up to 32 small letters, digits and `-`, a letter first",
    r"^[a-z][a-z0-9_]{0,31}$": "up to 32 small letters, digits and `_`, a letter first",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$": "up to 32 letters, digits, `.`, `_` and `-`, a letter or digit first",
    r"^sha256:[0-9a-f]{64}$": "`sha256:` and 64 hex digits in small letters",
}
"""What the patterns of `gateway.edge.wire` take."""

_Words = Callable[[Mapping[str, Any]], str]

_WORDS: Final[Mapping[str, _Words]] = {
    "missing": lambda _: "is missing",
    "extra_forbidden": lambda _: "there is no such field",
    "int_type": lambda _: "expected a whole number, written without a point, an exponent or quotes",
    "int_from_float": lambda _: "expected a whole number",
    "float_type": lambda _: "expected a number",
    "string_type": lambda _: "expected a text",
    "bool_type": lambda _: "expected true or false",
    "list_type": lambda _: "expected an array",
    "dict_type": lambda _: "expected an object",
    "model_type": lambda _: "expected an object",
    "model_attributes_type": lambda _: "expected an object",
    "greater_than_equal": lambda about: f"expected at least {about['ge']}",
    "less_than_equal": lambda about: f"expected at most {about['le']}",
    "string_too_short": lambda about: f"expected at least {_counted(about['min_length'], 'character')}",
    "string_too_long": lambda about: f"expected at most {_counted(about['max_length'], 'character')}",
    "too_short": lambda about: f"expected at least {_counted(about['min_length'], 'element')}",
    "too_long": lambda about: f"expected at most {_counted(about['max_length'], 'element')}",
    "string_pattern_mismatch": lambda about: f"expected {PATTERNS.get(about['pattern'], 'another form')}",
    "literal_error": lambda about: f"expected {about['expected']}",
    "union_tag_not_found": lambda about: f"{_unquoted(about['discriminator'])} is missing",
    "union_tag_invalid": lambda about: (
        f"expected {_unquoted(about['discriminator'])} to be one of {about['expected_tags']}"
    ),
    "value_error": lambda about: str(about["error"]),
}


def first_fault(error: ValidationError) -> tuple[tuple[int | str, ...], str]:
    """The place of the first thing that is wrong, and what it is, as a sentence without its full stop."""
    first = error.errors(include_url=False, include_input=False)[0]
    return first["loc"], _words_of(first)


def _words_of(detail: ErrorDetails) -> str:
    words = _WORDS.get(detail["type"])
    return words(detail.get("ctx", {})) if words else "expected another value"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _unquoted(name: str) -> str:
    return name.strip("'")
