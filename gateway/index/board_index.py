"""The boards in Redis: a projection of settled changes, which can be lost and rebuilt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from gateway.index import keys
from gateway.index.batcher import Batcher
from gateway.index.lane_stream import CHANGES_KEPT
from gateway.index.limits.open_runs import COUNTS_LIFE_MS, RunCount, count_field
from gateway.index.ranges import window_key
from gateway.index.residency import Residency
from gateway.index.scripts import ReadingScript, Script, index_boundary
from gateway.index.versions import Version, Versions
from gateway.runtime.concurrency import in_turns
from gateway.runtime.lanes import lane_of
from gateway.shared_records import Change, Standing, StoredBaseline
from policies.choices import RankKind
from policies.errors import IndexUnavailable
from policies.ranking import BoardPlace, Ranking
from policies.vocabulary import State

SENT_AT_ONCE: Final = 32
"""Calls that are sent to Redis concurrently."""

SHOWN_TOGETHER: Final = 16
"""Most changes of one call."""

READ_TOGETHER: Final = 32
"""Most players whose neighbours are read in one call: each holds Redis for 20 µs."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A standing as a reader sees it. Rank 1 is first.

    A reader pages on from `place`, which stays valid while ranks move.
    """

    rank: int
    player: str
    name: str
    score: int
    achieved_at_ms: int
    submission_id: str
    place: BoardPlace


@dataclass(frozen=True, slots=True)
class Page:
    """Entries by rank, the number of all entries, and the number ahead of the first one here.

    `version` is the one that the index had when they were read; None for others, and if it had no name.
    """

    total: int
    entries: tuple[Entry, ...]
    ahead: int = 0
    version: Version | None = None


class Cut(NamedTuple):
    """The place after which a page begins or before which it ends, with or without the entry at it."""

    place: BoardPlace
    is_behind: bool = True
    is_included: bool = False


class NeighboursRequest(NamedTuple):
    """A request for a player's entry and `radius` neighbours on each side."""

    window: str
    kind: RankKind
    radius: int
    player: str


class CommittedRun(NamedTuple):
    """A run that ended with a committed submission, which is pending unless it was decided at once."""

    submission_id: str
    player: str
    received_at_ms: int
    is_pending: bool = True


def _closure_arguments(run: CommittedRun) -> tuple[str, int, int, str]:
    submitted = count_field(RunCount.SUBMITTED, run.received_at_ms)
    return run.submission_id, run.received_at_ms, int(run.is_pending), submitted


def _baseline_arguments(stored: StoredBaseline) -> tuple[str, int, str]:
    return keys.baseline_field(stored), stored.seq, keys.baseline_value(stored)


class StandingFollower(Protocol):
    """A projection that follows the windows of a board, such as its segments."""

    async def follow(self, player: str, windows: Iterable[str]) -> None:
        """Show how the player stands in these windows. Raises IndexUnavailable."""
        ...


class BoardIndex:
    """One board in Redis. Every method raises IndexUnavailable if Redis does not answer in time."""

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self.board = ranking.policy.board
        self.ranking = ranking
        self.client = client
        self._project = Script(client, "project_change")
        self._close_runs = Script(client, "close_runs")
        self._page = ReadingScript(client, "read_page")
        self._around = ReadingScript(client, "read_around")
        self._count_ahead = ReadingScript(client, "count_ahead")
        self._seek = ReadingScript(client, "seek_page")
        self.versions = Versions(client, ranking)
        self._reopen = Script(client, "reopen_slot")
        self.residency = Residency(client, ranking.policy)
        self.most_entries = ranking.policy.most_entries
        self.segments: StandingFollower | None = None
        self.sentinel: str | None = None
        self._arounds: Batcher[NeighboursRequest, Page | None] = Batcher(
            self._read_around, limit=READ_TOGETHER
        )

    @property
    def shards(self) -> Sequence[BoardIndex]:
        """The indexes that hold the windows: this one, unless the board is in shards."""
        return (self,)

    def window_key(self, window: str) -> str:
        """Return the key of a window, as scripts take it."""
        return window_key(self.ranking, window)

    def holds(self, _player: str) -> bool:
        """Return whether the player's standings belong in this index."""
        return True

    async def positions(self, window: str, places: Sequence[BoardPlace]) -> list[int]:
        """Return how many entries are ahead of each place."""
        if not places:
            return []
        counts: list[int] = await self._count_ahead(
            self.sentinel, [self.window_key(window)], list(chain(*places))
        )
        return counts

    async def relay(self) -> None:
        """Copy changes of the shards to the board's stream, on boards that have shards."""

    async def close_runs(self, runs: Sequence[CommittedRun]) -> int:
        """Close runs, and return how many submissions became pending, which are new and not settled."""
        return int(
            await self._close_runs(
                [
                    keys.pending(self.board),
                    keys.settled(self.board),
                    *chain(*(self._keys_of_runs(run.player) for run in runs)),
                ],
                [COUNTS_LIFE_MS, *chain(*map(_closure_arguments, runs))],
            )
        )

    def _keys_of_runs(self, player: str) -> tuple[str, str]:
        return keys.open_runs(self.board, player), keys.run_counts(self.board, player)

    async def project(self, change: Change) -> None:
        """Show a change in every window it touches. Idempotent."""
        await self.project_all([change])

    async def project_all(self, changes: Sequence[Change]) -> None:
        """Show changes, `SHOWN_TOGETHER` of them in a call. Idempotent.

        A change that cannot be shown keeps no other from it.
        """
        await self.residency.note_use()  # before the projection: a board in use is not evicted
        slices = range(0, len(changes), SHOWN_TOGETHER)
        showing = [self._show_slice(changes[at : at + SHOWN_TOGETHER]) for at in slices]
        await in_turns(showing, at_once=SENT_AT_ONCE)
        if self.segments:
            for change in changes:
                await self.segments.follow(change.player, [standing.window for standing in change.standings])

    async def _show_slice(self, changes: Sequence[Change]) -> None:
        """Show changes in one call, or each alone if Redis answered that it cannot carry that out."""
        try:
            await self._show(changes)
        except IndexUnavailable as error:
            if len(changes) == 1 or not isinstance(error.__cause__, ResponseError):
                raise
            await in_turns([self._show([change]) for change in changes], at_once=SENT_AT_ONCE)

    async def _show(self, changes: Sequence[Change]) -> None:
        submissions = [change.submission_id for change in changes if change.submission_id]
        baselines = [stored for change in changes for stored in change.baselines]
        standings = [standing for change in changes for standing in change.standings]
        windows = dict.fromkeys(standing.window for standing in standings)
        numbers = {window: number for number, window in enumerate(windows, start=1)}
        arguments: list[Any] = [
            self.ranking.tie_digits,
            int(self.ranking.keeps_groups),
            int(self.sentinel is not None),
            self.board,
            int(not keys.is_shard(self.board)),
            CHANGES_KEPT,
            self.most_entries or "",
            len(submissions),
            len(baselines),
            *submissions,
            *chain.from_iterable(map(_baseline_arguments, baselines)),
        ]
        for standing in standings:
            arguments += (numbers[standing.window], *self._standing_arguments(standing))
        await self._project(self._keys_to_project(windows), arguments)

    def _keys_to_project(self, windows: Iterable[str]) -> list[str]:
        board = self.board
        return [
            keys.pending(board),
            keys.settled(board),
            keys.names(board),
            keys.baselines(board),
            keys.changes(board),
            keys.version(board),
            keys.cold(board),
            keys.sentinel(board),
            *self._lane_keys,
            keys.moves(board),
            *chain.from_iterable(map(self._keys_of, windows)),
        ]

    async def restore(
        self, player: str, standings: Sequence[Standing], baselines: Sequence[StoredBaseline]
    ) -> None:
        """Show standings and baselines of a player from the ledger, without settling any submission."""
        await self.project(
            Change(0, "", self.board, player, State.PROMOTED, tuple(standings), tuple(baselines))
        )

    async def show_again(self, player: str, standings: Sequence[Standing]) -> bool:
        """Show standings that no event caused. Return False if another change came first."""
        slot_keys = [keys.members(self.board, standing.window) for standing in standings]
        for key, standing in zip(slot_keys, standings, strict=True):
            await self._reopen([key], [player, standing.seq, keys.slot_value(standing)])
        await self.restore(player, standings, [])
        with index_boundary():
            async with self.client.pipeline(transaction=False) as pipe:
                for key in slot_keys:
                    pipe.hget(key, player)
                slots = await pipe.execute()
        return all(
            slot in (keys.slot_value(standing), keys.slot_below(standing))
            for slot, standing in zip(slots, standings, strict=True)
        )

    async def page(self, window: str, first: int, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """Return `count` entries of a window from 0-based position `first`, with ranks of this kind."""
        arguments = [*self._rank_arguments(window, kind), first, first + count - 1]
        return self.page_of(window, kind, await self.read(self._page, window, arguments))

    async def around(
        self, window: str, player: str, radius: int, kind: RankKind = RankKind.UNIQUE
    ) -> Page | None:
        """Return a player's entry and `radius` neighbours on each side, None without a standing."""
        self._rank_arguments(window, kind)  # raises here, before the request joins a batch of others
        return await self._arounds.ask(NeighboursRequest(window, kind, radius, player))

    async def seek(self, window: str, cut: Cut, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """Return the entries nearest to a place on one side, `count` at most, with their current ranks."""
        order, member = cut.place
        seek = [order, member, count, int(cut.is_behind), int(cut.is_included)]
        answer = await self.read(self._seek, window, [*self._rank_arguments(window, kind), *seek])
        return self.page_of(window, kind, answer)

    def page_of(self, window: str, kind: RankKind, answer: Any) -> Page:
        """Return the page of a script's answer: total, first position, rank of its group, rows, and version.

        That of the ledger has none. Raises IndexUnavailable for a malformed answer.
        """
        total, first, lead, rows, *version = answer
        under = Version(*version) if version and version[0] else None
        try:
            return Page(total, tuple(self._entries(window, kind, first, lead, rows)), first, under)
        except ValueError as error:
            raise IndexUnavailable("the index holds a member that Scoregate never wrote") from error

    def guard(self) -> None:
        """Make reads raise IndexNotWhole unless the whole board is in the index."""
        self.sentinel = keys.sentinel(self.board)

    async def read(self, script: ReadingScript, window: str, arguments: Sequence[Any]) -> Any:
        """Return what a script reads of a window. Raises IndexNotWhole if a guarded board is not whole."""
        zset, members, groups = self._keys_of(window)
        names, version = keys.names(self.board), keys.version(self.board)
        return await script(self.sentinel, [zset, members, names, groups, version], arguments)

    def _rank_arguments(self, window: str, kind: RankKind) -> list[Any]:
        """Return the first arguments of every reading script. Raises ValueError for missing ranks.

        Unique and sparse ranks are positions, which every board has; shards and distributions use them.
        """
        if kind is RankKind.DENSE and not self.ranking.keeps_groups:
            raise ValueError(f"{self.board} keeps no {kind} ranks")
        return [kind.value, self.ranking.orders_per_score(window), self.ranking.tie_digits]

    def _keys_of(self, window: str) -> tuple[str, str, str]:
        board = self.board
        return self.window_key(window), keys.members(board, window), keys.groups(board, window)

    @property
    def _lane_keys(self) -> tuple[str, str, str]:
        """The sets of the board's lane that a change is noted in. A shard has no lane, and no sets."""
        if keys.is_shard(self.board):
            return (keys.sentinel(self.board),) * 3
        lane = lane_of(self.board)
        return keys.residents(lane), keys.wanted(lane), keys.tails(lane)

    def _standing_arguments(self, standing: Standing) -> tuple[Any, ...]:
        return (
            standing.window,
            standing.player,
            standing.name,
            standing.seq,
            "" if standing.score is None else standing.order,
            standing.member,
            standing.submission_id,
            keys.slot_value(standing),
            "" if standing.window == "alltime" else standing.expires_at_ms,
            self.ranking.orders_per_score(standing.window),
        )

    def _entries(
        self, window: str, kind: RankKind, first: int, lead: int, rows: Sequence[Sequence[str]]
    ) -> Iterator[Entry]:
        """Yield entries from position `first`, whose first group has the rank `lead`."""
        ranking, rank, group_before = self.ranking, lead, None
        for position, (player, order, member, submission_id, name) in enumerate(rows, start=first + 1):
            place = BoardPlace(int(order), member)
            group = ranking.group(window, place)
            if kind is RankKind.UNIQUE:
                rank = position
            elif group_before is not None and group != group_before:
                rank = rank + 1 if kind is RankKind.DENSE else position
            group_before = group
            score, at_ms = ranking.score_at(window, place.order), ranking.achieved_at_ms(window, place)
            yield Entry(rank, player, name, score, at_ms, submission_id, place)

    async def _read_around(self, requests: Sequence[NeighboursRequest]) -> Sequence[Page | None]:
        """Answer simultaneous requests, with one call for all that differ only in the player."""
        pages: dict[tuple[str, RankKind, int], dict[str, Page | None]] = defaultdict(dict)
        for request in requests:
            pages[request[:3]][request.player] = None
        for (window, kind, radius), players in pages.items():
            arguments = [*self._rank_arguments(window, kind), radius, *players]
            answers = await self.read(self._around, window, arguments)
            for player, answer in zip(players, answers, strict=True):
                players[player] = None if answer is None else self.page_of(window, kind, answer)
        return [pages[request[:3]][request.player] for request in requests]
