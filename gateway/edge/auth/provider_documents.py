"""What the identity provider publishes: its endpoints and its keys, kept for a while and bounded.

Nothing here waits longer than `TIMEOUT_S` for the provider, or takes more than `LONGEST` bytes of it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, Final, Generic, NamedTuple, TypeVar

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar
from joserfc.jwk import KeySet

from gateway.edge.auth.published_keys import keys_of
from gateway.runtime.settings import is_safe_address
from policies.errors import ProviderUnavailable

T = TypeVar("T")

TIMEOUT_S: Final = 5.0
"""The longest call to the provider, from connecting to the last byte."""

LONGEST: Final = 262_144
"""Bytes of an answer of the provider; the documents of the large ones have some thousand."""

KEPT_S: Final = 3600.0
"""How long endpoints and keys are used before they are read again."""

AGAIN_S: Final = 10.0
"""The least time between two readings of one document: also of one that failed, or lacked a key."""

AT_ONCE: Final = 8
"""Calls of one edge to a provider at once, unless it may have more; what is beyond is refused."""

WELL_KNOWN: Final = "/.well-known/openid-configuration"

_OK: Final = 200
_SERVER_ERRORS: Final = 500


class ProviderEndpoints(NamedTuple):
    """Where a provider has people log in, gives tokens for codes, and publishes its keys."""

    authorization: str
    token: str
    keys: str
    takes_secret_in_body: bool
    names_itself: bool


class KeptDocument(Generic[T]):
    """A document that is read when it is needed, and then used for a while.

    While it cannot be read, the one of before is used until it is `stale_s` old.
    """

    def __init__(
        self, read: Callable[[], Awaitable[T]], monotonic_s: Callable[[], float], *, stale_s: float = 0.0
    ) -> None:
        self._read = read
        self._stale_s = stale_s
        self._monotonic_s = monotonic_s
        self._reading = asyncio.Lock()
        self._found: tuple[T, float] | None = None
        self._tried_s = -math.inf

    async def get(self, *, is_new: bool = False) -> T:
        """Return the document; with `is_new`, one that was read a moment ago. Raises ProviderUnavailable."""
        if self._found and not is_new and self._monotonic_s() - self._found[1] < KEPT_S:
            return self._found[0]  # also while somebody else waits for a newer one
        async with self._reading:  # so that many who log in share one reading
            now_s = self._monotonic_s()
            age_s = AGAIN_S if is_new else KEPT_S
            if self._found and now_s - self._found[1] < age_s:
                return self._found[0]
            if now_s - self._tried_s < AGAIN_S:
                return self._found_before(now_s, "the identity provider did not answer a moment ago")
            self._tried_s = now_s
            try:
                self._found = (await self._read(), now_s)
            except ProviderUnavailable as error:
                if is_new:
                    raise
                return self._found_before(now_s, str(error))
            return self._found[0]

    @property
    def is_reading(self) -> bool:
        """Return whether somebody reads it just now."""
        return self._reading.locked()

    def _found_before(self, now_s: float, fault: str) -> T:
        if self._found and now_s - self._found[1] < max(self._stale_s, KEPT_S + AGAIN_S):
            return self._found[0]
        raise ProviderUnavailable(fault)


class ProviderCalls:
    """Calls to one provider, so many at once, none of which follows a redirect."""

    def __init__(self, at_once: int | None = None) -> None:
        self._at_once = at_once
        self._calls = 0

    async def call(self, method: str, url: str, **how: Any) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the JSON object of an answer. Raises ProviderUnavailable."""
        if self._calls >= (self._at_once or AT_ONCE):
            raise ProviderUnavailable("too many are logging in at once")
        self._calls += 1
        try:
            async with (
                _session() as session,
                session.request(method, url, allow_redirects=False, **how) as answer,
            ):
                return answer.status, await _read_object(answer)
        except (ClientError, OSError, ValueError, RuntimeError, TimeoutError) as error:
            raise ProviderUnavailable(f"the identity provider: {type(error).__name__}") from error
        finally:
            self._calls -= 1

    async def read(self, url: str) -> Mapping[str, Any]:
        """Return the JSON object at an address. Raises ProviderUnavailable."""
        status, document = await self.call("GET", url)
        if status != _OK:
            raise ProviderUnavailable(f"the identity provider answers {status}")
        return document


class ProviderDocuments:
    """The endpoints and keys of one provider, and calls to it."""

    def __init__(self, issuer: str, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._calls = ProviderCalls()
        self._endpoints = KeptDocument(self._read_endpoints, monotonic_s)
        self._keys = KeptDocument(self._read_keys, monotonic_s)

    async def endpoints(self) -> ProviderEndpoints:
        """Return where to go. Raises ProviderUnavailable."""
        return await self._endpoints.get()

    async def keys(self, *, is_new: bool = False) -> KeySet:
        """Return the keys; with `is_new`, those of a moment ago. Raises ProviderUnavailable."""
        return await self._keys.get(is_new=is_new)

    async def post(self, url: str, body: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the answer of the token endpoint. Raises ProviderUnavailable."""
        return await self._calls.call("POST", url, data=body.encode(), headers=headers)

    async def _read_endpoints(self) -> ProviderEndpoints:
        document = await self._calls.read(self._issuer.rstrip("/") + WELL_KNOWN)
        if document.get("issuer") != self._issuer:
            raise ProviderUnavailable("the identity provider's document is of another issuer")
        methods = document.get("token_endpoint_auth_methods_supported")
        return ProviderEndpoints(
            _address(document, "authorization_endpoint"),
            _address(document, "token_endpoint"),
            _address(document, "jwks_uri"),
            isinstance(methods, list) and "client_secret_basic" not in methods,
            document.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _read_keys(self) -> KeySet:
        document = await self._calls.read((await self.endpoints()).keys)
        return keys_of(document)


def _session() -> ClientSession:
    headers = {
        "User-Agent": f"Scoregate/{version('scoregate')}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",  # a small answer does not become a large one here
    }
    return ClientSession(
        headers=headers,
        timeout=ClientTimeout(total=TIMEOUT_S),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
    )


async def _read_object(answer: ClientResponse) -> Mapping[str, Any]:
    """Return the JSON object of an answer. Raises ValueError, and ProviderUnavailable for their faults."""
    if answer.status >= _SERVER_ERRORS:
        raise ProviderUnavailable(f"the identity provider answers {answer.status}")
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > LONGEST:
            raise ValueError("the answer is too long")
    document = orjson.loads(body)
    if not isinstance(document, dict):
        raise ValueError("the answer is no object")  # noqa: TRY004 - a fault of the text, like the others
    return document


def _address(document: Mapping[str, Any], name: str) -> str:
    address = document.get(name)
    if not isinstance(address, str) or not is_safe_address(address):
        raise ProviderUnavailable(f"the identity provider has no {name} that is safe")
    return address
