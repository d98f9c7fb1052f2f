"""The boards of each lane that are in Redis, may go cold, are wanted, or lack changes in their tails.

The scripts that change what these sets describe write them. A set that is lost costs no data:
`gateway.steward.index_duties` says how each comes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster

from gateway.index import keys
from gateway.index.gathered_commands import Command, GatheredCommands
from gateway.index.scripts import Script, index_boundary
from gateway.runtime.lanes import lane_of

LaneKey = Callable[[int], str]
"""The function in `keys` that returns the key of a lane's set."""

ALWAYS: Final = "+inf"

LEAST_OF_LANE: Final = 4
"""Boards taken of one lane at least: the first of many lanes are about those that wait longest."""


class Residents:
    """The sets of all lanes. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis, commands: GatheredCommands | None = None) -> None:
        self._client = client
        self._commands = commands or GatheredCommands(client)
        self._strike = Script(client, "strike_unchanged")
        self._first = Script(client, "first_of_lanes")

    async def first(
        self, key_of: LaneKey, lanes: Collection[int], *, count: int, upto_ms: int | None = None
    ) -> list[str]:
        """Return the boards with the lowest times of all these lanes, up to a time (Unix ms)."""
        most = ALWAYS if upto_ms is None else upto_ms
        of_lane = max(LEAST_OF_LANE, -(-count // max(1, len(lanes))))
        if not lanes:
            return []
        if isinstance(self._client, RedisCluster):
            pairs = await self._from_each(_sets(key_of, frozenset(lanes)), most, of_lane)
        else:
            # A quarter of the cost of a command for each lane, which an idle steward pays every second.
            flat = await self._first(_sets(key_of, frozenset(lanes)), [most, of_lane])
            pairs = [(float(at_ms), board) for board, at_ms in zip(flat[::2], flat[1::2], strict=True)]
        return [board for _, board in sorted(pairs)[:count]]

    async def _from_each(
        self, sets: Sequence[str], most: float | str, of_lane: int
    ) -> list[tuple[float, str]]:
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for key in sets:
                    pipe.zrange(key, "-inf", most, byscore=True, offset=0, num=of_lane, withscores=True)
                answers = await pipe.execute()
        return [(at_ms, board) for answer in answers for board, at_ms in answer]

    async def add(self, key_of: LaneKey, boards: Iterable[str], at_ms: int) -> None:
        """Put those boards into their sets that are not there."""
        await self._change(boards, lambda lane, names: ("ZADD", key_of(lane), "NX", *_timed(names, at_ms)))

    async def put_off(self, key_of: LaneKey, boards: Iterable[str], until_ms: int) -> None:
        """Set the time of those boards that are in their sets."""
        await self._change(boards, lambda lane, names: ("ZADD", key_of(lane), "XX", *_timed(names, until_ms)))

    async def strike(self, key_of: LaneKey, boards: Iterable[str]) -> None:
        """Take boards out of their sets."""
        await self._change(boards, lambda lane, names: ("ZREM", key_of(lane), *names))

    async def strike_unchanged(self, key_of: LaneKey, board: str, at_ms: int) -> bool:
        """Take a board out of its set if its time is still this one, and return whether it was."""
        return bool(await self._strike([key_of(lane_of(board))], [board, at_ms]))

    async def marks_of(self, boards: Sequence[str]) -> list[tuple[bool, bool]]:
        """Return for each board whether the index holds all of it, and whether it is marked as cold."""
        if not boards:
            return []
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for board in boards:
                    pipe.exists(keys.sentinel(board))
                    pipe.exists(keys.cold(board))
                marks = [bool(answer) for answer in await pipe.execute()]
        return list(zip(marks[::2], marks[1::2], strict=True))

    async def _change(self, boards: Iterable[str], change: Callable[[int, list[str]], Sequence[Any]]) -> None:
        by_lane: dict[int, list[str]] = defaultdict(list)
        for board in boards:
            by_lane[lane_of(board)].append(board)
        with index_boundary():
            await self._commands.answers([Command(change(lane, names)) for lane, names in by_lane.items()])


def _timed(names: Iterable[str], at_ms: int) -> Iterator[Any]:
    """Return members of a ZSET with their score, as ZADD takes them."""
    return chain.from_iterable((at_ms, name) for name in names)


@lru_cache(maxsize=16)
def _sets(key_of: LaneKey, lanes: frozenset[int]) -> list[str]:
    """Return the keys of the lanes' sets."""
    return [key_of(lane) for lane in sorted(lanes)]
