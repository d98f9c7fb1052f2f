"""Looking at what one board's index holds, byte for byte, and taking out what is not true.

Everything is read as bytes: who can write to Redis can write what is no text, and it has to be seen to be taken out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import ResponseError

from gateway.index import keys
from gateway.index.cluster import scan
from gateway.index.ranges import window_key
from gateway.index.scripts import Script, index_boundary
from gateway.index.transactions import transact
from policies.ranking import Ranking

Raw = str | bytes


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key as Redis describes it: its type, and when it expires (Unix ms; None: never)."""

    key: bytes
    kind: str
    expires_at_ms: int | None


class Inspection:
    """One board's index from the outside. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis, board: str) -> None:
        self.board = board
        self._client = client
        self._version = keys.version(board)
        self._prune = Script(client, "prune_members")
        self._drop = Script(client, "drop_fields")
        self._groups = Script(client, "check_groups")

    async def is_whole(self) -> bool:
        """False once Redis was emptied, until the board is rebuilt."""
        with index_boundary():
            return bool(await self._client.exists(keys.sentinel(self.board)))

    async def scan(self, count: int) -> AsyncGenerator[list[bytes], None]:
        """The keys of the board, about `count` of Redis' keys looked at for each list."""
        cursor = 0
        while True:
            with index_boundary():
                stem = keys.stem(self.board)
                cursor, found = await scan(self._client, stem, cursor, match=f"{stem}*", count=count)
            yield found
            if not cursor:
                return

    async def fields(self, key: str, count: int) -> AsyncGenerator[list[bytes], None]:
        """The fields of a hash, about `count` at once; all at once if Redis holds them in one piece."""
        cursor = 0
        while True:
            cursor, found = await self._raw("HSCAN", key, cursor, "COUNT", count, nothing=(0, {}))
            yield list(found)
            if not cursor:
                return

    async def members(self, key: str, count: int) -> AsyncGenerator[list[bytes], None]:
        """The members of a ZSET, about `count` at once; all at once if Redis holds them in one piece."""
        async with aclosing(self.scored_members(key, count)) as slices:
            async for placed in slices:
                yield [member for member, _ in placed]

    async def scored_members(self, key: str, count: int) -> AsyncGenerator[list[tuple[bytes, float]], None]:
        """The members of a ZSET with their scores, in such slices."""
        cursor = 0
        while True:
            cursor, found = await self._raw("ZSCAN", key, cursor, "COUNT", count, nothing=(0, []))
            yield [(member, float(score)) for member, score in found]
            if not cursor:
                return

    async def check_groups(
        self, ranking: Ranking, window: str, groups: Sequence[Raw], *, is_mended: bool = False
    ) -> list[bool]:
        """Whether each of these groups stands in a window's groups if, and only if, an entry is of it."""
        held = [window_key(ranking, window), keys.groups(self.board, window), self._version]
        slots = ranking.orders_per_score(window)
        answers: list[int] = await self._groups(held, [slots, int(is_mended), *groups]) if groups else []
        return [answer == 1 for answer in answers]

    async def first(self, key: str, count: int) -> list[bytes]:
        """The first members of a ZSET."""
        found: list[bytes] = await self._raw("ZRANGE", key, 0, count - 1, nothing=[])
        return found

    async def values(self, key: str, fields: Sequence[Raw]) -> list[bytes | None]:
        """The values of these fields of a hash."""
        nothing: list[bytes | None] = [None] * len(fields)
        found: list[bytes | None] = await self._raw("HMGET", key, *fields, nothing=nothing) if fields else []
        return found

    async def scores(self, key: str, members: Sequence[Raw]) -> list[float | None]:
        """The scores of these members of a ZSET."""
        nothing: list[float | None] = [None] * len(members)
        found: list[float | None] = (
            await self._raw("ZMSCORE", key, *members, nothing=nothing) if members else []
        )
        return found

    async def facts(self, found: Sequence[Raw]) -> list[KeyFacts]:
        """What Redis says of those of these keys that are there."""
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for key in found:
                    pipe.type(key)
                    pipe.execute_command("PEXPIRETIME", key)
                answers: Any = await pipe.execute()
        told = zip(found, answers[::2], answers[1::2], strict=True)
        return [
            KeyFacts(key if isinstance(key, bytes) else key.encode(), kind, expires if expires >= 0 else None)
            for key, kind, expires in told
            if kind != "none"
        ]

    async def open_runs(self, key: bytes) -> tuple[int, float]:
        """How many runs a player has open, and when the last of them expires (Unix ms)."""
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.zcard(key)
                pipe.execute_command("ZRANGE", key, -1, -1, "WITHSCORES", **{NEVER_DECODE: True})
                count, last = await pipe.execute()
        return count, float(last[1]) if last else 0.0

    async def prune(self, window: str, zset: str, seen: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Takes members out of a ZSET of a window, each given with its player and the slot value that was read with it."""
        window_keys = [zset, keys.members(self.board, window), self._version]
        await self._prune(window_keys, list(chain(*seen)))

    async def drop(self, key: str, seen: Mapping[bytes, bytes]) -> None:
        """Takes fields out of a hash whose values are still those that were read."""
        if seen:
            await self._drop([key, self._version], list(chain(*seen.items())))

    async def remove(self, key: str, members: Sequence[Raw]) -> None:
        """Takes members out of a ZSET."""
        if members:
            with index_boundary():
                await self._client.zrem(key, *members)

    async def delete(self, found: Sequence[Raw]) -> None:
        """Takes keys away."""
        if found:
            await self._change("UNLINK", *found)

    async def put(self, key: str, values: Mapping[str, str]) -> None:
        """Sets fields of a hash."""
        if values:
            await self._change("HSET", key, *chain(*values.items()))

    async def expire(self, key: bytes, at_ms: int | None) -> None:
        """Has a key expire then, or never."""
        with index_boundary():
            if at_ms is None:
                await self._client.persist(key)
            else:
                await self._client.pexpireat(key, at_ms)

    async def _change(self, *command: Any) -> None:
        """Does what may change a page, and in the same step lets go of the pages that were read before it."""
        with index_boundary():
            await transact(self._client, self._version, [command, ("DEL", self._version)])

    async def _raw(self, *command: Any, nothing: Any) -> Any:
        """The answer in bytes. A key of another type holds nothing of what is asked for; that it is there is seen elsewhere."""
        with index_boundary():
            try:
                return await self._client.execute_command(*command, **{NEVER_DECODE: True})  # type: ignore[no-untyped-call]
            except ResponseError as error:
                if str(error).startswith("WRONGTYPE"):
                    return nothing
                raise
