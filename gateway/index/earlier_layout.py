"""The keys of the layout before lanes, and their removal from a server in slices.

Those keys had the name of their board as hash tag: `lb:{<board>}:<rest>`, and `derived:{<board>}:<rest>`. A
board's name begins with a letter and a lane's with a digit, so the two layouts share no key.

What the ledger has is removed. Limits, open runs and their counts are in Redis alone: they move to their new
keys with the time that they have left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from gateway.index import keys
from gateway.index.cluster import RAW, scan_server
from gateway.index.scripts import index_boundary
from policies.errors import IndexUnavailable

LAYOUT: Final = "lanes"
"""The layout of this version, as the marker names it."""

EITHER: Final = "[ld][be]*:{*"
"""Pattern of all keys of boards and of derived data, in either layout."""

_EARLIER: Final = re.compile(rb"(lb|derived):\{([a-z][a-z0-9-]{0,47})(/[0-9]{1,4})?\}:(.+)", re.DOTALL)
_CARRIED: Final = re.compile(r"(?:open|runs|limit|refused):.+", re.DOTALL)

_RETRIED: Final = (AskError, MovedError, TryAgainError, ClusterDownError, ReadOnlyError)
"""Errors that are over once the cluster agrees on its nodes. After any other the value is given up."""


class LayoutState(NamedTuple):
    """What the marker says: whether the layout is this version's, and how many keys were removed for it."""

    is_current: bool
    removed: int


class EarlierLayout:
    """The keys of the earlier layout in one index. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def state(self) -> LayoutState:
        """Return what the marker says."""
        with index_boundary():
            marker = await self._client.hmget(keys.layout(), ["is", "removed"])
        return LayoutState(marker[0] == LAYOUT, int(marker[1] or 0))

    async def mark_current(self) -> None:
        """Note that no key of the earlier layout is left."""
        with index_boundary():
            await self._client.hset(keys.layout(), "is", LAYOUT)

    async def hide(self, parts: Iterable[str]) -> None:
        """Remove the earlier sentinels of boards and shards, so that an edge of before reads the ledger."""
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for part in parts:
                    pipe.execute_command("UNLINK", f"lb:{{{part}}}:whole")
                await pipe.execute()

    async def remove_slice(self, where: ClusterNode | None, cursor: int, *, count: int) -> tuple[int, int]:
        """Remove the earlier keys among the next `count` keys of a server.

        Return the next cursor, 0 at the end, and how many were removed.
        """
        with index_boundary():
            cursor, names = await scan_server(self._client, where, cursor, match=EITHER, count=count)
        earlier = [name for name in names if _EARLIER.fullmatch(name)]
        if earlier:
            await self._carry({name: key for name in earlier if (key := new_key(name))})
            await self._unlink(earlier)
            with suppress(IndexUnavailable), index_boundary():  # a full Redis takes no note, but frees keys
                await self._client.hincrby(keys.layout(), "removed", len(earlier))
        return cursor, len(earlier)

    async def _carry(self, new_keys: Mapping[bytes, str]) -> None:
        """Copy values to their new keys, unless something is there already."""
        values = await self._values(list(new_keys))
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for name, (life_ms, value) in values.items():
                    if value is not None and life_ms > 0:  # one without an end was never ours
                        pipe.execute_command("RESTORE", new_keys[name], life_ms, value)
                for answer in await pipe.execute(raise_on_error=False):
                    # A refusal means that something is there already, or that this Redis is full, or lets
                    # nobody use RESTORE. None of them may keep the earlier keys for ever.
                    if isinstance(answer, Exception) and (
                        isinstance(answer, _RETRIED) or not isinstance(answer, ResponseError)
                    ):
                        raise answer

    async def _values(self, names: Sequence[bytes]) -> dict[bytes, tuple[int, bytes | None]]:
        """Return for each key the time it has left (ms, -1: never ends) and its value as DUMP gives it."""
        if not names:
            return {}
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.pttl(name)
                    pipe.execute_command("DUMP", name, **RAW)
                answers: Sequence[Any] = await pipe.execute()
        return dict(zip(names, zip(answers[::2], answers[1::2], strict=True), strict=True))

    async def _unlink(self, names: Sequence[bytes]) -> None:
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.execute_command("UNLINK", name)
                await pipe.execute()


def new_key(name: bytes) -> str | None:
    """Return where the value of an earlier key belongs now, None if the ledger has it."""
    match = _EARLIER.fullmatch(name)
    if not match or match[3]:
        return None
    rest = match[4].decode(errors="replace")
    is_carried = match[1] == b"lb" and _CARRIED.fullmatch(rest)
    return keys.stem(match[2].decode()) + rest if is_carried else None
