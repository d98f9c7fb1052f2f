"""Commands to Redis that are sent together when they begin together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from redis.asyncio import Redis

from gateway.runtime.gathering import Gathering


class Command(NamedTuple):
    """A command with its arguments, and the options of its answer."""

    words: Sequence[Any]
    options: Mapping[str, Any] = {}


class GatheredCommands:
    """Sends commands of several callers in one pipeline. Each fails alone."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._gathering: Gathering[Sequence[Command], Sequence[Any]] = Gathering(self._send)

    async def answers(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers in order. Raises the first error among them."""
        answers = await self._gathering.make(commands) if commands else ()
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return list(answers)

    async def _send(self, calls: Sequence[Sequence[Command]]) -> list[Sequence[Any]]:
        async with self._client.pipeline(transaction=False) as pipe:
            for words, options in chain(*calls):
                pipe.execute_command(*words, **options)
            answers = iter(await pipe.execute(raise_on_error=False))
        return [[next(answers) for _ in commands] for commands in calls]
