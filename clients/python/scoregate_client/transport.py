"""What carries requests to a gateway, and what the clients ask of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

WITHIN_S: Final = 30.0
"""The time that an exchange may take unless its request names another one."""
CONNECT_S: Final = 10.0
ANSWER_BYTES: Final = 16 * 1024 * 1024
"""What is read of an answer at most."""


class Unanswered(Exception):
    """No whole answer came. The request may have arrived."""


class Unconnected(Unanswered):
    """No connection was made, so no request was sent."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it goes over the wire: the URL is quoted already, and nothing may quote it again.

    The exchange takes `within_s` at most, and no silence in it may be longer than `silence_s`; None leaves
    both to the transport. Of the answer's body `most_bytes` are read.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    within_s: float | None = None
    silence_s: float | None = None
    most_bytes: int = ANSWER_BYTES


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, with lower-case names of header fields. `is_whole` is false for a body that was cut off."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class HttpStream:
    """An answer whose body goes on arriving."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Transport(Protocol):
    """Carries requests. It follows no redirects and sends no cookies.

    Its methods raise `Unconnected` or `Unanswered`. For a synchronous client they never suspend.
    """

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Send a request and return the whole answer, whatever its status."""

    def listen(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Send a request and give the answer as it arrives, of which reading may raise `Unanswered`."""

    async def close(self) -> None:
        """Close what is open."""
