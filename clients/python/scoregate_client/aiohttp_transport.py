"""The transport of the asynchronous clients, over aiohttp."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

import aiohttp
from yarl import URL

from .transport import CONNECT_S, WITHIN_S, HttpAnswer, HttpRequest, HttpStream, Unanswered, Unconnected

_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_NOT_ANSWERED = (aiohttp.ClientError, TimeoutError, OSError, ValueError)
"""A ValueError is what aiohttp raises for a head that is no HTTP."""


class AiohttpTransport:
    """Carries requests over a session of its own, or over the caller's, which it does not close."""

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        self._session = session
        self._owns_session = session is None

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Send a request and return the whole answer."""
        async with self.listen(request) as stream:
            body = bytearray()
            async for chunk in stream.chunks:
                body += chunk
                if len(body) > request.most_bytes:
                    return HttpAnswer(stream.status, stream.headers, bytes(body), is_whole=False)
            return HttpAnswer(stream.status, stream.headers, bytes(body))

    @asynccontextmanager
    async def listen(self, request: HttpRequest) -> AsyncGenerator[HttpStream, None]:
        """Send a request and give the answer as it arrives."""
        exchange = self._exchange(request)
        with _told():
            response = await exchange.__aenter__()
        try:
            yield HttpStream(response.status, _lower(response.headers), _chunks(response))
        finally:
            if not response.content.at_eof():
                response.close()  # nobody reads the rest, so the connection cannot carry another exchange
            response.release()

    async def close(self) -> None:
        """Close the session, unless it is the caller's."""
        if self._owns_session and self._session is not None:
            await self._session.close()
            self._session = None

    def _exchange(self, request: HttpRequest) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=WITHIN_S, sock_connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(_once,),
            )
        timeout = self._session.timeout
        if request.within_s is not None or request.silence_s is not None:
            timeout = aiohttp.ClientTimeout(
                total=request.within_s, sock_connect=CONNECT_S, sock_read=request.silence_s
            )
        # encoded=True: the signature covers these bytes, so nothing may quote them again.
        return self._session.request(
            request.method,
            URL(request.url, encoded=True),
            headers=request.headers,
            data=request.body,
            allow_redirects=False,
            timeout=timeout,
        )


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    with _told():
        async for chunk in response.content.iter_any():
            yield chunk


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request once: aiohttp would repeat a read by itself, behind the attempts of the client."""
    with _told():
        return await handler(request)


@contextmanager
def _told() -> Iterator[None]:
    """Raise what the clients know for what aiohttp raises."""
    try:
        yield
    except _NOT_CONNECTED as error:
        raise Unconnected(str(error)) from error
    except _NOT_ANSWERED as error:
        raise Unanswered(str(error) or type(error).__name__) from error


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
