"""Messages for clients about invalid values, in place of pydantic's own."""

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
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$": (
        "up to 32 letters, digits, `.`, `_` and `-`, a letter or digit first"
    ),
    r"^[a-z][a-z0-9-]{0,47}\.[A-Za-z0-9_-]{1,64}$": "`<family>.<name>`, such as `track.monza`",
    r"^[a-z][a-z0-9-]{0,47}(\.[A-Za-z0-9_-]{1,64})?$": (
        "a board by its short name, such as `arcade` or `track.monza`, which is not its title"
    ),
    r"^[a-z][a-z0-9-]{0,47}$": "up to 48 small letters, digits and `-`, a letter first",
    r"^[a-z0-9][a-z0-9._-]{0,63}$": (
        "a name of up to 64 small letters, digits, `.`, `_` and `-`, a letter or digit first"
    ),
    r"^(\*|[a-z][a-z0-9_.-]{0,127})$": (
        "a board or a family by its short name, such as `arcade`, which is not its title; or `*` for all"
    ),
    r"^[A-Za-z0-9_-]{22,86}$": "22 to 86 letters, digits, `_` and `-`",
    r"^[A-Za-z0-9+/]{86}==$": "the base64 of a signature of 64 bytes",
    r"^sha256:[0-9a-f]{64}$": "`sha256:` and 64 hex digits in small letters",
}
"""A description of each pattern in `gateway.edge.wire`."""

UNKNOWN_FIELD: Final = "unknown field"

_Message = Callable[[Mapping[str, Any]], str]

_MESSAGES: Final[Mapping[str, _Message]] = {
    "missing": lambda _: "is missing",
    "extra_forbidden": lambda _: UNKNOWN_FIELD,
    "int_type": lambda _: "expected a whole number, written without a point, an exponent or quotes",
    "int_from_float": lambda _: "expected a whole number",
    "float_type": lambda _: "expected a number",
    "string_type": lambda _: "expected a text",
    "bool_type": lambda _: "expected true or false",
    "list_type": lambda _: "expected an array",
    "dict_type": lambda _: "expected an object",
    "model_type": lambda _: "expected an object",
    "model_attributes_type": lambda _: "expected an object",
    "greater_than_equal": lambda context: f"expected at least {context['ge']}",
    "less_than_equal": lambda context: f"expected at most {context['le']}",
    "string_too_short": lambda context: f"expected at least {_counted(context['min_length'], 'character')}",
    "string_too_long": lambda context: f"expected at most {_counted(context['max_length'], 'character')}",
    "too_short": lambda context: f"expected at least {_counted(context['min_length'], 'element')}",
    "too_long": lambda context: f"expected at most {_counted(context['max_length'], 'element')}",
    "string_pattern_mismatch": lambda context: f"expected {PATTERNS.get(context['pattern'], 'another form')}",
    "literal_error": lambda context: f"expected {context['expected']}",
    "union_tag_not_found": lambda _: "is missing",
    "union_tag_invalid": lambda context: f"expected one of {context['expected_tags']}",
    "value_error": lambda context: str(context["error"]),
}


def first_fault(error: ValidationError, *, skip: int = 0) -> tuple[tuple[int | str, ...], str]:
    """Return the location of the first invalid value and its message, without a full stop.

    The location is without its `skip` outermost parts. A wrong tag of a union is the fault of its own field.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    location = first["loc"][skip:]
    if first["type"] in {"union_tag_not_found", "union_tag_invalid"}:
        location += (first["ctx"]["discriminator"].strip("'"),)
    return location, _message_of(first)


def _message_of(detail: ErrorDetails) -> str:
    message = _MESSAGES.get(detail["type"])
    return message(detail.get("ctx", {})) if message else "expected another value"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
