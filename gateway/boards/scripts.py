"""The Lua scripts of the index, loaded from their files and called by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final

from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError, RedisError

from gateway.boards.ranges import RangedWindow
from gateway.boundary import FAULTS, boundary
from gateway.unexpected import Place
from policies.errors import IndexUnavailable

_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


@cache
def script_source(name: str) -> str:
    """The text of `lua/<name>.lua`, with the file it includes before it."""
    source = (files("gateway.boards") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    included = [script_source(match) for match in _INCLUDE.findall(source)]
    return "\n".join([*included, source])


class _Source:
    """A text for Redis to run, which knows it by its digest once it has it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(
        self, client: Redis, keys: Sequence[str | bytes], arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        told = (len(keys), *keys, *arguments)
        try:
            return await client.execute_command("EVALSHA", self._digest, *told, **options)  # type: ignore[no-untyped-call]
        except NoScriptError:
            return await client.execute_command("EVAL", self._text, *told, **options)  # type: ignore[no-untyped-call]


class Script:
    """One script on one client, by the digest of its source. Raises IndexUnavailable, and never sends twice.

    Where its keys have windows in ranges, it runs behind `_ranges.lua`, and sees each as one ZSET. With `is_raw` it
    returns bytes where it would return texts: who reads what anybody may have written must not fail by one piece of it.
    """

    def __init__(self, client: Redis, name: str, *, is_raw: bool = False) -> None:
        self._client = client
        self._options: Mapping[str, Any] = {NEVER_DECODE: True} if is_raw else {}
        self._plain, self._on_ranges = _sources_of(name)

    async def __call__(self, keys: Sequence[str | bytes], arguments: Sequence[Any]) -> Any:
        """What the script returns."""
        windows = {at: key for at, key in enumerate(keys, start=1) if isinstance(key, RangedWindow)}
        with answering():
            if not windows:
                return await self._plain.run(self._client, keys, arguments, self._options)
            zsets = [zset for window in windows.values() for zset in window.zsets]
            borders = [part for at, window in windows.items() for part in (at, *window.borders)]
            told = [*arguments, *borders, len(zsets) // len(windows), len(windows)]
            return await self._on_ranges.run(self._client, [*keys, *zsets], told, self._options)


_FAULTS: Final = (*FAULTS, RedisError)


@cache
def _sources_of(name: str) -> tuple[_Source, _Source]:
    """The script by itself and behind `_ranges.lua`, the same for all boards and clients."""
    source = script_source(name)
    return _Source(source), _Source(f"{script_source('_ranges')}\n{source}")


@contextmanager
def answering() -> Iterator[None]:
    """Turns whatever keeps Redis from answering, with something that can be read, into IndexUnavailable."""
    with boundary(Place.INDEX, _unavailable, known=_FAULTS), _readable():
        yield


def _unavailable(said: str) -> IndexUnavailable:
    return IndexUnavailable(f"Redis: {said}")


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise IndexUnavailable("the index holds bytes that we never wrote") from error
