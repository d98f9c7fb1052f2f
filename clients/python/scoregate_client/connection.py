"""Requests to a gateway: over one session, signed or not, and sent again where that is safe."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from .errors import UNREACHED, DamagedAsset, ScoregateError, no_answer
from .signing import CONTENT_TYPE, Target

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
"""If the gateway asks for a longer pause than this, its refusal is raised instead."""
TIMEOUT = aiohttp.ClientTimeout(total=30)

Sign = Callable[[Target, bytes, int], dict[str, str]]
"""Returns header fields for a target, a body, and the time of the signature (Unix seconds)."""
Answer = TypeVar("Answer")
Read = Callable[[aiohttp.ClientResponse], Awaitable[Answer]]
"""Reads the body of an answer. It may raise DamagedAsset for one that should be asked for again."""


class _Request(NamedTuple):
    """A request, and the time that one attempt may take: None for that of the session."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None
    within: aiohttp.ClientTimeout | None


class Connection:
    """Requests to one gateway, over its own session or the caller's."""

    def __init__(
        self,
        base_url: str,
        *,
        session: aiohttp.ClientSession | None = None,
        attempts: int = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if attempts < 1:
            raise ValueError("At least one attempt is needed.")
        self._base_url = str(URL(base_url)).rstrip("/")
        self._session = session
        self._owns_session = session is None
        self._attempts = attempts
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the session, unless it is the caller's."""
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    async def _post_signed(self, path: str, document: Any, sign: Sign) -> dict[str, Any]:
        return await self._send_signed("POST", path, json_bytes(document), CONTENT_TYPE, sign)

    async def _send_signed(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        sign: Sign,
        within: aiohttp.ClientTimeout | None = None,
    ) -> dict[str, Any]:
        url = self._url(path)
        target = Target(method, authority(url), url.raw_path, url.raw_query_string, content_type)

        async def send(now_s: int) -> dict[str, Any]:
            return await self._send(method, url, sign(target, body, now_s), body, within=within)

        try:
            return await send(int(self._clock()))
        except ScoregateError as refusal:
            if refusal.name != "signature-expired" or refusal.server_time is None:
                raise
            return await send(refusal.server_time)

    async def _get(
        self, path: str, headers: Mapping[str, str] | None = None, **query: str | int
    ) -> dict[str, Any]:
        return await self._send("GET", self._url(path, **query), headers or {}, None)

    async def _send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        repeatable: bool = True,
        within: aiohttp.ClientTimeout | None = None,
    ) -> dict[str, Any]:
        """Return the JSON object of an answer."""
        request = _Request(method, url, headers, body, within)
        return await self._sent_until_answered(request, _document, repeatable=repeatable)

    async def _download(
        self,
        url: URL,
        read: Read[Answer],
        within: aiohttp.ClientTimeout | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return what `read` makes of the answer, which is asked for again if it is damaged."""
        return await self._sent_until_answered(_Request("GET", url, headers or {}, None, within), read)

    async def _sent_until_answered(
        self, request: _Request, read: Read[Answer], *, repeatable: bool = True
    ) -> Answer:
        """Return the answer; send again after a 503 and, if `repeatable`, after no whole answer."""
        for attempt in range(1, self._attempts + 1):
            is_last = attempt == self._attempts
            pause_s = min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S)
            try:
                return await self._exchange(request, read)
            except UNREACHED as error:
                if not repeatable or is_last:
                    raise no_answer(error) from error
            except DamagedAsset:
                if is_last:
                    raise
            except ScoregateError as refusal:
                pause_s = pause_s if refusal.retry_after_s is None else refusal.retry_after_s
                is_busy = refusal.status == HTTPStatus.SERVICE_UNAVAILABLE
                if not is_busy or is_last or pause_s > LONGEST_PAUSE_S:
                    raise
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    async def _exchange(self, request: _Request, read: Read[Answer]) -> Answer:
        own = {} if request.within is None else {"timeout": request.within}
        exchange = self._opened().request(
            request.method,
            request.url,
            headers=request.headers,
            data=request.body,
            allow_redirects=False,
            **own,
        )
        async with exchange as response:
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return await read(response)
            raise await refusal_of(response)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=TIMEOUT)
        return self._session

    def _url(self, path: str, **query: str | int) -> URL:
        # encoded=True: the signature covers these bytes, so nothing may quote them again.
        return URL(self._base_url + path + (f"?{urlencode(query)}" if query else ""), encoded=True)


def authority(url: URL) -> str:
    """Return the Host field of requests to a URL, as signatures cover it."""
    host = (url.raw_host or "").lower()
    host = f"[{host}]" if ":" in host else host
    return host if url.is_default_port() else f"{host}:{url.port}"


def segment(value: str) -> str:
    """Return a text as one segment of a path."""
    return quote(value, safe="")


def board_path(board: str) -> str:
    """Return the path of a board."""
    return f"/v1/boards/{segment(board)}"


def json_bytes(document: Any) -> bytes:
    """Return the JSON text of a document, without spaces."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def document_of(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body, an empty one if there is none.

    Something in front of the gateway may answer without one: only the status is known then.
    """
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


async def refusal_of(response: aiohttp.ClientResponse) -> ScoregateError:
    """Return the error that stands for an answer which is none."""
    retry_after_s = _seconds(response.headers.get("Retry-After"))
    return ScoregateError(response.status, document_of(await response.read()), retry_after_s)


async def _document(response: aiohttp.ClientResponse) -> dict[str, Any]:
    document = document_of(await response.read())
    if not document:
        raise ScoregateError(response.status, {})
    return document


def _seconds(retry_after: str | None) -> float | None:
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit()):
        return None
    return float(retry_after)
