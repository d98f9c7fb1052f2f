"""Inspection of one board's index, byte for byte, and removal of what is false.

Everything is read as bytes: a forger can write bytes that are no text, and those must be read to be removed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from gateway.index import keys
from gateway.index.cluster import RAW, scan
from gateway.index.gathered_commands import Command, GatheredCommands
from gateway.index.ranges import window_key
from gateway.index.scripts import Script, index_boundary
from gateway.index.transactions import transact
from policies.ranking import Ranking

Raw = str | bytes


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key's type and expiry in Redis (Unix ms; None: never)."""

    key: bytes
    kind: str
    expires_at_ms: int | None


class Inspection:
    """One board's index, seen from the outside. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis, board: str, commands: GatheredCommands | None = None) -> None:
        self.board = board
        self._client = client
        self._commands = commands or GatheredCommands(client)
        self._version = keys.version(board)
        self._prune = Script(client, "prune_members")
        self._drop = Script(client, "drop_fields")
        self._check_groups = Script(client, "check_groups")

    def beside(self, board: str) -> Inspection:
        """Return the inspection of another board, whose commands are sent together with this one's."""
        return Inspection(self._client, board, self._commands)

    async def is_whole(self) -> bool:
        """Return whether the whole board is in Redis: not after a loss, until a rebuild."""
        with index_boundary():
            [is_whole] = await self._commands.answers([Command(("EXISTS", keys.sentinel(self.board)))])
        return bool(is_whole)

    async def scan(self, count: int) -> AsyncGenerator[list[bytes], None]:
        """Yield lists of the board's keys; Redis visits about `count` of all its keys for each."""
        cursor = 0
        while True:
            with index_boundary():
                stem = keys.stem(self.board)
                cursor, board_keys = await scan(self._client, stem, cursor, match=f"{stem}*", count=count)
            yield board_keys
            if not cursor:
                return

    async def fields(self, key: str, count: int) -> AsyncGenerator[list[bytes], None]:
        """Yield the fields of a hash, about `count` at once; all at once if Redis packs them."""
        async with aclosing(self.pairs(key, count)) as slices:
            async for pairs in slices:
                yield list(pairs)

    async def pairs(self, key: str, count: int) -> AsyncGenerator[dict[bytes, bytes], None]:
        """Yield the fields of a hash with their values, in such slices."""
        cursor = 0
        while True:
            cursor, pairs = await self._raw("HSCAN", key, cursor, "COUNT", count, nothing=(0, {}))
            yield pairs
            if not cursor:
                return

    async def keys_of_groups(self, window: str, count: int) -> AsyncGenerator[list[str], None]:
        """Yield the keys of the groups that players of a window are in, each once.

        They follow from what is kept of the players, so nobody looks through the keys of the server.
        """
        met: set[tuple[str, str]] = set()
        async with aclosing(self.pairs(keys.segmented(self.board, window), count)) as slices:
            async for pairs in slices:
                groups = {group for value in pairs.values() for group in _groups_in(value)} - met
                met |= groups
                yield [keys.segment(self.board, *group, window) for group in sorted(groups)]

    async def members(self, key: str, count: int) -> AsyncGenerator[list[bytes], None]:
        """Yield the members of a ZSET, about `count` at once; all at once if Redis packs them."""
        async with aclosing(self.scored_members(key, count)) as slices:
            async for pairs in slices:
                yield [member for member, _ in pairs]

    async def scored_members(self, key: str, count: int) -> AsyncGenerator[list[tuple[bytes, float]], None]:
        """Yield the members of a ZSET with their scores, in such slices."""
        cursor = 0
        while True:
            cursor, pairs = await self._raw("ZSCAN", key, cursor, "COUNT", count, nothing=(0, []))
            yield [(member, float(score)) for member, score in pairs]
            if not cursor:
                return

    async def check_groups(
        self, ranking: Ranking, window: str, groups: Sequence[Raw], *, is_mended: bool = False
    ) -> list[bool]:
        """Return for each group whether it is in the window's groups exactly if an entry is in it."""
        if not groups:
            return []
        window_keys = [window_key(ranking, window), keys.groups(self.board, window), self._version]
        arguments = [ranking.orders_per_score(window), int(is_mended), *groups]
        answers: list[int] = await self._check_groups(window_keys, arguments)
        return [answer == 1 for answer in answers]

    async def first(self, key: str, count: int) -> list[bytes]:
        """Return the first members of a ZSET."""
        members: list[bytes] = await self._raw("ZRANGE", key, 0, count - 1, nothing=[])
        return members

    async def values(self, key: str, fields: Sequence[Raw]) -> list[bytes | None]:
        """Return the values of these fields of a hash."""
        nothing: list[bytes | None] = [None] * len(fields)
        if not fields:
            return []
        values: list[bytes | None] = await self._raw("HMGET", key, *fields, nothing=nothing)
        return values

    async def scores(self, key: str, members: Sequence[Raw]) -> list[float | None]:
        """Return the scores of these members of a ZSET."""
        nothing: list[float | None] = [None] * len(members)
        if not members:
            return []
        scores: list[float | None] = await self._raw("ZMSCORE", key, *members, nothing=nothing)
        return scores

    async def facts(self, board_keys: Sequence[Raw]) -> list[KeyFacts]:
        """Return the facts of those of these keys that exist."""
        commands = [Command((name, key)) for key in board_keys for name in ("TYPE", "PEXPIRETIME")]
        with index_boundary():
            answers = await self._commands.answers(commands)
        rows = zip(board_keys, answers[::2], answers[1::2], strict=True)
        return [
            KeyFacts(key if isinstance(key, bytes) else key.encode(), kind, expires if expires >= 0 else None)
            for key, kind, expires in rows
            if kind != "none"
        ]

    async def open_runs(self, key: bytes) -> tuple[int, float]:
        """Return how many runs a player has open, and when the last of them expires (Unix ms)."""
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.zcard(key)
                pipe.execute_command("ZRANGE", key, -1, -1, "WITHSCORES", **RAW)
                count, last = await pipe.execute()
        return count, float(last[1]) if last else 0.0

    async def prune(self, window: str, zset: str, entries: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Remove members from a window's ZSET, each given with its player and the slot value read with it."""
        window_keys = [zset, keys.members(self.board, window), self._version]
        await self._prune(window_keys, list(chain(*entries)))

    async def drop(self, key: str, values: Mapping[bytes, bytes]) -> None:
        """Remove fields from a hash if they still have these values."""
        if values:
            await self._drop([key, self._version], list(chain(*values.items())))

    async def remove(self, key: str, members: Sequence[Raw]) -> None:
        """Remove members from a ZSET."""
        if members:
            with index_boundary():
                await self._client.zrem(key, *members)

    async def delete(self, board_keys: Sequence[Raw]) -> None:
        """Delete keys."""
        if board_keys:
            await self._change("UNLINK", *board_keys)

    async def put(self, key: str, values: Mapping[str, str]) -> None:
        """Set fields of a hash."""
        if values:
            await self._change("HSET", key, *chain(*values.items()))

    async def expire(self, key: bytes, at_ms: int | None) -> None:
        """Let a key expire at this time, or never."""
        with index_boundary():
            if at_ms is None:
                await self._client.persist(key)
            else:
                await self._client.pexpireat(key, at_ms)

    async def _change(self, *command: Any) -> None:
        """Run a command that may change a page, and invalidate the pages read before it in the same step."""
        with index_boundary():
            await transact(self._client, self._version, [command, ("DEL", self._version)])

    async def _raw(self, *command: Any, nothing: Any) -> Any:
        """Return the answer in bytes, or `nothing` for a key of another type, which another check reports."""
        with index_boundary():
            try:
                [answer] = await self._commands.answers([Command(command, RAW)])
            except ResponseError as error:
                if str(error).startswith("WRONGTYPE"):
                    return nothing
                raise
        return answer


def _groups_in(value: bytes) -> list[tuple[str, str]]:
    """Return the groups in a segmented value, each as its segment and value."""
    groups = [group.partition(":") for group in value.decode(errors="ignore").split(" ")[1:]]
    return [(segment, name) for segment, _, name in groups]
