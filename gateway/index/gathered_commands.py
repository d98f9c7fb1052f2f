"""Commands to Redis that are sent together when they begin together."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from redis.asyncio import Redis, RedisCluster

from gateway.index.cluster import keys_by_server
from gateway.runtime.gathering import Gathering


class Command(NamedTuple):
    """A command with its arguments, the first of which is its key, and the options of its answer."""

    words: Sequence[Any]
    options: Mapping[str, Any] = {}

    @property
    def key(self) -> Any:
        """The key that decides which server of a cluster has it."""
        return self.words[1]


class GatheredCommands:
    """Sends commands of several callers in a pipeline to each server. Each fails alone or with its server."""

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
        """Send to all servers at once, in a pipeline each: one for all fails if any of them is away."""
        if isinstance(self._client, RedisCluster):
            await self._client.initialize()
        commands = list(chain(*calls))
        by_key: dict[Any, list[int]] = defaultdict(list)
        for at, command in enumerate(commands):
            by_key[command.key].append(at)
        servers = await keys_by_server(self._client, by_key)
        parts = [[at for key in keys for at in by_key[key]] for keys in servers]
        sent = await asyncio.gather(*(self._answers_of([commands[at] for at in part]) for part in parts))
        answers = dict(zip(chain(*parts), chain(*sent), strict=True))
        in_order = (answers[at] for at in range(len(commands)))
        return [[next(in_order) for _ in call] for call in calls]

    async def _answers_of(self, commands: Sequence[Command]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for words, options in commands:
                pipe.execute_command(*words, **options)
            try:
                return await pipe.execute(raise_on_error=False)
            except Exception as error:  # noqa: BLE001 - it is the answer to each of them
                return [error] * len(commands)
