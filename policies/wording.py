"""Plain wording for the errors of pydantic, which would mean little to a game developer."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel

from policies.family_policy import FamilyPolicy
from policies.model import Policy

_NAME: Final = "expected 1 to 48 small letters, digits and -, with a letter first"
_PATTERNS: Final[Mapping[str, str]] = {
    r"^[a-z][a-z0-9-]{0,47}$": _NAME,
    r"^[a-z][a-z0-9-]{0,47}(\.[A-Za-z0-9_-]{1,64})?$": _NAME,
}
"""The words for the patterns of names of boards and families."""

_EXPECTED: Final[Mapping[str, str]] = {
    "enum": "expected {expected}",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "string_type": "expected a text",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "greater_than_equal": "expected at least {ge}",
    "greater_than": "expected more than {gt}",
    "less_than_equal": "expected at most {le}",
    "less_than": "expected less than {lt}",
    "string_too_short": "expected a text of {min_length} or more characters",
    "string_too_long": "expected a text of at most {max_length} characters",
    "string_pattern_mismatch": "expected a text of the form `{pattern}`",
    "too_short": "expected {min_length} or more elements",
    "too_long": "expected at most {max_length} elements",
}
"""The words for each type of error. What stands in braces is of its context."""


def plain_message(model: type[Policy], location: Sequence[Any], error: Any) -> str:
    """Return what is wrong with a setting at its location in a model, with what may have been meant."""
    if error["type"] == "missing":
        is_nameless = list(location) == ["board"]
        return "`board` or `family` is missing" if is_nameless else "this setting is missing"
    if error["type"] == "extra_forbidden":
        return _unknown(model, location)
    context = error.get("ctx", {})
    if context.get("pattern") in _PATTERNS:
        return _PATTERNS[context["pattern"]]
    if error["type"] in _EXPECTED:
        return _EXPECTED[error["type"]].format_map(context).replace("'", "`")
    return str(error["msg"]).removeprefix("Value error, ")


def _unknown(model: type[Policy], location: Sequence[Any]) -> str:
    name = str(location[-1])
    if len(location) == 1 and name in FamilyPolicy.model_fields and not issubclass(model, FamilyPolicy):
        return "only a family has this setting"
    beside = _settings_beside(model, location) | ({"family"} if len(location) == 1 else set())
    meant = difflib.get_close_matches(name, sorted(beside), n=1)
    return f"unknown setting; did you mean `{meant[0]}`?" if meant else "unknown setting"


def _settings_beside(model: type[BaseModel], location: Sequence[Any]) -> set[str]:
    """Return the names of the settings that may stand where the last part of a location stands."""
    models = {model}
    for part in location[:-1]:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        if fields:  # otherwise it is a key or a place in a list
            models = {found for field in fields for found in _models_in(field.annotation)}
    return {name for each in models for name in each.model_fields}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
