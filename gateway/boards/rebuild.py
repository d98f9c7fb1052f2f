"""A new generation of one board's keys, made beside the live ones and put in their place in one step."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio import Redis

from gateway.boards import keys
from gateway.boards.scripts import Script, answering
from gateway.records import Standing, StoredBaseline
from policies.errors import IndexUnavailable, RebuildLost, RebuildRefused
from policies.model import Order

LEASE_MS: Final = 30_000
"""How long a builder may be silent before another may build. Each page renews it."""

KEPT_MS: Final = 10 * LEASE_MS
"""How long built keys outlive a builder that died. Longer than the lease: while that holds, none of them has expired."""

Command = tuple[str, str, Sequence[Any]]


class Generation:
    """One rebuild of one board. Every method raises IndexUnavailable; RebuildLost says that it has to begin again.

    Writes go in transactions, so that a builder that dies leaves no key without an expiry. Nobody else writes to these
    keys, so what is put later replaces what was put before.
    """

    def __init__(self, client: Redis, board: str, order: Order) -> None:
        self.board = board
        self._order = order
        self._client = client
        self._name = secrets.token_hex(8)
        self._expiries: dict[str, int | None] = {}
        self._swap = Script(client, "swap")
        self._end = Script(client, "end_build")

    async def begin(self) -> None:
        """Takes the lease. Raises RebuildRefused while another builder has it."""
        lease = keys.lease(self.board)
        with answering():
            if await self._client.set(lease, self._name, nx=True, px=LEASE_MS):
                return
            left_s = max(0, await self._client.pttl(lease)) / 1000
        raise RebuildRefused(
            f"{self.board} is being rebuilt already; a builder that died blocks it for {left_s:.0f} s more"
        )

    async def renew(self) -> None:
        """Keeps the lease. Raises RebuildLost if it is gone, as it is when Redis was emptied."""
        await self._write([])

    async def put_standings(self, standings: Sequence[Standing]) -> None:
        """Adds standings of any windows that have none there yet."""
        by_window: dict[str, list[Standing]] = defaultdict(list)
        for standing in standings:
            by_window[standing.window].append(standing)
        await self._write([each for some in by_window.values() for each in self._commands(some)])

    async def replace_standings(self, standings: Sequence[Standing]) -> None:
        """Puts standings in the place of what those players have there."""
        if not standings:
            return
        with answering():
            async with self._client.pipeline(transaction=False) as pipe:
                for each in standings:
                    pipe.hget(self._key(keys.members(self.board, each.window)), each.player)
                slots = await pipe.execute()
        old = [
            ("ZREM", keys.window(self.board, each.window), [slot.split(" ")[1]])
            for each, slot in zip(standings, slots, strict=True)
            if slot
        ]
        await self._write(old)
        await self.put_standings(standings)

    async def put_baselines(self, baselines: Sequence[StoredBaseline]) -> None:
        """Puts baselines."""
        fields = [
            part for each in baselines for part in (keys.baseline_field(each), keys.baseline_value(each))
        ]
        await self._write([("HSET", keys.baselines(self.board), fields)])

    async def put_pending(self, received: Iterable[tuple[str, int]]) -> None:
        """Puts submissions, with when they were received (ms), on the pending set."""
        scores = [part for submission_id, at_ms in received for part in (at_ms, submission_id)]
        await self._write([("ZADD", keys.pending(self.board), scores)])

    async def put_settled(self, decided: Iterable[tuple[str, int]]) -> None:
        """Puts submissions, with when they were decided (ms), on the settled set and takes them off the pending one."""
        found = list(decided)
        scores = [part for submission_id, at_ms in found for part in (at_ms, submission_id)]
        ids = [submission_id for submission_id, _ in found]
        await self._write(
            [("ZADD", keys.settled(self.board), scores), ("ZREM", keys.pending(self.board), ids)]
        )

    async def swap(self, windows: Iterable[str]) -> None:
        """Puts what was built in the place of the live keys; those of these windows that were not built go too."""
        board = self.board
        fixed = (keys.names(board), keys.baselines(board), keys.pending(board), keys.settled(board))
        live = {*fixed, *(part for each in windows for part in _keys_of(board, each)), *self._expiries}
        pairs = [part for each in live for part in (self._key(each), each)]
        expiries = [self._expiries.get(each) or "" for each in live]
        placed = await self._swap([keys.lease(board), keys.sentinel(board), *pairs], [self._name, *expiries])
        if placed < 0:
            raise RebuildLost

    async def finish(self) -> None:
        """Says that the index is whole, and gives the lease back. Raises RebuildLost if Redis was emptied since."""
        if not await self._end([keys.lease(self.board), keys.sentinel(self.board)], [self._name, 1]):
            raise RebuildLost

    async def give_up(self) -> None:
        """Takes away what was built, and gives the lease back, if Redis answers; if not, both expire."""
        with suppress(IndexUnavailable):
            with answering():
                await self._client.unlink(*map(self._key, [*self._expiries, keys.pending(self.board)]))
            await self._end([keys.lease(self.board), keys.sentinel(self.board)], [self._name, 0])

    def _commands(self, standings: Sequence[Standing]) -> Iterable[Command]:
        """What puts standings of one window. This is the inner loop of a rebuild."""
        window, expires_at_ms = standings[0].window, standings[0].expires_at_ms
        sign = keys.order_value(1, self._order)
        scores: list[Any] = []
        slots: list[str] = []
        names: list[str] = []
        for each in standings:
            if each.score is not None:
                scores += (sign * each.score, keys.member_of(each))
            slots += (each.player, keys.slot_value(each))
            if each.name:
                names += (each.player, each.name)
        zset, members = _keys_of(self.board, window)
        self._expiries |= dict.fromkeys((zset, members), None if window == "alltime" else expires_at_ms)
        return ("ZADD", zset, scores), ("HSET", members, slots), ("HSET", keys.names(self.board), names)

    async def _write(self, commands: Iterable[Command]) -> None:
        """Sends commands on the built keys of these live ones, and puts off the expiry of everything built."""
        sent: list[tuple[Any, ...]] = [("GETEX", keys.lease(self.board), "PX", LEASE_MS)]
        for name, live, arguments in commands:
            if arguments:
                self._expiries.setdefault(live, None)
                sent.append((name, self._key(live), *arguments))
        sent += [("PEXPIRE", self._key(live), KEPT_MS) for live in self._expiries]
        with answering():
            [holder, *_] = await self._transact(sent)
        if holder != self._name:
            raise RebuildLost

    async def _transact(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The replies of a transaction. hiredis packs it: redis-py's asyncio packs in Python, for half the time of a rebuild."""
        packed = b"".join(pack_command(each) for each in (("MULTI",), *commands, ("EXEC",)))
        pool = self._client.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.send_packed_command(packed)
            for _ in range(len(commands) + 1):
                await connection.read_response()
            replies: list[Any] = await connection.read_response()
        except BaseException:
            await connection.disconnect(nowait=True)  # replies that nobody read would be the next caller's
            raise
        finally:
            await pool.release(connection)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _key(self, live: str) -> str:
        return keys.built(self.board, self._name, live)


def _keys_of(board: str, window: str) -> tuple[str, str]:
    return keys.window(board, window), keys.members(board, window)
