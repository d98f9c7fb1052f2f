"""Reads dataclasses from the gateway's JSON, without members that this version does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Self, get_args, get_origin, get_type_hints


class Document:
    """A dataclass that is read from a JSON object, with the documents in it."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the object of a JSON document."""
        kinds = _kinds_of(cls)
        return cls(**{name: _read(kinds[name], value) for name, value in document.items() if name in kinds})


@cache
def _kinds_of(document: type[Document]) -> dict[str, Any]:
    hints = get_type_hints(document)
    return {item.name: hints[item.name] for item in fields(document)}  # type: ignore[arg-type]


def _read(kind: Any, value: Any) -> Any:
    """Return a value of a document as its type says: documents, and tuples and mappings of them."""
    if isinstance(kind, type) and issubclass(kind, Document):
        return kind.from_json(value)
    inner = get_args(kind)
    if value is None or not inner:
        return value
    if get_origin(kind) is tuple:
        return tuple(_read(inner[0], item) for item in value)
    if get_origin(kind) is Mapping:
        return {name: _read(inner[1], item) for name, item in value.items()}
    return _read(inner[0], value)  # a document or None
