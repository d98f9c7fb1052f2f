"""Requests of a moderator's program, by a personal token."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, Final, Unpack

from .connection import ClientOptions, Connection, whole
from .documents import Item, json_bytes, page_of
from .transport import HttpAnswer, HttpRequest

ROOT: Final = "/v1/moderation"
PAGE: Final = 100
"""Items of a page, the most that the gateway gives."""

Time = datetime | str
"""A `datetime` with a zone, or RFC 3339."""


class ModeratorRequests(Connection):
    """Requests to the routes of moderators."""

    def __init__(self, base_url: str, token: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(base_url, **options)
        self._bearer = {"Authorization": f"Bearer {token}"}

    async def _all(
        self, kind: type[Item], path: str, member: str, filters: Mapping[str, Any]
    ) -> AsyncGenerator[Item, None]:
        """Yield the items of all pages. A page may be empty and still have a next one."""
        cursor = None
        while True:
            page = await self._read(path, {**filters, "limit": PAGE, "cursor": cursor})
            items, cursor = page_of(kind, member, page)
            for item in items:
                yield item
            if cursor is None:
                return

    async def _read(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return await self._get(f"{ROOT}{path}", self._bearer, query_of(query or {}))

    async def _write(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        *,
        etag: str | None = None,
        query: Mapping[str, Any] | None = None,
        repeatable: bool = True,
    ) -> dict[str, Any]:
        url = self._url(f"{ROOT}{path}", query_of(query or {}))
        headers = self._bearer | ({} if etag is None else {"If-Match": etag})
        if document is None:
            return await self._send(method, url, headers, None, repeatable=repeatable)
        headers |= {"Content-Type": "application/json"}
        return await self._send(method, url, headers, json_bytes(document), repeatable=repeatable)

    async def _file(self, path: str, query: Mapping[str, Any] | None = None) -> HttpAnswer:
        """Return an answer that is no JSON."""
        request = HttpRequest("GET", str(self._url(f"{ROOT}{path}", query_of(query or {}))), self._bearer)
        return await self._sent_until_answered(lambda: request, whole)


def query_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a query that are given, as they are sent."""
    return {name: sent(value) for name, value in values.items() if value is not None}


def sent(value: Any) -> Any:
    """Return a value as it is sent: a time in RFC 3339, anything else as it is."""
    return value.isoformat() if isinstance(value, datetime) else value


def decision(code: str, note: str, message: str | None) -> dict[str, Any]:
    """Return the body of a decision."""
    return {"code": code, "note": note} | ({} if message is None else {"message": message})
