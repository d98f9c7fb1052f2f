"""The boards in Redis: projecting what the ledger settled, and reading ranks. Everything here may be lost and rebuilt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.batcher import Batcher
from gateway.index.limits.open_runs import COUNTS_LIFE_MS, RunCount, count_field
from gateway.index.ranges import window_key
from gateway.index.residency import Residency
from gateway.index.scripts import ReadingScript, Script, index_boundary
from gateway.index.versions import Versions
from gateway.records import Change, Standing, StoredBaseline
from gateway.runtime.concurrency import in_turns
from policies.errors import IndexUnavailable
from policies.model import RankKind
from policies.ranking import BoardPlace, Ranking
from policies.vocabulary import State

CLOSE_LINGER_S: Final = 0.005
"""How long notes of committed submissions gather before they are sent; nobody waits for them."""


SHOWN_AT_ONCE: Final = 32
"""Changes that are on their way to Redis at once; the others wait for their turn."""

READ_TOGETHER: Final = 32
"""Most players whose neighbours are read in one call: more would keep others waiting for Redis (20 µs each)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A standing as a reader sees it. Rank 1 is first; `achieved_at_ms` is when the score was reached.

    `place` is where the board has it, by which a reader goes on from here though ranks move.
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
    """Entries by rank, how many there are in all, and how many are ahead of the first of these."""

    total: int
    entries: tuple[Entry, ...]
    ahead: int = 0


class Cut(NamedTuple):
    """Where a page ends or begins: behind a place or ahead of it, with the entry that may stand there or without."""

    place: BoardPlace
    is_behind: bool = True
    is_included: bool = False


class NeighboursRequest(NamedTuple):
    """Whose neighbours are asked for: `radius` of them on each side."""

    window: str
    kind: RankKind
    radius: int
    player: str


class CommittedRun(NamedTuple):
    """A committed submission whose run is over: to be seen as pending, or as decided already where it was so at once."""

    submission_id: str
    player: str
    received_at_ms: int
    is_pending: bool = True


def _closure_arguments(run: CommittedRun) -> tuple[str, int, int, str]:
    submitted = count_field(RunCount.SUBMITTED, run.received_at_ms)
    return run.submission_id, run.received_at_ms, int(run.is_pending), submitted


class StandingFollower(Protocol):
    """What shows how a player stands elsewhere as well, after it was shown on the board."""

    async def follow(self, player: str, windows: Iterable[str]) -> None:
        """Shows how the player stands in these windows. Raises IndexUnavailable."""
        ...


class BoardIndex:
    """One board in Redis. Every method raises IndexUnavailable when Redis does not answer in time."""

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self.board = ranking.policy.board
        self.ranking = ranking
        self.client = client
        self._project = Script(client, "project_change")
        self._close_runs = Script(client, "close_runs")
        self._page = ReadingScript(client, "read_page")
        self._around = ReadingScript(client, "read_around")
        self._before = ReadingScript(client, "count_ahead")
        self._seek = ReadingScript(client, "seek_page")
        self.versions = Versions(client, ranking)
        self._reopen = Script(client, "reopen_slot")
        self.residency = Residency(client, ranking.policy)
        self.most_entries = ranking.policy.most_entries
        self.segments: StandingFollower | None = None
        self.sentinel: str | None = None
        self._closures: Batcher[CommittedRun, bool] = Batcher(self._send_closures, linger_s=CLOSE_LINGER_S)
        self._arounds: Batcher[NeighboursRequest, Page | None] = Batcher(
            self._read_around, limit=READ_TOGETHER
        )

    @property
    def shards(self) -> Sequence[BoardIndex]:
        """The indexes that the windows are in: this one, unless the board is in shards."""
        return (self,)

    def window_key(self, window: str) -> str:
        """The key of a window, as scripts are given it."""
        return window_key(self.ranking, window)

    def holds(self, _player: str) -> bool:
        """True for the players whose standings belong here."""
        return True

    async def positions(self, window: str, places: Sequence[BoardPlace]) -> list[int]:
        """How many entries are ahead of each place."""
        asked = [part for place in places for part in place]
        held = [self.window_key(window)]
        counts: list[int] = await self._before(self.sentinel, held, asked) if asked else []
        return counts

    async def relay(self) -> None:
        """Tells on the board's stream what only a shard's has yet."""

    def close_run(self, run: CommittedRun) -> None:
        """Has the submission noted with the next batch; the reconciler notes what is pending if that fails."""
        self._closures.tell(run)

    async def drained(self) -> None:
        """Returns once every batch is sent."""
        await self._closures.drained()

    async def close_runs(self, runs: Sequence[CommittedRun]) -> int:
        """How many submissions were put on the pending set: those that were not there and are not settled. Closes their runs."""
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
        """Shows a change in every window it touches. Does nothing more the second time."""
        await self.residency.note_use()  # before it is shown: what is in use cannot be taken away
        windows = [self._window_arguments(standing) for standing in change.standings]
        window_keys = [self._keys_of(each.window) for each in change.standings]
        learnt = [
            (keys.baseline_field(each), each.seq, keys.baseline_value(each)) for each in change.baselines
        ]
        name = change.standings[0].name if change.standings else ""
        await self._project(
            [
                keys.pending(self.board),
                keys.settled(self.board),
                keys.names(self.board),
                keys.baselines(self.board),
                keys.changes(self.board),
                keys.version(self.board),
                keys.cold(self.board),
                keys.sentinel(self.board),
                *chain(*window_keys),
            ],
            [
                change.submission_id,
                change.player,
                name,
                len(learnt),
                self.ranking.tie_digits,
                int(self.ranking.keeps_groups),
                int(self.sentinel is not None),
                *chain(*learnt),
                *chain(*windows),
            ],
        )
        if self.segments:
            await self.segments.follow(change.player, [each.window for each in change.standings])

    async def restore(
        self, player: str, standings: Sequence[Standing], baselines: Sequence[StoredBaseline]
    ) -> None:
        """Shows what the ledger has of a player, without speaking of any submission."""
        await self.project(
            Change(0, "", self.board, player, State.PROMOTED, tuple(standings), tuple(baselines))
        )

    async def show_again(self, player: str, standings: Sequence[Standing]) -> bool:
        """Shows standings that no event caused, and True if they are there; False if another change came in between."""
        held_in = [keys.members(self.board, each.window) for each in standings]
        for key, each in zip(held_in, standings, strict=True):
            await self._reopen([key], [player, each.seq, keys.slot_value(each)])
        await self.restore(player, standings, [])
        with index_boundary():
            async with self.client.pipeline(transaction=False) as pipe:
                for key in held_in:
                    pipe.hget(key, player)
                shown = await pipe.execute()
        return all(
            held in (keys.slot_value(each), keys.slot_below(each))
            for held, each in zip(shown, standings, strict=True)
        )

    async def page(self, window: str, first: int, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """`count` entries of a window from 0-based position `first`, with ranks of this kind."""
        asked = [*self._reading(window, kind), first, first + count - 1]
        return self.page_of(window, kind, await self.read(self._page, window, asked))

    async def around(
        self, window: str, player: str, radius: int, kind: RankKind = RankKind.UNIQUE
    ) -> Page | None:
        """A player's entry with `radius` neighbours on each side, or None for a player without a standing."""
        self._reading(window, kind)
        return await self._arounds.ask(NeighboursRequest(window, kind, radius, player))

    async def seek(self, window: str, cut: Cut, count: int, kind: RankKind = RankKind.UNIQUE) -> Page:
        """At most `count` entries next to a place, nearest to it, with the ranks they have now."""
        order, member = cut.place
        where = [order, member, count, int(cut.is_behind), int(cut.is_included)]
        answer = await self.read(self._seek, window, [*self._reading(window, kind), *where])
        return self.page_of(window, kind, answer)

    def page_of(self, window: str, kind: RankKind, answer: Any) -> Page:
        """The page that an answer is: how many there are in all, the position of the first, its rank, and the rows.

        Raises IndexUnavailable for what is no answer.
        """
        total, first, lead, rows = answer
        try:
            return Page(total, tuple(self._entries(window, kind, first, lead, rows)), first)
        except ValueError as error:
            raise IndexUnavailable("the index holds a member that we never wrote") from error

    def guard(self) -> None:
        """From now on reading raises IndexNotWhole unless all of the board is in the index."""
        self.sentinel = keys.sentinel(self.board)

    async def read(self, script: ReadingScript, window: str, arguments: Sequence[Any]) -> Any:
        """What a script reads of a window's entries. Raises IndexNotWhole on a guarded board that is not all there."""
        zset, members, groups = self._keys_of(window)
        return await script(self.sentinel, [zset, members, keys.names(self.board), groups], arguments)

    def _reading(self, window: str, kind: RankKind) -> list[Any]:
        """What every reading script is told. Raises ValueError for ranks that the board does not keep.

        Unique and sparse ranks are positions, which every board has: parts of boards and distributions are read by them.
        """
        if kind is RankKind.DENSE and not self.ranking.keeps_groups:
            raise ValueError(f"{self.board} keeps no {kind} ranks")
        return [kind.value, self.ranking.orders_per_score(window), self.ranking.tie_digits]

    def _keys_of(self, window: str) -> tuple[str, str, str]:
        board = self.board
        return self.window_key(window), keys.members(board, window), keys.groups(board, window)

    def _window_arguments(self, standing: Standing) -> tuple[Any, ...]:
        return (
            standing.window,
            standing.seq,
            "" if standing.score is None else standing.order,
            standing.member,
            standing.submission_id,
            keys.slot_value(standing),
            "" if standing.window == "alltime" else standing.expires_at_ms,
            self.ranking.orders_per_score(standing.window),
            self.most_entries or "",
        )

    def _entries(
        self, window: str, kind: RankKind, first: int, lead: int, rows: Sequence[Sequence[str]]
    ) -> Iterator[Entry]:
        """Entries from position `first`, whose first group has the rank `lead`."""
        ranking, rank, before = self.ranking, lead, None
        for position, (player, order, member, submission_id, name) in enumerate(rows, start=first + 1):
            place = BoardPlace(int(order), member)
            group = ranking.group(window, place)
            if kind is RankKind.UNIQUE:
                rank = position
            elif before is not None and group != before:
                rank = rank + 1 if kind is RankKind.DENSE else position
            before = group
            score, at_ms = ranking.score_at(window, place.order), ranking.achieved_at_ms(window, place)
            yield Entry(rank, player, name, score, at_ms, submission_id, place)

    async def _read_around(self, asked: Sequence[NeighboursRequest]) -> Sequence[Page | None]:
        """What was asked for at the same moment, in one call for all that differ in the player alone."""
        alike: dict[tuple[str, RankKind, int], dict[str, Page | None]] = defaultdict(dict)
        for each in asked:
            alike[each[:3]][each.player] = None
        for (window, kind, radius), players in alike.items():
            arguments = [*self._reading(window, kind), radius, *players]
            answers = await self.read(self._around, window, arguments)
            for player, answer in zip(players, answers, strict=True):
                players[player] = None if answer is None else self.page_of(window, kind, answer)
        return [alike[each[:3]][each.player] for each in asked]

    async def _send_closures(self, runs: Sequence[CommittedRun]) -> Sequence[bool]:
        await self.close_runs(runs)
        return [True] * len(runs)


class Index:
    """Every board's index on one Redis."""

    def __init__(self, client: Redis, boards: dict[str, BoardIndex]) -> None:
        self.client = client
        self.boards = boards
        self.owe: Callable[[Sequence[Change]], None] | None = None
        for board in boards.values():
            board.guard()

    def add(self, board: BoardIndex) -> None:
        """Serves one more board, which is read only while all of it is there."""
        board.guard()
        self.boards[board.board] = board

    async def project(self, changes: Sequence[Change]) -> None:
        """Shows every change on its board. Raises IndexUnavailable if one fails; the others may be shown.

        `owe`, where there is one, is then told of all of them.
        """
        shown = (self.boards[change.board].project(change) for change in changes)
        try:
            await in_turns(shown, at_once=SHOWN_AT_ONCE)
        except IndexUnavailable:
            if self.owe:
                self.owe(changes)
            raise

    async def drained(self) -> None:
        """Returns once no batch waits."""
        for board in self.boards.values():
            await board.drained()
