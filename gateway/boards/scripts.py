"""The Lua scripts of the index, loaded from their files and called by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from policies.errors import IndexUnavailable

_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


def script_source(name: str) -> str:
    """The text of `lua/<name>.lua`, with the file it includes before it."""
    source = (files("gateway.boards") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    included = [script_source(match) for match in _INCLUDE.findall(source)]
    return "\n".join([*included, source])


class Script:
    """One script on one client, by the digest of its source. Raises IndexUnavailable, and never sends twice."""

    def __init__(self, client: Redis, name: str) -> None:
        self._client = client
        self._source = script_source(name)
        self._digest = hashlib.sha1(self._source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[str | bytes], arguments: Sequence[Any]) -> Any:
        """What the script returns."""
        with answering():
            return await self._evaluate(keys, arguments)

    async def _evaluate(self, keys: Sequence[str | bytes], arguments: Sequence[Any]) -> Any:
        try:
            return await self._client.evalsha(self._digest, len(keys), *keys, *arguments)
        except NoScriptError:
            return await self._client.eval(self._source, len(keys), *keys, *arguments)


@contextmanager
def answering() -> Iterator[None]:
    """Turns whatever keeps Redis from answering, with something that can be read, into IndexUnavailable."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise IndexUnavailable("the index holds bytes that we never wrote") from error
    except (RedisError, OSError, TimeoutError) as error:
        raise IndexUnavailable(f"Redis: {error or type(error).__name__}") from error
