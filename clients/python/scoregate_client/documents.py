"""Reads dataclasses from the gateway's JSON, without members that this version does not know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from http import HTTPStatus
from types import NoneType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from .errors import ScoregateError


class Document:
    """A dataclass that is read from a JSON object, with the documents in it."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the object of a JSON document. Raises ScoregateError if it is none of this kind."""
        try:
            return cls.read(document)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            detail = f"The answer is not what a gateway answers ({cls.__name__}: {error})."
            raise ScoregateError(HTTPStatus.OK, {"detail": detail}) from error

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the object of a JSON document. Raises ValueError, TypeError or KeyError."""
        kind: Any = cls
        kinds = _kinds_of(kind)
        return cls(**{name: _value(kinds[name], value) for name, value in document.items() if name in kinds})


Item = TypeVar("Item", bound=Document)


def page_of(kind: type[Item], member: str, page: Mapping[str, Any]) -> tuple[list[Item], str | None]:
    """Return the items of a page, and the cursor of the next one, None after the last."""
    items, following = page.get(member), page.get("next")
    if not isinstance(items, list) or not isinstance(following, str | None):
        raise ScoregateError(HTTPStatus.OK, {"detail": f"The answer is no page of {member}."})
    return [kind.from_json(item) for item in items], following


@cache
def _kinds_of(document: Any) -> dict[str, Any]:
    hints = get_type_hints(document)
    return {item.name: hints[item.name] for item in fields(document)}


def _value(kind: Any, value: Any) -> Any:
    """Return a value of a document as its type says: documents, and tuples and mappings of them."""
    if isinstance(kind, type) and issubclass(kind, Document):
        return kind.read(_checked(dict, value))
    inner = get_args(kind)
    origin = get_origin(kind)
    if kind is Any or (value is None and NoneType in inner):
        return value
    if origin is tuple:
        return tuple(_value(inner[0], item) for item in _checked(list, value))
    if origin is Mapping:
        return {name: _value(inner[1], item) for name, item in _checked(dict, value).items()}
    if inner:  # a value or None
        [kind] = [each for each in inner if each is not NoneType]
        return _value(kind, value)
    return float(value) if kind is float and type(value) is int else _checked(kind, value)


def _checked(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{type(value).__name__} in place of {kind.__name__}")
    if isinstance(value, str):
        value.encode()  # half a surrogate pair is no text that could be sent again
    return value


def json_bytes(document: Any) -> bytes:
    """Return the JSON text of a document, without spaces."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def document_of(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body, an empty one if there is none.

    Something in front of the gateway may answer without one: only the status is known then.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
