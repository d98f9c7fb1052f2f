"""A new generation of one board's keys, built beside the live ones and swapped in with one step."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.built_arguments import interleaved, standing_arguments
from gateway.index.ranges import renamed, window_key, zsets_of
from gateway.index.residency import life_ms
from gateway.index.scripts import Script, index_boundary
from gateway.index.shards import shard_of
from gateway.index.transactions import transact
from gateway.runtime.concurrency import in_turns
from gateway.runtime.lanes import lane_of
from gateway.shared_records import BaselinePage, Standing, StandingPage, StoredBaseline
from policies.errors import IndexUnavailable, RebuildLost, RebuildRefused
from policies.ranking import Ranking

LEASE_MS: Final = 30_000
"""Silence of a builder after which another may build. Each page renews the lease."""

LEASE_ATTEMPTS: Final = 2

FOR_EVER: Final = -1
"""What PTTL returns for a key that never expires."""

KEPT_MS: Final = 10 * LEASE_MS
"""Life of built keys after the last page. It exceeds the lease, so none expires while the lease holds."""

TRIMMED_AT_ONCE: Final = 1_000
"""Entries removed from a window at once: a few milliseconds of Redis' one thread."""

WRITTEN_AT_ONCE: Final = 8
"""Shards written concurrently; each takes a connection."""

Command = tuple[str, str, Sequence[Any]]

Moment = tuple[str, int]
"""A submission, and when it was received or decided (Unix ms)."""


class BuiltBoard(NamedTuple):
    """All of a small board."""

    standings: Sequence[Standing]
    baselines: Sequence[StoredBaseline]
    pending: Sequence[Moment]
    settled: Sequence[Moment]


class Generation:
    """A rebuild of one board. Every method raises IndexUnavailable; after RebuildLost it must start again.

    Writes are transactions, so that a builder that dies leaves no key without an expiry. Nobody else writes
    these keys, so later values replace earlier ones.
    """

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self.board = ranking.policy.board
        self._ranking = ranking
        self._client = client
        self._name = secrets.token_hex(8)
        self._expiries: dict[str, int | None] = {}
        self._most_entries = ranking.policy.most_entries
        self._trim = Script(client, "trim_head")
        self._remove = Script(client, "remove_standings")
        self._swap = Script(client, "swap_generation")
        self._end = Script(client, "end_build")

    async def begin(self) -> None:
        """Take the lease. Raises RebuildRefused while another builder has it."""
        lease = keys.lease(self.board)
        with index_boundary():
            for _ in range(LEASE_ATTEMPTS):
                if await self._client.set(lease, self._name, nx=True, px=LEASE_MS):
                    return
                left_ms = await self._client.pttl(lease)
                if left_ms != FOR_EVER:
                    break
                await self._client.unlink(lease)  # a lease always expires, so this is forged
        left_s = max(0, left_ms) // 1000
        raise RebuildRefused(
            f"{self.board} is already being rebuilt; if its process died, try again in {left_s} s"
        )

    async def renew(self) -> None:
        """Renew the lease. Raises RebuildLost if it is gone, for example because Redis was emptied."""
        await self._write([])

    async def put_board(self, content: BuiltBoard) -> None:
        """Put all of a small board in one step."""
        await self._write(
            [
                *self._of_standings(content.standings),
                self._of_baselines(content.baselines),
                self._of_pending(content.pending),
                *self._of_settled(content.settled),
            ]
        )

    async def put_page(self, window: str, expires_at_ms: int, page: StandingPage) -> None:
        """Add standings of players that have none in this window yet."""
        await self._write(self._of_window(window, expires_at_ms, page) if page.players else [])

    async def put_standings(self, standings: Sequence[Standing]) -> None:
        """Add standings of players that have none in these windows yet."""
        await self._write(self._of_standings(standings))

    async def replace_standings(self, standings: Sequence[Standing]) -> None:
        """Replace those players' standings in these windows."""
        for window, rows in _by_window(standings).items():
            layout = [self._ranking.orders_per_score(window), self._ranking.tie_digits]
            await self._remove(self._built_keys(window), [*layout, *(row.player for row in rows)])
        await self.put_standings(standings)

    async def put_baselines(self, baselines: Sequence[StoredBaseline]) -> None:
        """Write baselines."""
        await self._write([self._of_baselines(baselines)])

    async def put_baseline_page(self, page: BaselinePage) -> None:
        """Write baselines."""
        subjects = [subject or keys.POPULATION_FIELD for subject in page.subjects]
        values = list(map(keys.baseline_text, page.facts))
        await self._write([("HSET", keys.baselines(self.board), interleaved(subjects, values))])

    async def put_pending(self, received: Iterable[Moment]) -> None:
        """Add submissions to the pending set, each with the time it was received (ms)."""
        await self._write([self._of_pending(received)])

    async def put_settled(self, decided: Iterable[Moment]) -> None:
        """Move submissions from the pending to the settled set, each with the time it was decided (ms)."""
        await self._write(self._of_settled(decided))

    async def trim(self, windows: Iterable[str]) -> None:
        """Remove from these windows what this board with `exact_ranks` does not keep."""
        ranking = self._ranking
        for window in windows:
            built_keys = [*self._built_keys(window), self._key(keys.version(self.board))]
            layout = [ranking.tie_digits, ranking.orders_per_score(window), int(ranking.keeps_groups)]
            while await self._trim(built_keys, [self._most_entries, TRIMMED_AT_ONCE, *layout]):
                await self.renew()

    async def swap(self, windows: Iterable[str]) -> None:
        """Replace the live keys with the built ones, and delete those of windows that were not built."""
        board = self.board
        fixed = (
            keys.names(board),
            keys.baselines(board),
            keys.pending(board),
            keys.settled(board),
            keys.version(board),
        )
        live_keys = {*fixed, *(key for window in windows for key in self._live_keys(window)), *self._expiries}
        pairs = [key for live in live_keys for key in (self._key(live), live)]
        expiries = [self._expiries.get(live) or "" for live in live_keys]
        marks = [keys.lease(board), keys.sentinel(board), keys.cold(board)]
        placed = await self._swap([*marks, *pairs], [self._name, *expiries])
        if placed < 0:
            raise RebuildLost

    async def finish(self) -> None:
        """Mark the index as whole, and release the lease. Raises RebuildLost if Redis was emptied."""
        if not await self._close(is_whole=True):
            raise RebuildLost

    async def give_up(self) -> None:
        """Delete what was built, and release the lease, if Redis answers; otherwise both expire."""
        with suppress(IndexUnavailable):
            with index_boundary():
                await self._client.unlink(*map(self._key, [*self._expiries, keys.pending(self.board)]))
            await self._close(is_whole=False)

    async def _close(self, *, is_whole: bool) -> bool:
        board, policy = self.board, self._ranking.policy
        marks = [keys.lease(board), keys.sentinel(board), keys.used(board)]
        facts = [board, life_ms(policy) or "", int(bool(policy.exact_ranks))]
        lane = lane_of(board)
        sets = [keys.residents(lane), keys.idle(lane), keys.wanted(lane), keys.tails(lane)]
        if keys.is_shard(board):  # it is under a tag of its own, and no resident of a lane
            facts, sets = ["", "", 0], [keys.lease(board)] * len(sets)
        return bool(await self._end([*marks, *sets], [self._name, int(is_whole), *facts]))

    def _of_standings(self, standings: Sequence[Standing]) -> list[Command]:
        return [
            command
            for window, of_window in _by_window(standings).items()
            for command in self._of_window(window, of_window[0].expires_at_ms, StandingPage.of(of_window))
        ]

    def _of_baselines(self, baselines: Sequence[StoredBaseline]) -> Command:
        fields = [
            part
            for stored in baselines
            for part in (keys.baseline_field(stored), keys.baseline_value(stored))
        ]
        return "HSET", keys.baselines(self.board), fields

    def _of_pending(self, received: Iterable[Moment]) -> Command:
        scores = [part for submission_id, at_ms in received for part in (at_ms, submission_id)]
        return "ZADD", keys.pending(self.board), scores

    def _of_settled(self, decided: Iterable[Moment]) -> list[Command]:
        settled = list(decided)
        scores = [part for submission_id, at_ms in settled for part in (at_ms, submission_id)]
        ids = [submission_id for submission_id, _ in settled]
        return [("ZADD", keys.settled(self.board), scores), ("ZREM", keys.pending(self.board), ids)]

    def _of_window(self, window: str, expires_at_ms: int, page: StandingPage) -> Iterable[Command]:
        """Return the commands that write standings of one window."""
        zset, members, groups = self._keys_of(window)
        arguments = standing_arguments(self._ranking, window, zset, page)
        self._expiries |= dict.fromkeys(
            self._live_keys(window), None if window == "alltime" else expires_at_ms
        )
        return (
            *(("ZADD", key, pairs) for key, pairs in arguments.zsets.items()),
            ("HSET", members, arguments.slots),
            ("ZADD", groups, arguments.groups),
            ("HSET", keys.names(self.board), arguments.names),
        )

    def _keys_of(self, window: str) -> tuple[str, str, str]:
        board = self.board
        return window_key(self._ranking, window), keys.members(board, window), keys.groups(board, window)

    def _live_keys(self, window: str) -> list[str]:
        return [zset for key in self._keys_of(window) for zset in zsets_of(key)]

    def _built_keys(self, window: str) -> list[str]:
        return [renamed(key, self._key) for key in self._keys_of(window)]

    async def _write(self, commands: Iterable[Command]) -> None:
        """Run commands on the built keys of these live ones, and postpone the expiry of everything built."""
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
    """A rebuild of a board in shards: one generation per shard, and one for the board's own keys.

    Shards are swapped one after the other. In between, some are of the new generation and others of the old,
    each as the ledger had it at some moment.
    """

    def __init__(self, client: Redis, index: BoardIndex) -> None:
        self._whole = Generation(client, index.ranking)
        self._parts = [(shard, Generation(client, shard.ranking)) for shard in index.shards]

    @property
    def _all(self) -> list[Generation]:
        return [self._whole, *(built for _, built in self._parts)]

    async def begin(self) -> None:
        """Take the leases. Raises RebuildRefused while another builder has one."""
        begun: list[Generation] = []
        try:
            for generation in self._all:
                await generation.begin()
                begun.append(generation)
        except BaseException:
            for generation in begun:
                await generation.give_up()
            raise

    async def renew(self) -> None:
        """Renew the leases. Raises RebuildLost if one is gone."""
        await self._with_all(Generation.renew)

    async def put_board(self, content: BuiltBoard) -> None:
        """Put all of a small board."""
        await self.put_standings(content.standings)
        await self.put_baselines(content.baselines)
        await self.put_pending(content.pending)
        await self.put_settled(content.settled)

    async def put_page(self, window: str, expires_at_ms: int, page: StandingPage) -> None:
        """Add standings of players that have none in this window yet."""
        shards = [shard_of(player, len(self._parts)) for player in page.players]
        parts = (
            built.put_page(window, expires_at_ms, _chosen(page, [shard == number for shard in shards]))
            for number, (_, built) in enumerate(self._parts)
        )
        await self._together([self._whole.renew(), *parts])

    async def put_standings(self, standings: Sequence[Standing]) -> None:
        """Add standings of players that have none in these windows yet."""
        parts = (built.put_standings(rows) for built, rows in self._by_shard(standings))
        await self._together([self._whole.renew(), *parts])

    async def replace_standings(self, standings: Sequence[Standing]) -> None:
        """Replace those players' standings in these windows."""
        parts = (built.replace_standings(rows) for built, rows in self._by_shard(standings))
        await self._together([self._whole.renew(), *parts])

    async def put_baselines(self, baselines: Sequence[StoredBaseline]) -> None:
        """Write baselines."""
        await self._together([self._whole.put_baselines(baselines), *self._renewals()])

    async def put_baseline_page(self, page: BaselinePage) -> None:
        """Write baselines."""
        await self._together([self._whole.put_baseline_page(page), *self._renewals()])

    async def put_pending(self, received: Iterable[Moment]) -> None:
        """Add submissions to the pending set, each with the time it was received (ms)."""
        await self._together([self._whole.put_pending(received), *self._renewals()])

    async def put_settled(self, decided: Iterable[Moment]) -> None:
        """Move submissions from the pending to the settled set, each with the time it was decided (ms)."""
        await self._together([self._whole.put_settled(decided), *self._renewals()])

    async def trim(self, windows: Iterable[str]) -> None:
        """Remove from these windows what this board with `exact_ranks` does not keep."""
        names = list(windows)
        await self._with_all(lambda generation: generation.trim(names))

    async def swap(self, windows: Iterable[str]) -> None:
        """Replace the live keys with the built ones, and delete those of windows that were not built."""
        names = list(windows)
        for generation in self._all:
            await generation.swap(names)

    async def finish(self) -> None:
        """Mark the index as whole, and release the leases. Raises RebuildLost if Redis was emptied."""
        await self._with_all(Generation.finish)

    async def give_up(self) -> None:
        """Delete what was built, and release the leases, if Redis answers; otherwise all of it expires."""
        await self._with_all(Generation.give_up)

    async def _with_all(self, work: Callable[[Generation], Awaitable[None]]) -> None:
        await self._together([work(generation) for generation in self._all])

    async def _together(self, writes: Iterable[Awaitable[None]]) -> None:
        await in_turns(writes, at_once=WRITTEN_AT_ONCE)

    def _renewals(self) -> list[Awaitable[None]]:
        """Renew the shards' leases, which must not end while only the board's own keys are written."""
        return [built.renew() for _, built in self._parts]

    def _by_shard(self, standings: Sequence[Standing]) -> list[tuple[Generation, list[Standing]]]:
        """Return each shard's standings. A shard without any writes nothing, which renews its lease."""
        return [
            (built, [row for row in standings if shard.holds(row.player)]) for shard, built in self._parts
        ]


def generation_of(index: BoardIndex) -> Generation | ShardedGeneration:
    """Return a rebuild of this board."""
    if index.shards == (index,):
        return Generation(index.client, index.ranking)
    return ShardedGeneration(index.client, index)


def _chosen(page: StandingPage, chosen: Sequence[bool]) -> StandingPage:
    """Return the standings of a page that are chosen."""
    columns: Iterable[list[Any]] = (list(compress(column, chosen)) for column in page)
    return StandingPage(*columns)


def _by_window(standings: Sequence[Standing]) -> dict[str, list[Standing]]:
    by_window: dict[str, list[Standing]] = defaultdict(list)
    for standing in standings:
        by_window[standing.window].append(standing)
    return by_window
