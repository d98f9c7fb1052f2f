"""The origins of pages that may use a board from a browser: how they are written."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

ANY: Final = "*"
"""Stands for every origin, and for pages that have none (`null`): sandboxed frames, and files."""

ORIGINS: Final = 32
"""Most origins that one policy names."""

_ORIGIN: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,31})://"
    r"(?:[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?P<port>:[1-9][0-9]{0,4})?"
)
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


def check_origin(text: str) -> str:
    """Return an origin as browsers send it (RFC 6454, section 6.2), or `*`. Raises ValueError.

    Origins are compared as texts, so one that no browser sends would never match.
    """
    if text == ANY:
        return text
    if text == "null":
        raise ValueError("`null` is what every sandboxed page sends: only `*` allows those, and all others")
    match = _ORIGIN.fullmatch(text)
    if match is None or match["port"] == _DEFAULT_PORTS.get(match["scheme"], ""):
        raise ValueError(
            "expected an origin as browsers send it, such as https://game.example: scheme, host and a port "
            "that is not the default one, in lower case, without a path; or * for every page"
        )
    return text


def refuse_beside_any(origins: tuple[str, ...]) -> tuple[str, ...]:
    """Return a list of origins unchanged. Raises ValueError if it has `*` and others."""
    if ANY in origins and len(origins) > 1:
        raise ValueError("`*` allows every page, so it stands alone")
    return origins


Origin = Annotated[str, AfterValidator(check_origin)]
