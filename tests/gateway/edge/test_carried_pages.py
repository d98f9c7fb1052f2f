"""Pages that are carried on over changes that do not touch them: the same bytes as if each were read anew."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.edge.problems import Problem
from gateway.edge.reads import page_cache
from gateway.edge.reads.page_cache import CachedPage, PageCache
from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.generation import BuiltBoard, generation_of
from gateway.runtime.settings import Settings
from gateway.shared_records import Change, Standing
from policies.vocabulary import State
from tests.support.harness import Harness, free_port
from tests.support.policies import a_policy, write_policies
from tests.support.standings import a_standing
from tests.support.thorough import seeds
from tests.support.valkey import ValkeyServer

KINDS = ["unique", "sparse", "dense"]
BOARDS = {
    "first": {"ranks": KINDS, "windows": ["alltime", "daily"]},
    "composite": {
        "tie_break": "composite",
        "tie_resolution_ms": 60_000,
        "score": {"minimum": 0, "maximum": 1000},
        "ranks": KINDS,
    },
    "fields": {
        "tie_break": "fields",
        "tie_fields": [{"stat": "deaths"}],
        "stats": {"deaths": {"minimum": 0, "maximum": 9}},
        "ranks": KINDS,
        "order": "ascending",
    },
    "ranges": {"ranges": [20, 60], "ranks": ["unique", "sparse"]},
    "head": {"exact_ranks": 10},
    "shards": {"shards": 2},
}
CARRIES = {"first", "composite", "fields", "ranges"}
PLAYERS = [f"p{number}" for number in range(30)]


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    policies = (a_policy(board, writes="trusted", **changes) for board, changes in BOARDS.items())
    folder = write_policies(tmp_path / "policies", *policies)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


class MovingBoard:
    """A board whose players get scores, lose them and change their names, by chance."""

    def __init__(self, harness: Harness, name: str, seed: int) -> None:
        self.harness, self.name = harness, name
        self.index: BoardIndex = harness.edge.index.of(harness.edge.catalogue.of_files[name])
        self.random = random.Random(seed)
        self.seq = 0

    async def begin(self) -> None:
        for shard in self.index.shards:
            await self.index.client.set(keys.sentinel(shard.board), "1")
        for player in PLAYERS[:20]:
            await self.project(player, self.random.randrange(100))

    def standing(self, player: str, score: int | None, name: str = "") -> Standing:
        stats = {"deaths": self.random.randrange(3)}
        standing = a_standing(player, score, self.seq, self.seq, self.index.ranking, stats)
        return replace(standing, name=name or player.title())

    def made(self, player: str, score: int | None, name: str = "", window: str = "alltime") -> Change:
        self.seq += 1
        standing = replace(self.standing(player, score, name), window=window)
        return Change(self.seq, f"s{self.seq}", self.name, player, State.PROMOTED, (standing,))

    async def project(self, player: str, score: int | None, name: str = "", window: str = "alltime") -> None:
        await self.index.project(self.made(player, score, name, window))

    async def change(self, *, at_once: int) -> None:
        await self.index.project_all([self.by_chance() for _ in range(at_once)])

    def by_chance(self) -> Change:
        player, kind = self.random.choice(PLAYERS), self.random.random()
        if kind < 0.75:
            return self.made(player, self.random.randrange(100))
        if kind < 0.9:
            return self.made(player, None)
        name = f'100% {player} "total":{self.seq},{{"rank":7'
        return self.made(player, self.random.randrange(100), name)

    def targets(self) -> list[str]:
        around = [f"/{player}/around?radius=2" for player in PLAYERS[:8]]
        pages = ["?limit=5", "?offset=4&limit=5", "?offset=15&limit=50", "?limit=100"]
        kinds = [kind for kind in BOARDS[self.name].get("ranks", []) if kind != "unique"]
        of_kinds = [f"{each}&ranks={kind}" for kind in kinds for each in (*around[:3], *pages[:2])]
        return [f"/v1/boards/{self.name}/entries{each}" for each in (*around, *pages, *of_kinds)]

    async def compare(self, watch: Watch) -> None:
        """Compare what readers are given with the same pages read anew."""
        for target in self.targets():
            answer = await self.harness.get(target)
            try:
                fresh = (await watch.pages[target].render()).body
            except Problem:  # the player has no entry now
                assert 404 == answer.status, target
                continue
            assert (200, fresh) == (answer.status, answer.raw), target


class Watch:
    """The page of each target, and whether each that was asked for after a change was carried on."""

    def __init__(self) -> None:
        self.pages: dict[str, CachedPage] = {}
        self.carried: list[bool] = []


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    noted = Watch()
    answer, carry = PageCache.answer, PageCache._carried

    async def answering(cache: PageCache, request: Any, page: CachedPage) -> Any:
        noted.pages[request.raw_path] = page
        return await answer(cache, request, page)

    def carrying(cache: PageCache, *given: Any) -> Any:
        page = carry(cache, *given)
        noted.carried.append(page is not None)
        return page

    monkeypatch.setattr(PageCache, "answer", answering)
    monkeypatch.setattr(PageCache, "_carried", carrying)
    return noted


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("name", BOARDS)
async def test_a_page_that_is_carried_on_is_the_page_read_anew(
    harness: Harness, watch: Watch, name: str, seed: int
):
    """After any changes, for each tie-break, kind of rank and layout; most pages are carried where they can be."""
    board = MovingBoard(harness, name, seed)
    await board.begin()
    for _ in range(10):
        for _ in range(board.random.choice([1, 1, 1, 4])):
            await board.change(at_once=board.random.choice([1, 1, 1, 3]))
        await board.compare(watch)
    share = sum(watch.carried) / len(watch.carried)
    assert (name in CARRIES) == (share > 0.2), share


@pytest.fixture
async def board(harness: Harness) -> MovingBoard:
    """Twenty players with the scores 200, 190, and so on, best first from p0."""
    board = MovingBoard(harness, "first", 1)
    await harness.edge.index.client.set(keys.sentinel("first"), "1")
    for number, player in enumerate(PLAYERS[:20]):
        await board.project(player, 200 - 10 * number)
    return board


async def around(board: MovingBoard, player: str = "p5") -> list[tuple[int, str]]:
    answer = await board.harness.get(f"/v1/boards/first/entries/{player}/around?radius=1")
    return [(entry["rank"], entry["name"]) for entry in answer.body["entries"]]


async def test_ranks_follow_who_passes(board: MovingBoard, watch: Watch):
    """Who comes in ahead, who leaves there and who goes behind: without a read, and with another validator each time."""
    first = await around(board)
    assert [(5, "P4"), (6, "P5"), (7, "P6")] == first
    await board.project("p19", 500)
    assert [(6, "P4"), (7, "P5"), (8, "P6")] == await around(board)
    await board.project("p19", None)
    assert first == await around(board)
    await board.project("p1", 1)
    assert [(4, "P4"), (5, "P5"), (6, "P6")] == await around(board)
    assert [True] * 3 == watch.carried


async def test_another_name_is_seen_though_it_came_with_another_window(board: MovingBoard, watch: Watch):
    """A name belongs to all windows: the pages with its player are read anew, and no others."""
    await around(board), await around(board, "p12")
    await board.project("p6", 7, "Zoe", window="daily:20301120")
    assert (7, "Zoe") == (await around(board))[2]
    assert (13, "P12") == (await around(board, "p12"))[1]
    assert [False, True] == watch.carried


async def test_a_page_is_carried_on_for_a_minute(
    board: MovingBoard, watch: Watch, monkeypatch: pytest.MonkeyPatch
):
    """Then it is read anew, whatever is known of the moves."""
    monkeypatch.setattr(page_cache, "CARRIED_S", 0.0)
    await around(board)
    await board.project("p19", 500)
    assert [(6, "P4"), (7, "P5"), (8, "P6")] == await around(board)
    assert [False] == watch.carried


async def test_nothing_is_carried_over_a_rebuilt_board(board: MovingBoard, watch: Watch):
    """What took its place may be another board, though changes come before and after."""
    await around(board)
    await board.project("p19", 500)
    generation = generation_of(board.index)
    await generation.begin()
    rebuilt = [board.standing(player, 50 - number) for number, player in enumerate(PLAYERS[3:9])]
    await generation.put_board(BuiltBoard(rebuilt, [], [], []))
    await generation.swap(["alltime"])
    await generation.finish()
    await board.project("p18", 1)
    assert [(2, "P4"), (3, "P5"), (4, "P6")] == await around(board)
    assert [False] == watch.carried


async def test_pages_that_are_carried_on_count_with_what_they_keep(board: MovingBoard, watch: Watch):
    """The room of a cache is that of its pages, with the form that their numbers are written into."""
    await around(board)
    [page] = watch.pages.values()
    before_bytes = page.size_bytes
    await board.project("p19", 500)
    await around(board)
    assert page.latest
    assert len(page.latest.body) - 10 < page.size_bytes - before_bytes
    assert b"%d" in page.latest.template
