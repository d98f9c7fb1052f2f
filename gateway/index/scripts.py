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
from redis.exceptions import NoScriptError, RedisError, ResponseError

from gateway.index.ranges import RangedWindow
from gateway.runtime.boundary import FAULTS, boundary
from gateway.runtime.unexpected import FaultPlace
from policies.errors import IndexNotWhole, IndexUnavailable

_NOT_WHOLE: Final = "NOTWHOLE"
_GATE: Final = """-- Answers nothing of a board that is not whole: the last of KEYS is its sentinel.
if redis.call('EXISTS', KEYS[#KEYS]) == 0 then
  return redis.error_reply('NOTWHOLE the board is not in the index, or not all of it')
end
KEYS[#KEYS] = nil
"""
_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


@cache
def script_source(name: str) -> str:
    """The text of `lua/<name>.lua`, with the file it includes before it."""
    source = (files("gateway.index") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
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
        told, zsets, values = with_ranges(keys, arguments)
        source = self._on_ranges if zsets else self._plain
        with index_boundary():
            return await source.run(self._client, [*told, *zsets], values, self._options)


class ReadingScript:
    """A script that reads windows for somebody: behind the gate, it answers only while all of the board is in the index.

    The gate is in the same call as the read, so that nothing can be emptied between the two.
    """

    def __init__(self, client: Redis, name: str) -> None:
        self._client = client
        self._open = Script(client, name)
        self._plain, self._on_ranges = _gated_sources_of(name)

    async def __call__(self, sentinel: str | None, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """What the script returns. Raises IndexNotWhole if there is a sentinel and Redis has it not."""
        if sentinel is None:
            return await self._open(keys, arguments)
        told, zsets, values = with_ranges(keys, arguments)
        source = self._on_ranges if zsets else self._plain
        with index_boundary():
            return await source.run(self._client, [*told, *zsets, sentinel], values, {})


def with_ranges(
    keys: Sequence[str | bytes], arguments: Sequence[Any]
) -> tuple[Sequence[str | bytes], Sequence[str], Sequence[Any]]:
    """The keys, those of the ranges that come behind them, and the arguments with the borders, as `_ranges.lua` takes them."""
    windows = {at: key for at, key in enumerate(keys, start=1) if isinstance(key, RangedWindow)}
    zsets = [zset for window in windows.values() for zset in window.zsets]
    if not windows:
        return keys, zsets, arguments
    borders = [part for at, window in windows.items() for part in (at, *window.borders)]
    return keys, zsets, [*arguments, *borders, len(zsets) // len(windows), len(windows)]


_FAULTS: Final = (*FAULTS, RedisError)


@cache
def _sources_of(name: str) -> tuple[_Source, _Source]:
    """The script by itself and behind `_ranges.lua`, the same for all boards and clients."""
    source = script_source(name)
    return _Source(source), _Source(f"{script_source('_ranges')}\n{source}")


@cache
def _gated_sources_of(name: str) -> tuple[_Source, _Source]:
    """The same two behind the gate."""
    source = script_source(name)
    return _Source(f"{_GATE}{source}"), _Source(f"{_GATE}{script_source('_ranges')}\n{source}")


@contextmanager
def index_boundary() -> Iterator[None]:
    """Turns whatever keeps Redis from answering, with something that can be read, into IndexUnavailable."""
    with boundary(FaultPlace.INDEX, _unavailable, known=_FAULTS), _readable():
        yield


def _unavailable(said: str) -> IndexUnavailable:
    return IndexUnavailable(f"Redis: {said}")


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise IndexUnavailable("the index holds bytes that we never wrote") from error
    except ResponseError as error:
        if str(error).startswith(_NOT_WHOLE):
            raise IndexNotWhole from None
        raise
