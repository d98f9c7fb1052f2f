"""The Lua scripts of the index, loaded from their files and called by name."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final

from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError

from gateway.index.cluster import RAW, Cluster, keys_by_server
from gateway.index.ranges import RangedWindow
from gateway.runtime.boundary import FAULTS, boundary
from gateway.runtime.unexpected import FaultPlace
from policies.errors import IndexNotWhole, IndexUnavailable

_NOT_WHOLE: Final = "NOTWHOLE"
_GATE: Final = """-- Refuse to read a board that is not whole: the last of KEYS is its sentinel.
if redis.call('EXISTS', KEYS[#KEYS]) == 0 then
  return redis.error_reply('NOTWHOLE the board is not in the index, or not all of it')
end
KEYS[#KEYS] = nil
"""
_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


@cache
def script_source(name: str) -> str:
    """Return the text of `lua/<name>.lua`, preceded by the file that it includes."""
    source = (files("gateway.index") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    included = [script_source(match) for match in _INCLUDE.findall(source)]
    return "\n".join([*included, source])


ScriptCall = tuple[Sequence[str], Sequence[Any]]
"""The keys and the arguments of one call of a script."""


class _Source:
    """A script text, sent by its digest once Redis has it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(
        self, client: Redis, keys: Sequence[str | bytes], arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        parameters = (len(keys), *keys, *arguments)
        execute: Any = client.execute_command
        try:
            return await execute("EVALSHA", self._digest, *parameters, **options)
        except NoScriptError:
            return await execute("EVAL", self._text, *parameters, **options)

    def by_digest(self, keys: Sequence[str], arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the command of a call to a Redis that has the text."""
        return ("EVALSHA", self._digest, len(keys), *keys, *arguments)


class Script:
    """A script on one client. Raises IndexUnavailable, and never sends a call twice.

    If its keys include windows in ranges, it runs behind `_ranges.lua` and sees each as one ZSET. With
    `is_raw` it returns bytes instead of texts, so that one forged value does not fail the whole read.
    """

    def __init__(self, client: Redis, name: str, *, is_raw: bool = False) -> None:
        self._client = client
        self._options: Mapping[str, Any] = {NEVER_DECODE: True} if is_raw else {}
        self._plain, self._on_ranges = _sources_of(name)

    async def __call__(self, keys: Sequence[str | bytes], arguments: Sequence[Any]) -> Any:
        """Run the script and return its result."""
        zsets, values = with_ranges(keys, arguments)
        source = self._on_ranges if zsets else self._plain
        with index_boundary():
            return await source.run(self._client, [*keys, *zsets], values, self._options)


class ReadingScript:
    """A script that reads windows for readers: it answers only while the whole board is in the index.

    The check is in the same call as the read, so that Redis cannot be emptied between the two.
    """

    def __init__(self, client: Redis, name: str) -> None:
        self._client = client
        self._open = Script(client, name)
        self._plain, self._on_ranges = _gated_sources_of(name)

    async def __call__(self, sentinel: str | None, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run the script and return its result. Raises IndexNotWhole if Redis lacks a given sentinel."""
        if sentinel is None:
            return await self._open(keys, arguments)
        zsets, values = with_ranges(keys, arguments)
        source = self._on_ranges if zsets else self._plain
        with index_boundary():
            return await source.run(self._client, [*keys, *zsets, sentinel], values, {})


class PipelinedScript:
    """An idempotent script that is called for many keys in one round trip, on a cluster one to each node.

    A call is sent again to a Redis that lacked the script, or to the node that has its slot now. It returns
    bytes.
    """

    def __init__(self, client: Redis, name: str) -> None:
        self._client = client
        self._alone = Script(client, name, is_raw=True)
        self._plain, self._on_ranges = _sources_of(name)
        # A slot that is on its way to another node would keep all calls to its node waiting.
        self._options: Mapping[str, Any] = (
            {"allow_redirections": False} if isinstance(client, Cluster) else {}
        )

    async def __call__(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Run the script for each call, and return the results in order.

        The result of a call that failed is an IndexUnavailable. Raises IndexUnavailable if all failed.
        """
        with index_boundary():
            groups = await self._by_server(calls)
        answers: dict[int, Any] = {}
        # Each in a pipeline of its own: a node that is silent would keep the answers of the others.
        sent = await asyncio.gather(*(self._answers([calls[at] for at in group]) for group in groups))
        for group, results in zip(groups, sent, strict=True):
            answers |= zip(group, results, strict=True)
        if all(isinstance(answer, IndexUnavailable) for answer in answers.values()):
            raise answers[0]
        return [answers[at] for at in range(len(calls))]

    async def _by_server(self, calls: Sequence[ScriptCall]) -> list[list[int]]:
        """Return the positions of the calls in groups, one for each server."""
        if not isinstance(self._client, Cluster):
            return [list(range(len(calls)))]
        positions: dict[str, list[int]] = defaultdict(list)
        for at, (keys, _) in enumerate(calls):
            positions[keys[0]].append(at)
        async with asyncio.timeout(self._client.timeout_s):
            groups = await keys_by_server(self._client, positions)
        return [[at for key in group for at in positions[key]] for group in groups]

    async def _answers(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Return the results of calls to one server, with an IndexUnavailable for each that failed."""
        try:
            with index_boundary():
                first, *others = await self._sent(calls)
        except IndexUnavailable as error:
            return [error] * len(calls)
        result = await self._result(calls[0], first)
        if others and isinstance(first, NoScriptError):  # with the first, Redis was given the script
            return [result, *await self._answers(calls[1:])]
        return [result, *await asyncio.gather(*map(self._result, calls[1:], others))]

    async def _sent(self, calls: Sequence[ScriptCall]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for keys, arguments in calls:
                zsets, values = with_ranges(keys, arguments)
                source = self._on_ranges if zsets else self._plain
                pipe.execute_command(*source.by_digest([*keys, *zsets], values), **RAW)
            return await pipe.execute(raise_on_error=False, **self._options)

    async def _result(self, call: ScriptCall, answer: Any) -> Any:
        try:
            with index_boundary():
                if isinstance(answer, NoScriptError | MovedError):
                    return await self._alone(*call)
                if isinstance(answer, Exception):
                    raise answer
        except IndexUnavailable as error:
            return error
        return answer


def with_ranges(keys: Sequence[str | bytes], arguments: Sequence[Any]) -> tuple[Sequence[str], Sequence[Any]]:
    """Return the keys of the ranges among `keys`, and the arguments with their borders, for `_ranges.lua`."""
    windows = {at: key for at, key in enumerate(keys, start=1) if isinstance(key, RangedWindow)}
    zsets = [zset for window in windows.values() for zset in window.zsets]
    if not windows:
        return zsets, arguments
    borders = [part for at, window in windows.items() for part in (at, *window.borders)]
    return zsets, [*arguments, *borders, len(zsets) // len(windows), len(windows)]


_FAULTS: Final = (*FAULTS, RedisError)


@cache
def _sources_of(name: str) -> tuple[_Source, _Source]:
    """Return the script alone and behind `_ranges.lua`, shared by all boards and clients."""
    source = script_source(name)
    return _Source(source), _Source(f"{script_source('_ranges')}\n{source}")


@cache
def _gated_sources_of(name: str) -> tuple[_Source, _Source]:
    """Return the same two behind the gate."""
    source = script_source(name)
    return _Source(f"{_GATE}{source}"), _Source(f"{_GATE}{script_source('_ranges')}\n{source}")


@contextmanager
def index_boundary() -> Iterator[None]:
    """Raise IndexUnavailable for whatever keeps Redis from answering, or from answering readably."""
    with boundary(FaultPlace.INDEX, _unavailable, known=_FAULTS), _readable():
        yield


def _unavailable(fault: str) -> IndexUnavailable:
    return IndexUnavailable(f"Redis: {fault}")


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise IndexUnavailable("the index holds bytes that Scoregate never wrote") from error
    except ResponseError as error:
        if str(error).startswith(_NOT_WHOLE):
            raise IndexNotWhole from None
        raise
