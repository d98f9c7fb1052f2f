"""The stream of changes of a lane: its entries, and reads that continue from an entry without a gap."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis, RedisCluster

from gateway.index import keys
from gateway.index.cluster import RAW, Client, keys_by_server
from gateway.index.scripts import Script, index_boundary

PAGE: Final = 100
"""Entries read at once: fewer than a listener may fall behind, so that one page never ends a listener."""

CHANGES_KEPT: Final = 20_000
"""Most entries of a stream, give or take some hundred: about 4 MB.

It is twice as many as a returning listener may read, and 40 s of 500 changes in a second for those who derive
from the stream. If all lanes of a deployment are as busy, their streams take 1 GB together.
"""

TRIMMED_AT_ONCE: Final = 1_000
"""Entries that one command reads to find those of a player."""

STREAM_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")

Entry = tuple[str, dict[str, str]]
"""The id of an entry and its fields."""


def is_stream_id(text: str) -> bool:
    """Return whether Redis takes the text as the id of an entry: two 64-bit numbers."""
    return bool(STREAM_ID.fullmatch(text)) and all(int(part) < 2**64 for part in text.split("-"))


def position_of(stream_id: str) -> tuple[int, int]:
    """Return a stream id as a sortable pair."""
    milliseconds, _, counter = stream_id.partition("-")
    return int(milliseconds or 0), int(counter or 0)


class StreamTrimmed(Exception):
    """The stream no longer has the entry to continue from: it was trimmed, or Redis was emptied."""


class LanePage(NamedTuple):
    """Entries in order, and the id of the last one."""

    entries: tuple[Entry, ...]
    last_id: str
    is_last: bool


@dataclass(frozen=True, slots=True)
class LaneStream:
    """The changes on all boards of a lane. Every method raises IndexUnavailable if Redis does not answer."""

    client: Redis
    key: str

    async def newest_id(self) -> str | None:
        """Return the id of the last entry, None while there is none."""
        return (await newest_ids(self.client, [self.key]))[self.key]

    async def after(self, last_id: str, count: int = PAGE) -> LanePage:
        """Return up to `count` entries after one that was read before. Raises StreamTrimmed.

        One command reads that entry again with those after it. If it is still there, none after it was
        trimmed, and the stream is the same one.
        """
        with index_boundary():
            rows: Any = await self.client.xrange(self.key, min=last_id, count=count + 1)
        if not rows or rows[0][0] != last_id:
            raise StreamTrimmed
        return LanePage(tuple(rows[1:]), rows[-1][0], is_last=len(rows) <= count)

    async def first(self, count: int = PAGE) -> LanePage:
        """Return the first entries of a stream. Raises StreamTrimmed if it has none any more."""
        with index_boundary():
            rows: Any = await self.client.xrange(self.key, count=count)
        if not rows:
            raise StreamTrimmed
        return LanePage(tuple(rows), rows[-1][0], is_last=len(rows) < count)

    async def pages_after(self, last_id: str, page: int = PAGE) -> AsyncIterator[LanePage]:
        """Yield everything after an entry, up to now. Raises StreamTrimmed."""
        is_last = False
        while not is_last:
            entries = await self.after(last_id, page)
            yield entries
            last_id, is_last = entries.last_id, entries.is_last


async def newest_ids(client: Client, streams: Sequence[str]) -> dict[str, str | None]:
    """Return the id of the last entry of each stream, None while it has none, with one call per server."""
    if not isinstance(client, RedisCluster):
        # Cheaper than a command for each stream, which idle consumers would send for all lanes.
        ends = await Script(client, "ends_of_streams", is_raw=True)(streams, [1])
        return {key: end.decode() or None for key, end in zip(streams, ends, strict=True)}
    commands = {key: ("XREVRANGE", key, "+", "-", "COUNT", 1) for key in streams}
    answers = await answers_of(client, commands)
    return {key: rows[0][0].decode() if rows else None for key, rows in answers.items()}


async def values_of(client: Client, wanted: Sequence[str]) -> dict[str, bytes | None]:
    """Return the value of each key, None while there is none, with one call per server."""
    if not isinstance(client, RedisCluster):
        with index_boundary():
            values: Any = await client.execute_command("MGET", *wanted, **RAW)  # type: ignore[no-untyped-call]
        return dict(zip(wanted, values, strict=True))
    return await answers_of(client, {key: ("GET", key) for key in wanted})


async def grown_after(client: Client, ends: Mapping[str, str], *, block_ms: int | None = None) -> set[str]:
    """Return the streams that have entries after these ids.

    A single server waits up to `block_ms` for the first. A cluster cannot wait for streams of several slots:
    it answers at once, with one call per server.
    """
    if not ends:
        return set()
    if not isinstance(client, RedisCluster):
        waiting = () if block_ms is None else ("BLOCK", block_ms)
        command = ("XREAD", "COUNT", 1, *waiting, "STREAMS", *ends, *ends.values())
        with index_boundary():
            answer: Any = await client.execute_command(*command, **RAW)  # type: ignore[no-untyped-call]
        return {key.decode() for key, _ in answer or ()}
    # XRANGE, because redis-py asks a node where the keys of each XREAD are.
    answers = await answers_of(
        client, {key: ("XRANGE", key, f"({end}", "+", "COUNT", 1) for key, end in ends.items()}
    )
    return {key for key, rows in answers.items() if rows}


async def answers_of(client: Client, commands: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the answer to a command about each key, in bytes, with one call per server."""
    answers: dict[str, Any] = {}
    with index_boundary():
        for group in await keys_by_server(client, commands):
            async with client.pipeline(transaction=False) as pipe:
                for key in group:
                    pipe.execute_command(*commands[key], **RAW)
                answers |= zip(group, await pipe.execute(), strict=True)
    return answers


def of_board(board: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that are of a board."""
    return [entry for entry in entries if entry[1].get("board") == board]


async def forget_name(client: Redis, lane: int, player: str) -> int:
    """Take a player's changes out of a lane's stream, since they have a name, and return how many.

    Whoever was to continue from one of them begins anew, as after a trim. Raises IndexUnavailable.
    """
    key, last, count = keys.lane_changes(lane), "-", 0
    while True:
        with index_boundary():
            rows: Any = await client.xrange(key, min=last, count=TRIMMED_AT_ONCE)
            ids = [entry_id for entry_id, fields in rows if fields.get("player") == player]
            count += await client.xdel(key, *ids) if ids else 0
        if len(rows) < TRIMMED_AT_ONCE:
            return count
        last = f"({rows[-1][0]}"
