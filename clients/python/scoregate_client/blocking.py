"""Methods of asynchronous clients, turned into methods of synchronous ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from .blocking_transport import BlockingTransport
from .connection import ClientOptions, Connection
from .running import BlockingRunner, result_of

Core_co = TypeVar("Core_co", bound=Connection, covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Generic[Core_co]):
    """A synchronous client, around the asynchronous one that does the work."""

    def __init__(self, core: Core_co) -> None:
        self.core = core

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what the transport has open."""
        result_of(self.core.close())


def blocking(
    method: Callable[Concatenate[Core_co, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[Core_co], P], T]:
    """Return the synchronous method that does what a coroutine does."""

    @wraps(method)
    def call(client: Blocking[Core_co], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return result_of(method(client.core, *args, **kwargs))

    return call


def blocking_each(
    method: Callable[Concatenate[Core_co, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Blocking[Core_co], P], Generator[T, None, None]]:
    """Return the synchronous method that yields what an asynchronous one yields."""

    @wraps(method)
    def each(client: Blocking[Core_co], /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        return _each(method(client.core, *args, **kwargs))

    return each


def _each(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    async def following() -> tuple[T, ...]:
        async for item in items:
            return (item,)
        return ()

    try:
        while found := result_of(following()):
            yield found[0]
    finally:
        result_of(items.aclose())


def without_loop(options: ClientOptions) -> ClientOptions:
    """Return options for a client that no event loop runs."""
    if options.get("session"):
        raise ValueError("A session of aiohttp needs an event loop.")
    defaults: ClientOptions = {"transport": BlockingTransport(), "runner": BlockingRunner()}
    return {**defaults, **options}
