"""Pages of other origins: which of them may read our answers, and how their browsers learn it (CORS).

The rules are those of the Fetch standard, section 3.2. Nothing here ever allows credentials that a browser
adds by itself, so a page of another origin acts with the token that it holds, and with nobody's session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.catalogue.catalogue import Catalogue
from policies.loader import Policies
from policies.opened_board import family_named_by
from policies.origins import ANY

ALLOW_ORIGIN: Final = "Access-Control-Allow-Origin"

EXPOSED: Final = (
    "Allow, Content-Disposition, Date, ETag, Idempotency-Replayed, Link, Location, RateLimit, "
    "RateLimit-Policy, Retry-After, Scoregate-Behind, Scoregate-Revision, Scoregate-Source, "
    "Scoregate-Window, WWW-Authenticate"
)
"""The fields of our answers that pages may read besides those that every page may."""

OTHER_ORIGIN: Final = "Origin: expected a page of this deployment, or of an origin that it allows"
"""The detail of a `csrf` where other origins may be allowed."""

_NOBODY: Final[frozenset[str]] = frozenset()
_PATH: Final = re.compile(r"/v1/(?!moderation(?:[/?]|$))(?:(?:boards|families)/([^/?]*))?")
_FIELD: Final = re.compile(rb"\r\norigin:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Tables:
    """The origins of each board or family that names some, and those of any, under some policies."""

    policies: Policies
    by_name: dict[str, frozenset[str]]
    of_any: frozenset[str]


class AllowedOrigins:
    """The origins that the settings allow everywhere, and those that policies allow for their boards."""

    def __init__(self, everywhere: Iterable[str], catalogue: Catalogue) -> None:
        self._everywhere = frozenset(everywhere)
        self._catalogue = catalogue
        self._tables = self._read(catalogue.policies)

    def of_path(self, path: str) -> frozenset[str]:
        """Return the origins whose pages may use a path.

        What belongs to no board, such as a player's token, is for the origins of every board. The moderators'
        routes and the console are for none.
        """
        match = _PATH.match(path)
        if match is None:
            return _NOBODY
        tables = self._tables
        if tables.policies is not self._catalogue.policies:
            tables = self._tables = self._read(self._catalogue.policies)
        if not (name := match[1]):
            return tables.of_any
        own = tables.by_name.get(name) or tables.by_name.get(family_named_by(name) or "")
        return own or self._everywhere

    @staticmethod
    def has(path: str) -> bool:
        """Return whether there may be origins for a path: whether it is one of players."""
        return _PATH.match(path) is not None

    def allows(self, path: str, origin: str) -> bool:
        """Return whether the pages of an origin may use a path."""
        allowed = self.of_path(path)
        return origin in allowed or ANY in allowed

    async def tell(self, request: web.Request, response: web.StreamResponse) -> None:
        """Say in an answer, whatever it is, whether the page that asked may read it."""
        self.add_fields(response.headers, request.raw_path, request.headers.get("Origin", ""))

    def add_fields(self, headers: MutableMapping[str, str], path: str, origin: str) -> None:
        """Add the fields of an answer for a page of this origin."""
        allowed = self.of_path(path)
        if not allowed:
            return
        if ANY not in allowed:  # else caches may send the answer to any page
            headers["Vary"] = f"{headers['Vary']}, Origin" if "Vary" in headers else "Origin"
        headers.update(_fields(allowed, origin))

    def fields_of(self, path: str, origin: str) -> dict[str, str]:
        """Return the fields of an answer that has no `Vary` yet, for a page of this origin."""
        fields: dict[str, str] = {}
        self.add_fields(fields, path, origin)
        return fields

    def fields_of_unparsed(self, data: bytes) -> bytes:
        """Return the lines that an answer to an unparsed request has for the page that sent it."""
        allowed = self.of_path(data.split(b" ", 2)[1].decode("latin-1"))
        if not allowed:
            return b""
        origin = _FIELD.search(data, 0, data.find(b"\r\n\r\n") + 2)
        fields = _fields(allowed, origin[1].decode("latin-1") if origin else "")
        return "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode("ascii")

    def _read(self, policies: Policies) -> _Tables:
        named = {name: policy.policy.origins for name, policy in policies.by_name.items()}
        by_name = {name: self._everywhere.union(origins) for name, origins in named.items() if origins}
        return _Tables(policies, by_name, self._everywhere.union(*by_name.values()))


def _fields(allowed: frozenset[str], origin: str) -> dict[str, str]:
    """Return the fields of an answer for a page of this origin, none if it may not read it."""
    if ANY in allowed:
        return {ALLOW_ORIGIN: ANY, "Access-Control-Expose-Headers": EXPOSED}
    return {ALLOW_ORIGIN: origin, "Access-Control-Expose-Headers": EXPOSED} if origin in allowed else {}
