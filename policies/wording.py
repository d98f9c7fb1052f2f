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


def plain_message(model: type[Policy], location: Sequence[Any], error: Any) -> str:
    """Return what is wrong with a setting at its location in a model, with what may have been meant."""
    if error["type"] == "missing":
        is_nameless = list(location) == ["board"]
        return "`board` or `family` is missing" if is_nameless else "this setting is missing"
    if error["type"] == "extra_forbidden":
        return _unknown(model, location)
    pattern = error.get("ctx", {}).get("pattern")
    return _PATTERNS.get(pattern) or str(error["msg"]).removeprefix("Value error, ")


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
