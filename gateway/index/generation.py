"""A new generation of one board's keys, made beside the live ones and put in their place in one step."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.ranges import renamed, window_key, zset_at, zsets_of
from gateway.index.scripts import Script, index_boundary
from gateway.index.transactions import transact
from gateway.records import Standing, StoredBaseline
from gateway.runtime.concurrency import in_turns
from policies.errors import IndexUnavailable, RebuildLost, RebuildRefused
from policies.ranking import Ranking

LEASE_MS: Final = 30_000
"""How long a builder may be silent before another may build. Each page renews it."""

LEASE_ATTEMPTS: Final = 2

FOR_EVER: Final = -1
"""What PTTL says of a key that never expires."""

KEPT_MS: Final = 10 * LEASE_MS
"""How long built keys outlive a builder that died. Longer than the lease: while that holds, none of them has expired."""

CUT: Final = 1_000
"""Entries taken out of a window at once: a few milliseconds of Redis' one thread."""

WRITTEN_AT_ONCE: Final = 8
"""Shards written to at once; each takes a connection."""

Command = tuple[str, str, Sequence[Any]]


class Generation:
    """One rebuild of one board. Every method raises IndexUnavailable; RebuildLost says that it has to begin again.

    Writes go in transactions, so that a builder that dies leaves no key without an expiry. Nobody else writes to these
    keys, so what is put later replaces what was put before.
    """

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self.board = ranking.policy.board
        self._ranking = ranking
        self._client = client
        self._name = secrets.token_hex(8)
        self._expiries: dict[str, int | None] = {}
        self._most_entries = ranking.policy.most_entries
        self._trim = Script(client, "trim_head")
        self._replace = Script(client, "remove_standings")
        self._swap = Script(client, "swap_generation")
        self._end = Script(client, "end_build")

    async def begin(self) -> None:
        """Takes the lease. Raises RebuildRefused while another builder has it."""
        lease = keys.lease(self.board)
        with index_boundary():
            for _ in range(LEASE_ATTEMPTS):
                if await self._client.set(lease, self._name, nx=True, px=LEASE_MS):
                    return
                left_ms = await self._client.pttl(lease)
                if left_ms != FOR_EVER:
                    break
                await self._client.unlink(lease)  # every lease expires: this was never one
        raise RebuildRefused(
            f"{self.board} is being rebuilt already; a builder that died blocks it for {max(0, left_ms) // 1000} s more"
        )

    async def renew(self) -> None:
        """Keeps the lease. Raises RebuildLost if it is gone, as it is when Redis was emptied."""
        await self._write([])

    async def put_standings(self, standings: Sequence[Standing]) -> None:
        """Adds standings of any windows that have none there yet."""
        by_window = _by_window(standings)
        await self._write([each for some in by_window.values() for each in self._commands(some)])

    async def replace_standings(self, standings: Sequence[Standing]) -> None:
        """Puts standings in the place of what those players have there."""
        for window, some in _by_window(standings).items():
            asked = [
                self._ranking.orders_per_score(window),
                self._ranking.tie_digits,
                *(each.player for each in some),
            ]
            await self._replace(self._built_keys(window), asked)
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

    async def trim(self, windows: Iterable[str]) -> None:
        """Takes out of these windows what a board with `exact_ranks` does not keep."""
        ranking = self._ranking
        for window in windows if self._most_entries else ():
            held = [*self._built_keys(window), self._key(keys.version(self.board))]
            facts = [ranking.tie_digits, ranking.orders_per_score(window), int(ranking.keeps_groups)]
            while await self._trim(held, [self._most_entries, CUT, *facts]):
                await self.renew()

    async def swap(self, windows: Iterable[str]) -> None:
        """Puts what was built in the place of the live keys; those of these windows that were not built go too."""
        board = self.board
        fixed = (
            keys.names(board),
            keys.baselines(board),
            keys.pending(board),
            keys.settled(board),
            keys.version(board),
        )
        live = {*fixed, *(part for each in windows for part in self._live_keys(each)), *self._expiries}
        pairs = [part for each in live for part in (self._key(each), each)]
        expiries = [self._expiries.get(each) or "" for each in live]
        marks = [keys.lease(board), keys.sentinel(board), keys.cold(board)]
        placed = await self._swap([*marks, *pairs], [self._name, *expiries])
        if placed < 0:
            raise RebuildLost

    async def finish(self) -> None:
        """Says that the index is whole, and gives the lease back. Raises RebuildLost if Redis was emptied since."""
        if not await self._end([keys.lease(self.board), keys.sentinel(self.board)], [self._name, 1]):
            raise RebuildLost

    async def give_up(self) -> None:
        """Takes away what was built, and gives the lease back, if Redis answers; if not, both expire."""
        with suppress(IndexUnavailable):
            with index_boundary():
                await self._client.unlink(*map(self._key, [*self._expiries, keys.pending(self.board)]))
            await self._end([keys.lease(self.board), keys.sentinel(self.board)], [self._name, 0])

    def _commands(self, standings: Sequence[Standing]) -> Iterable[Command]:
        """What puts standings of one window. This is the inner loop of a rebuild."""
        window, expires_at_ms = standings[0].window, standings[0].expires_at_ms
        zset, members, groups = self._keys_of(window)
        scores: dict[str, list[Any]] = defaultdict(list)
        slots: list[str] = []
        names: list[str] = []
        for each in standings:
            if each.score is not None:
                scores[zset_at(zset, each.order)] += (each.order, each.member)
            slots += (each.player, keys.slot_value(each))
            if each.name:
                names += (each.player, each.name)
        self._expiries |= dict.fromkeys(
            self._live_keys(window), None if window == "alltime" else expires_at_ms
        )
        return (
            *(("ZADD", key, some) for key, some in scores.items()),
            ("HSET", members, slots),
            ("ZADD", groups, self._groups(standings)),
            ("HSET", keys.names(self.board), names),
        )

    def _keys_of(self, window: str) -> tuple[str, str, str]:
        board = self.board
        return window_key(self._ranking, window), keys.members(board, window), keys.groups(board, window)

    def _live_keys(self, window: str) -> list[str]:
        return [key for each in self._keys_of(window) for key in zsets_of(each)]

    def _built_keys(self, window: str) -> list[str]:
        return [renamed(each, self._key) for each in self._keys_of(window)]

    def _groups(self, standings: Sequence[Standing]) -> list[Any]:
        if not self._ranking.keeps_groups:
            return []
        found = {keys.group_of(self._ranking, each) for each in standings if each.score is not None}
        return [part for each in found for part in each]

    async def _write(self, commands: Iterable[Command]) -> None:
        """Sends commands on the built keys of these live ones, and puts off the expiry of everything built."""
        sent: list[tuple[Any, ...]] = [("GETEX", keys.lease(self.board), "PX", LEASE_MS)]
        for name, live, arguments in commands:
            if arguments:
                self._expiries.setdefault(live, None)
                sent.append((name, self._key(live), *arguments))
        sent += [("PEXPIRE", self._key(live), KEPT_MS) for live in self._expiries]
        with index_boundary():
            [holder, *_] = await transact(self._client, keys.lease(self.board), sent)
        if holder != self._name:
            raise RebuildLost

    def _key(self, live: str) -> str:
        return keys.built(self.board, self._name, live)


class ShardedGeneration:
    """One rebuild of one board in shards: a generation for each, and one for what is under the board's own tag.

    The shards are put in place one after the other: in between, some are of the new generation and others of the old
    one, each as the ledger had it at some moment.
    """

    def __init__(self, client: Redis, index: BoardIndex) -> None:
        self._whole = Generation(client, index.ranking)
        self._parts = [(shard, Generation(client, shard.ranking)) for shard in index.shards]

    @property
    def _all(self) -> list[Generation]:
        return [self._whole, *(built for _, built in self._parts)]

    async def begin(self) -> None:
        """Takes the leases. Raises RebuildRefused while another builder has one."""
        begun: list[Generation] = []
        try:
            for each in self._all:
                await each.begin()
                begun.append(each)
        except BaseException:
            for each in begun:
                await each.give_up()
            raise

    async def renew(self) -> None:
        """Keeps the leases. Raises RebuildLost if one is gone."""
        await self._with_all(Generation.renew)

    async def put_standings(self, standings: Sequence[Standing]) -> None:
        """Adds standings of any windows that have none there yet."""
        parts = (built.put_standings(some) for built, some in self._spread(standings))
        await self._together([self._whole.renew(), *parts])

    async def replace_standings(self, standings: Sequence[Standing]) -> None:
        """Puts standings in the place of what those players have there."""
        parts = (built.replace_standings(some) for built, some in self._spread(standings))
        await self._together([self._whole.renew(), *parts])

    async def put_baselines(self, baselines: Sequence[StoredBaseline]) -> None:
        """Puts baselines."""
        await self._together([self._whole.put_baselines(baselines), *self._renewals()])

    async def put_pending(self, received: Iterable[tuple[str, int]]) -> None:
        """Puts submissions, with when they were received (ms), on the pending set."""
        await self._together([self._whole.put_pending(received), *self._renewals()])

    async def put_settled(self, decided: Iterable[tuple[str, int]]) -> None:
        """Puts submissions, with when they were decided (ms), on the settled set and takes them off the pending one."""
        await self._together([self._whole.put_settled(decided), *self._renewals()])

    async def trim(self, windows: Iterable[str]) -> None:
        """Takes out of these windows what is not kept."""
        names = list(windows)
        await self._with_all(lambda each: each.trim(names))

    async def swap(self, windows: Iterable[str]) -> None:
        """Puts what was built in the place of the live keys; those of these windows that were not built go too."""
        names = list(windows)
        for each in self._all:
            await each.swap(names)

    async def finish(self) -> None:
        """Says that the index is whole, and gives the leases back. Raises RebuildLost if Redis was emptied since."""
        await self._with_all(Generation.finish)

    async def give_up(self) -> None:
        """Takes away what was built, and gives the leases back, if Redis answers; if not, all of it expires."""
        await self._with_all(Generation.give_up)

    async def _with_all(self, work: Callable[[Generation], Awaitable[None]]) -> None:
        await self._together([work(each) for each in self._all])

    async def _together(self, works: Iterable[Awaitable[None]]) -> None:
        await in_turns(works, at_once=WRITTEN_AT_ONCE)

    def _renewals(self) -> list[Awaitable[None]]:
        """Nothing is written to the shards meanwhile, and their leases must not end."""
        return [built.renew() for _, built in self._parts]

    def _spread(self, standings: Sequence[Standing]) -> list[tuple[Generation, list[Standing]]]:
        """What goes to each shard; one that gets nothing keeps its lease by writing nothing."""
        return [
            (built, [each for each in standings if shard.holds(each.player)]) for shard, built in self._parts
        ]


def generation_of(index: BoardIndex) -> Generation | ShardedGeneration:
    """A rebuild of this board."""
    if index.shards == (index,):
        return Generation(index.client, index.ranking)
    return ShardedGeneration(index.client, index)


def _by_window(standings: Sequence[Standing]) -> dict[str, list[Standing]]:
    found: dict[str, list[Standing]] = defaultdict(list)
    for standing in standings:
        found[standing.window].append(standing)
    return found
