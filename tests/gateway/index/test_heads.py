"""Boards with `exact_ranks`: what the index keeps is always a beginning of the true order, whatever comes when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.connection import connect
from gateway.index.windows.heads import Heads
from gateway.ledger.sqlite.transaction import SqliteTransaction, drive
from gateway.ledger.standings.beyond_head import standings_behind
from gateway.ledger.standings.ranks import FIRST
from gateway.ledger.standings.slots import put_standing, read_slot
from gateway.shared_records import Standing
from gateway.steward.index.exact_ranks import HeadKeeper
from policies import model
from policies.choices import RankKind
from policies.ranking import BoardPlace, Ranking
from tests.gateway.index.test_order_and_projection import a_change
from tests.support.ledger import ledger_in_memory
from tests.support.policies import a_ranking
from tests.support.standings import a_standing
from tests.support.valkey import ValkeyServer

REAL = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
EXACT, MOST = 3, 5
PLAYERS = [f"p{number}" for number in range(12)]
RANKINGS = {
    "first": {},
    "fields": {"tie_break": "fields", "tie_fields": [{"stat": "kills"}], "order": "ascending"},
    "composite": {
        "tie_break": "composite",
        "tie_resolution_ms": 60_000,
        "score": {"minimum": -1_000, "maximum": 1_000},
    },
}
steps = st.lists(
    st.one_of(
        st.tuples(st.just("settle"), st.sampled_from(PLAYERS), st.one_of(st.none(), st.integers(0, 9))),
        st.tuples(st.just("settle"), st.sampled_from(PLAYERS), st.integers(0, 9)),
        st.tuples(st.just("show"), st.integers(0, 3)),
        st.tuples(st.just("show again"), st.integers(0, 50)),
        st.tuples(st.just("look")),
        st.tuples(st.just("fill")),
        st.tuples(st.just("keep")),
    ),
    min_size=10,
    max_size=40,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "RANKS_TO_LOSE", MOST - EXACT)


@contextmanager
def in_memory() -> Iterator[SqliteTransaction]:
    with closing(ledger_in_memory()) as connection:
        yield SqliteTransaction(connection)


class OneMoment:
    """A ledger as far as the keeper of heads needs one."""

    def __init__(self, tx: SqliteTransaction) -> None:
        self.tx = tx

    async def read(self, work: Any, _: Any = None) -> Any:
        return drive(work(self.tx))


class World:
    """A ledger that is told of standings at once, and an index that is shown them when a step says so."""

    def __init__(self, tx: SqliteTransaction, index: BoardIndex, ranking: Ranking) -> None:
        self.tx = tx
        self.index = index
        self.ranking = ranking
        self.heads = Heads(index)
        self.keeper = HeadKeeper(OneMoment(tx), index, ranking.policy, clock=lambda: 1)  # type: ignore[arg-type]
        self.settled: list[Standing] = []
        self.waiting: list[Standing] = []
        self.looked: tuple[str, Sequence[Standing]] | None = None

    async def do(self, what: str, *how: Any) -> None:
        await getattr(self, f"_{what.replace(' ', '_')}")(*how)

    async def _settle(self, player: str, score: int | None) -> None:
        seq = len(self.settled) + 1
        standing = a_standing(
            player, score, at_ms=seq % 3, seq=seq, ranking=self.ranking, stats={"kills": seq % 2}
        )
        held = drive(read_slot(self.tx, self.ranking, "alltime", player))
        drive(put_standing(self.tx, self.ranking, standing, held))
        self.settled.append(standing)
        self.waiting.append(standing)

    async def _show(self, at: int) -> None:
        if self.waiting:
            await self._project(self.waiting.pop(at % len(self.waiting)))

    async def _show_again(self, at: int) -> None:
        if self.settled:
            await self._project(self.settled[at % len(self.settled)])

    async def _project(self, standing: Standing) -> None:
        await self.index.project(a_change(standing.seq, standing))

    async def _look(self) -> None:
        head = await self.heads.of("alltime")
        behind = standings_behind("b", "alltime", head.last or FIRST, count=MOST - head.entries)
        self.looked = head.version, drive(behind(self.tx))

    async def _fill(self) -> None:
        if self.looked:
            await self.heads.refill("alltime", *self.looked)

    async def _keep(self) -> None:
        await self.keeper.keep("alltime")

    def due(self) -> list[Standing]:
        last = {each.player: each for each in self.settled}
        standing = [each for each in last.values() if each.score is not None]
        return sorted(standing, key=lambda each: (each.order, each.member))

    async def assert_is_a_beginning(self) -> None:
        """What is kept are the first entries, in all kinds of ranks; the total is that of all; nobody is lost."""
        due = self.due()
        groups = [self.ranking.group("alltime", BoardPlace(each.order, each.member)) for each in due]
        distinct = list(dict.fromkeys(groups))
        for kind in RankKind:
            page = await self.index.page("alltime", 0, 100, kind)
            ranks = {
                RankKind.UNIQUE: range(1, len(due) + 1),
                RankKind.SPARSE: [groups.index(group) + 1 for group in groups],
                RankKind.DENSE: [distinct.index(group) + 1 for group in groups],
            }[kind]
            shown = [(entry.player, entry.score, entry.rank) for entry in page.entries]
            assert len(due) == page.total
            expected = [(each.player, each.score, rank) for each, rank in zip(due, ranks, strict=True)]
            assert expected[: len(shown)] == shown
        slots = await self.index.client.hgetall(keys.members("b", "alltime"))
        below = {player for player, slot in slots.items() if slot.endswith(" -")}
        assert {each.player for each in due[len(shown) :]} == below
        assert len(shown) <= MOST
        dense = await self.index.client.zcard(keys.groups("b", "alltime"))
        assert len(set(groups[: len(shown)])) == dense


def filled(scores: Sequence[int]) -> list[Any]:
    """The steps after which players have these scores."""
    settled = [("settle", player, score) for player, score in zip(PLAYERS, scores, strict=False)]
    return [*settled, *[("show", 0)] * len(settled)]


async def play(valkey: ValkeyServer, tie_break: str, history: Sequence[Any]) -> None:
    ranking = a_ranking(ranks=[kind.value for kind in RankKind], **RANKINGS[tie_break])
    ranking = Ranking(ranking.policy.model_copy(update={"exact_ranks": EXACT}))
    client = connect(valkey.url, timeout_ms=5_000)
    await client.flushall()
    try:
        with in_memory() as tx:
            world = World(tx, BoardIndex(client, ranking), ranking)
            for step in history:
                await world.do(*step)
                if not world.waiting:
                    await world.assert_is_a_beginning()
            while world.waiting:
                await world.do("show", 0)
            await world.assert_is_a_beginning()
            while await world.keeper.keep("alltime"):
                pass
            await world.assert_is_a_beginning()
            kept = (await world.heads.of("alltime")).entries
            assert kept >= min(EXACT, len(world.due()))
    finally:
        await client.aclose()


@REAL
@example(
    begin=[0] * 6,
    history=[("settle", "p0", None), ("show", 0), ("settle", "p0", 0), ("look",), ("show", 0), ("fill",)],
    tie_break="composite",
)
@given(
    begin=st.lists(st.integers(0, 9), min_size=6, max_size=12),
    history=steps,
    tie_break=st.sampled_from(sorted(RANKINGS)),
)
def test_a_head_is_a_beginning_of_the_true_order(
    valkey: ValkeyServer, begin: list[int], history: Any, tie_break: str
):
    """Changes in any order and twice, heads filled from looks that are old: never a wrong rank, and nobody is lost."""
    asyncio.run(play(valkey, tie_break, [*filled(begin), *history]))


SHORT = [("settle", player, None) for player in ("p8", "p7", "p6")] + [("show", 0)] * 3
"""Steps after which only two are left of the head of `filled(range(9))`."""


async def test_a_look_from_before_a_change_below_fills_nothing(valkey: ValkeyServer):
    """Who came below after the ledger was read may be ahead of all that was read: the look is of another version."""
    late = [("settle", "p11", 3), ("show", 0)]
    await play(valkey, "first", [*filled(range(9)), *SHORT, ("look",), *late, ("fill",)])


async def test_filling_stops_at_a_change_that_is_on_its_way(valkey: ValkeyServer):
    """The ledger has an entry of the head further down already: it is not put there a second time."""
    falls = ("settle", "p5", 3)
    await play(valkey, "first", [*filled(range(9)), *SHORT, falls, ("look",), ("fill",)])


def test_what_cannot_go_together_is_refused():
    """A head is of one window in one place: what needs all entries in Redis is not for such a board."""
    for other in ({"shards": 2}, {"segments": ["country"]}, {"ranges": [10]}):
        with pytest.raises(ValueError, match="exact_ranks"):
            a_ranking(exact_ranks=100, score={"minimum": 0, "maximum": 100}, **other)


@pytest.mark.parametrize(("exact", "most"), [(10, 110), (1_000, 1_100), (1_000_000, 1_100_000)])
def test_a_head_has_some_entries_to_lose(monkeypatch: pytest.MonkeyPatch, exact: int, most: int):
    """A tenth, and at least a hundred."""
    monkeypatch.setattr(model, "RANKS_TO_LOSE", 100)
    assert most == a_ranking(exact_ranks=exact).policy.most_entries
