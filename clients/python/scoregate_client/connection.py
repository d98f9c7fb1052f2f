"""Requests to a gateway: signed or not, and sent again where that is safe."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from .aiohttp_transport import AiohttpTransport
from .documents import document_of, json_bytes
from .errors import DamagedAsset, ScoregateError, no_answer
from .retrying import ATTEMPTS, asked_pause_s, is_worth_repeating, pause_s
from .running import AsyncioRunner, Runner
from .signing import CONTENT_TYPE, Parameters, Target
from .transport import ANSWER_BYTES, HttpAnswer, HttpRequest, Transport, Unanswered, Unconnected

SIGNATURE_LIFETIME_S: Final = 300
"""The longest lifetime that the gateway allows: a repetition sends the same signature."""
PROBLEM_JSON: Final = "application/problem+json"
PROBLEMS: Final = "https://scoregate.dev/problems/"
"""How the type of each problem of the gateway begins."""
MARGIN_S: Final = 10
"""A signature that has less than this left is made anew before a repetition."""

Sign = Callable[[Target, bytes, int], dict[str, str]]
"""Returns header fields for a target, a body, and the time of the signature (Unix seconds)."""
Answer = TypeVar("Answer")
Read = Callable[[HttpAnswer], Answer]
"""Reads an answer. It may raise DamagedAsset for one that should be asked for again."""


class ClientOptions(TypedDict, total=False):
    """What every client takes besides: what tests and engines replace, and how often a request is sent.

    `session` is the caller's, and stays open. `clock` gives Unix seconds, `nonce` a new nonce, and `jitter` a
    number from 0 to 1. A `transport` takes the place of aiohttp, and a `runner` that of asyncio.
    """

    session: aiohttp.ClientSession | None
    attempts: int
    clock: Callable[[], float]
    transport: Transport | None
    runner: Runner | None
    nonce: Callable[[], str]
    jitter: Callable[[], float]


class Connection:
    """Requests to one gateway."""

    def __init__(self, base_url: str, **options: Unpack[ClientOptions]) -> None:
        self._attempts = options.get("attempts", ATTEMPTS)
        if self._attempts < 1:
            raise ValueError("At least one attempt is needed.")
        self._base_url = _checked_address(base_url)
        self._transport = options.get("transport") or AiohttpTransport(options.get("session"))
        self._runner = options.get("runner") or AsyncioRunner()
        self._clock = options.get("clock", time.time)
        self._nonce = options.get("nonce", _new_nonce)
        self._jitter = options.get("jitter", random.random)
        self._offset_s = 0

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
        await self._transport.close()

    async def _post_signed(self, path: str, document: Any, sign: Sign) -> dict[str, Any]:
        return await self._send_signed("POST", path, json_bytes(document), CONTENT_TYPE, sign)

    async def _send_signed(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        sign: Sign,
        within_s: float | None = None,
    ) -> dict[str, Any]:
        return _document(await self._answer_to_signed(method, path, body, content_type, sign, within_s))

    async def _answer_to_signed(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        sign: Sign,
        within_s: float | None = None,
    ) -> HttpAnswer:
        """Return an answer of success. The gateway's time, if it tells it, is kept for all that follows."""
        url = self._url(path)
        target = Target(method, authority(url), url.raw_path, url.raw_query_string, content_type)
        signed = _Signed(lambda now_s: sign(target, body, now_s), self._now_s)

        def request() -> HttpRequest:
            return HttpRequest(method, str(url), signed.headers(), body, within_s)

        try:
            return await self._sent_until_answered(request, whole)
        except ScoregateError as refusal:
            is_of_clock = refusal.is_of_gateway and refusal.reason == "signature-expired"
            if not is_of_clock or refusal.server_time is None:
                raise
            self._offset_s = refusal.server_time - int(self._clock())
            signed.expires = 0
            return await self._sent_until_answered(request, whole)

    def _now_s(self) -> int:
        """Return the gateway's time in Unix seconds, as far as this client knows it."""
        return int(self._clock()) + self._offset_s

    def _viewer(self) -> dict[str, str]:
        """Return the fields that say who looks, for reads where what is seen may differ by that."""
        return {}

    async def _get(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> dict[str, Any]:
        return await self._send("GET", self._url(path, query), headers or {}, None)

    async def _send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        repeatable: bool = True,
    ) -> dict[str, Any]:
        """Return the JSON object of an answer."""
        request = HttpRequest(method, str(url), headers, body)
        return await self._sent_until_answered(
            lambda: request, lambda answer: _document(whole(answer)), repeatable=repeatable
        )

    async def _sent_until_answered(
        self, request: Callable[[], HttpRequest], read: Read[Answer], *, repeatable: bool = True
    ) -> Answer:
        """Return what `read` makes of the answer; send again what is worth it.

        What is not `repeatable` is sent again only if it did nothing: no connection was made, or the gateway
        was too busy.
        """
        for attempt in range(1, self._attempts + 1):
            is_last = attempt == self._attempts
            asked_s = None
            try:
                return read(self._accepted(await self._transport.send(request())))
            except Unanswered as error:
                if is_last or not (repeatable or isinstance(error, Unconnected)):
                    raise no_answer(error) from error
            except DamagedAsset:
                if is_last:
                    raise
            except ScoregateError as refusal:
                asked_s = refusal.retry_after_s
                if is_last or not is_worth_repeating(refusal.status, asked_s, repeatable=repeatable):
                    raise
            await self._runner.sleep(pause_s(attempt, self._jitter()) if asked_s is None else asked_s)
        raise AssertionError("unreachable")

    def _accepted(self, answer: HttpAnswer) -> HttpAnswer:
        """Return the answer, or raise the refusal that it is, with the pause that it asks for."""
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return answer
        raise refusal_of(answer, self._now_s())

    def _url(self, path: str, query: Mapping[str, str | int] | None = None) -> URL:
        # encoded=True: the signature covers these bytes, so nothing may quote them again.
        return URL(self._base_url + path + (f"?{urlencode(query)}" if query else ""), encoded=True)

    def _parameters(self, now_s: int, keyid: str, alg: str, tag: str) -> Parameters:
        return Parameters(now_s, now_s + SIGNATURE_LIFETIME_S, self._nonce(), keyid, tag, alg)


class _Signed:
    """The signature of one request, which is made anew once it is about to expire."""

    def __init__(self, sign: Callable[[int], dict[str, str]], now_s: Callable[[], int]) -> None:
        self._sign = sign
        self._now_s = now_s
        self._headers: dict[str, str] = {}
        self.expires = 0

    def headers(self) -> dict[str, str]:
        """Return the header fields of the request."""
        now_s = self._now_s()
        if now_s > self.expires - MARGIN_S:
            self._headers, self.expires = self._sign(now_s), now_s + SIGNATURE_LIFETIME_S
        return self._headers


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


def given(**values: Any) -> dict[str, str | int]:
    """Return what is given of a query, in its order: lists with commas, and of truths only `true`."""
    query: dict[str, str | int] = {}
    for name, value in values.items():
        if value is None or value is False or (isinstance(value, Sequence) and not value):
            continue
        if value is True:
            query[name] = "true"
        elif isinstance(value, str | int):
            query[name] = value
        else:
            query[name] = ",".join(value)
    return query


def refusal_of(answer: HttpAnswer, now_s: float) -> ScoregateError:
    """Return the error that stands for an answer which is none."""
    problem = document_of(answer.body)
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_of_gateway = media_type == PROBLEM_JSON and str(problem.get("type")).startswith(PROBLEMS)
    asked_s = asked_pause_s(answer.headers, now_s)
    return ScoregateError(answer.status, problem, asked_s, is_of_gateway=is_of_gateway)


def whole(answer: HttpAnswer) -> HttpAnswer:
    """Return an answer that was read to its end. Raises ScoregateError for one that is too long."""
    if not answer.is_whole:
        raise ScoregateError(answer.status, {"detail": f"The answer has more than {ANSWER_BYTES} bytes."})
    return answer


def _checked_address(base_url: str) -> str:
    """Return the address of a gateway without a slash at its end. Raises ValueError for what is none."""
    try:
        url = URL(base_url)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        expected = "an address that begins with http:// or https://"
        raise ValueError(f"base_url: expected {expected} (given: {base_url})")
    if url.user or url.password or url.query_string or url.fragment:
        # What was given is not repeated: it may be a password.
        raise ValueError("base_url: expected an address without a user, a query or a fragment")
    return str(url).rstrip("/")


def _document(answer: HttpAnswer) -> dict[str, Any]:
    document = document_of(answer.body)
    if not document:
        raise ScoregateError(answer.status, {})
    return document


def _new_nonce() -> str:
    return secrets.token_urlsafe(18)
