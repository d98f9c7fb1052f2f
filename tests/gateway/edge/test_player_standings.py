"""A player's standings over HTTP: pages and their cursors, windows, caches, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.edge.reads import board_reader, player_standings
from gateway.index import keys
from gateway.index.shards import ShardedIndex
from gateway.ledger.reads import ReadKind
from gateway.ledger.sqlite.transaction import SqliteTransaction
from gateway.ledger.standings import across_boards
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import LEDGER_PAGES
from policies.errors import IndexUnavailable, LedgerUnavailable
from tests.gateway.edge.test_families import Studio
from tests.support.attack import registered
from tests.support.clock import ShiftedClock
from tests.support.harness import free_port, running_harness
from tests.support.logs import lines_of, logged
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.valkey import ValkeyServer

SCORE = {"minimum": 0, "maximum": 1000, "step": 1}
STANDINGS = "/v1/families/track/players/ada/standings"
NAMES = [f"track.t{number}" for number in range(7)]
DAY_S = 86_400


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    policies = (
        a_policy("solo", writes="trusted", windows=["alltime", "weekly"]),
        a_family(writes="trusted", score=SCORE, windows=["alltime", "daily"], ranks=["sparse", "unique"]),
        a_family("level", writes="trusted", score=SCORE),
        a_family("sum", writes="trusted", score=SCORE, operator="sum"),
        a_family("parted", writes="trusted", score=SCORE, shards=2),
        a_family("top", writes="trusted", score=SCORE, exact_ranks=10, ranks=["unique"]),
    )
    folder = write_policies(tmp_path / "policies", *policies)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


@pytest.fixture
async def studio(settings: Settings) -> AsyncIterator[Studio]:
    clock = ShiftedClock()
    clock.stop()
    async with running_harness(settings, clock) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.done(*(turning("open", name, title=f"T {name}") for name in NAMES))
        yield studio


def turning(action: str, board: str, **facts: Any) -> dict[str, Any]:
    return {"action": action, "board": board} | facts


def deleting(board: str) -> dict[str, Any]:
    return turning("delete", board, reason="over")


async def page(studio: Studio, query: str = "") -> tuple[list[str], str | None]:
    """The boards of a page, and where to go on."""
    answer = await studio.harness.get(f"{STANDINGS}?{query}")
    assert answer.status == 200, answer.raw
    return [standing["board"] for standing in answer.body["standings"]], answer.body["next"]


async def test_pages_are_by_name_whatever_happens_in_between(studio: Studio):
    """A page goes on behind its last board, also if that is deleted since; a full last page has no next."""
    for name in NAMES[:6]:
        await studio.write(name, "ada", 5)
    assert (NAMES[:6], None) == await page(studio, "limit=6")
    first, cursor = await page(studio, "limit=2")
    assert NAMES[:2] == first
    await studio.done(deleting(NAMES[1]), turning("close", NAMES[2]), deleting(NAMES[3]))
    await studio.write(NAMES[6], "ada", 5)
    second, cursor = await page(studio, f"limit=2&cursor={cursor}")
    assert [NAMES[2], NAMES[4]] == second
    assert ([NAMES[5], NAMES[6]], None) == await page(studio, f"limit=2&cursor={cursor}")
    other = await studio.harness.get("/v1/families/track/players/nobody/standings")
    assert (200, []) == (other.status, other.body["standings"])
    assert [] == (await studio.harness.get("/v1/families/level/players/ada/standings")).body["standings"]


async def test_a_page_walks_past_a_bounded_number_of_deleted_boards(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    """It is short then, even empty, and says where to go on; every board that is left comes."""
    monkeypatch.setattr(across_boards, "SPAN", 2)
    monkeypatch.setattr(across_boards, "SPANS", 2)
    for name in NAMES:
        await studio.write(name, "ada", 5)
    await studio.done(*map(deleting, NAMES[:5]))
    empty, cursor = await page(studio)
    assert [] == empty
    assert (NAMES[5:], None) == await page(studio, f"cursor={cursor}")


async def test_pages_over_midnight_are_of_one_day(studio: Studio):
    """A cursor keeps its window; the day before can be read by name until it is over for a day."""
    for name in NAMES[:4]:
        await studio.write(name, "ada", 5)
    answer = (await studio.harness.get(f"{STANDINGS}?window=daily&limit=3")).body
    today, cursor = answer["window"], answer["next"]
    studio.harness.clock.shift(DAY_S)
    await studio.write(NAMES[5], "ada", 6)
    assert ([NAMES[3]], None) == await page(studio, f"window=daily&cursor={cursor}")
    assert ([NAMES[5]], None) == await page(studio, "window=daily")
    assert (NAMES[:4], None) == await page(studio, f"window={today}")
    assert ([*NAMES[:4], NAMES[5]], None) == await page(studio)
    listed = await studio.harness.get(f"/v1/players/ada/entries?window={today}&boards={NAMES[0]},{NAMES[5]}")
    assert ["ranked", "unranked"] == [entry["status"] for entry in listed.body["entries"]]
    studio.harness.clock.shift(DAY_S)
    assert 404 == (await studio.harness.get(f"{STANDINGS}?window={today}")).status
    late = await studio.harness.get(f"{STANDINGS}?cursor={cursor}")
    assert (422, "schema-violation") == (late.status, late.problem)
    listed = await studio.harness.get(f"/v1/players/ada/entries?window={today}&boards={NAMES[0]}")
    assert "no-window" == listed.body["entries"][0]["status"]


async def test_a_cursor_is_of_one_player_and_family(studio: Studio):
    """Another player, family or window refuses it."""
    for name in NAMES[:2]:
        await studio.write(name, "ada", 5)
    _, cursor = await page(studio, "limit=1")
    for path in (
        "/v1/families/track/players/bob/standings?",
        "/v1/families/level/players/ada/standings?",
        f"{STANDINGS}?window=daily&",
    ):
        answer = await studio.harness.get(f"{path}cursor={cursor}")
        assert (422, "schema-violation") == (answer.status, answer.problem), path
    assert ([NAMES[1]], None) == await page(studio, f"cursor={cursor}")


async def test_what_is_no_question_is_refused(studio: Studio):
    """With the field that is wrong; a family, window or player that cannot be is not found."""
    for query in (
        "limit=0",
        "limit=101",
        "cursor=",
        "cursor=x",
        "cursor=alltime~track.a",
        "ranks=dense",
        "boards=track.a",
        "window=daily&window=alltime",
    ):
        answer = await studio.harness.get(f"{STANDINGS}?{query}")
        assert (422, "schema-violation") == (answer.status, answer.problem), query
    for path in (
        f"{STANDINGS}?window=weekly",
        f"{STANDINGS}?window=daily:00010101",
        f"{STANDINGS}?window=x",
        "/v1/families/car/players/ada/standings",
        "/v1/families/track/players/a.b/standings",
        "/v1/players/a:b/entries?boards=solo",
        f"/v1/players/{'x' * 65}/entries?boards=solo",
    ):
        answer = await studio.harness.get(path)
        assert (404, "not-found") == (answer.status, answer.problem), path
    listed = "/v1/players/ada/entries?boards="
    for names in ("", "a,,b", "a/b", "x" * 114, ",".join(f"b{number}" for number in range(101))):
        answer = await studio.harness.get(listed + names)
        assert (422, "schema-violation") == (answer.status, answer.problem), names
    hundred = await studio.harness.get(listed + ",".join(f"b{number}" for number in range(100)))
    assert {"no-board"} == {entry["status"] for entry in hundred.body["entries"]}


async def test_each_board_of_a_list_is_answered_in_its_window(studio: Studio):
    """Once, in the order of the list, whatever its family or its windows."""
    await studio.write(NAMES[0], "ada", 5)
    await studio.write("solo", "ada", 7)
    await studio.write("solo", "bob", 9)
    query = f"boards=solo,{NAMES[1]},{NAMES[0]},solo,track.no,none&window="
    answer = (await studio.harness.get(f"/v1/players/ada/entries?{query}alltime")).body
    assert [
        ("solo", "ranked", 2),
        (NAMES[1], "unranked", None),
        (NAMES[0], "ranked", 1),
        ("track.no", "no-board", None),
        ("none", "no-board", None),
    ] == [
        (entry["board"], entry["status"], entry["standing"] and entry["standing"]["rank"])
        for entry in answer["entries"]
    ]
    weekly = (await studio.harness.get(f"/v1/players/ada/entries?{query}weekly")).body["entries"]
    assert ["ranked", "no-window", "no-window"] == [entry["status"] for entry in weekly[:3]]
    assert weekly[0]["window"].startswith("weekly:")


async def test_an_answer_is_revalidated_and_never_behind_a_players_own_run(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    """Its tag changes with the answer; an index that was not told of a run, or is known to be late, is not believed."""
    await studio.write(NAMES[0], "ada", 5)
    await studio.entries(NAMES[0])
    await studio.harness.steward().see_to_cold()
    first = await studio.harness.get(STANDINGS)
    assert "public, max-age=0, must-revalidate" == first.headers["Cache-Control"]
    assert "Scoregate-Source" not in first.headers
    tag = {"If-None-Match": first.headers["ETag"]}
    async with studio.harness.session.get(studio.harness.url + STANDINGS, headers=tag) as again:
        assert 304 == again.status
    index = studio.harness.edge.index
    with monkeypatch.context() as patch:
        patch.setattr(type(index), "project", untold)
        await studio.write(NAMES[0], "ada", 50)
    async with studio.harness.session.get(studio.harness.url + STANDINGS, headers=tag) as again:
        assert (200, "ledger") == (again.status, again.headers["Scoregate-Source"])
        assert [50] == [standing["score"] for standing in (await again.json())["standings"]]
    await index.client.flushall()
    assert 1 == len((await page(studio))[0])

    await studio.entries(NAMES[0])
    await studio.harness.steward().see_to_cold()
    assert "Scoregate-Source" not in (await studio.harness.get(STANDINGS)).headers
    monkeypatch.setattr(type(studio.harness.edge.lag), "behind_s", lambda _, board: float(board == NAMES[0]))
    assert "ledger" == (await studio.harness.get(STANDINGS)).headers["Scoregate-Source"]


async def test_a_removal_that_the_index_was_not_told_of_shows(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    """Also where the player's last submission stays the same, as in a sum."""
    await studio.done(turning("open", "sum.a", title="A"), path="/v1/families/sum/boards")
    first = await studio.write("sum.a", "ada", 5)
    await studio.write("sum.a", "ada", 7)
    await studio.entries("sum.a")
    await studio.harness.steward().see_to_cold()
    path = "/v1/families/sum/players/ada/standings"
    assert [12] == [standing["score"] for standing in (await studio.harness.get(path)).body["standings"]]
    monkeypatch.setattr(type(studio.harness.edge.index), "project", untold)
    removal = {"operation": "r-1", "player": "ada", "submission": first}
    answer = await studio.harness.as_server(studio.private, "eu-1", "/v1/boards/sum.a/removals", removal)
    assert 200 == answer.status, answer.raw
    assert [7] == [standing["score"] for standing in (await studio.harness.get(path)).body["standings"]]


async def untold(*_: Any) -> None:
    """Shows nothing."""


async def test_a_player_below_the_exact_ranks_has_the_ledgers(studio: Studio):
    """The index has the head of such a board alone."""
    top = "/v1/families/top/boards"
    await studio.done(turning("open", "top.a", title="A"), path=top)
    for number in range(14):
        await studio.write("top.a", f"p{number}", 100 - number)
    await studio.entries("top.a")
    await studio.harness.steward().see_to_cold()
    ranks = []
    for player in ("p3", "p13"):
        answer = (await studio.harness.get(f"/v1/families/top/players/{player}/standings")).body
        ranks += [(standing["rank"], standing["total"]) for standing in answer["standings"]]
    assert [(4, 14), (14, 14)] == ranks


async def test_a_page_costs_as_many_statements_and_commands_of_seven_boards_as_of_one(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    """It asks the index once for all of them, and the ledger once for those that the index lacks."""
    for name in NAMES:
        await studio.write(name, "ada", 5)
    statements: list[str] = []

    async def rows(self: Any, query: Any, /, **values: Any) -> Any:
        statements.append(query.sqlite)
        return await original(self, query, **values)

    original = SqliteTransaction.rows
    monkeypatch.setattr(SqliteTransaction, "rows", rows)
    client = studio.harness.edge.index.client

    async def cost(limit: int) -> tuple[int, int]:
        """Statements of a page on standings, and scripts."""
        await page(studio, f"limit={limit}")  # the boards are known then
        statements.clear()
        before = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
        assert limit == len((await page(studio, f"limit={limit}"))[0])
        scripts = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] - before
        return sum("FROM standings" in statement for statement in statements), scripts

    await client.flushall()
    assert {(2, 1)} == {await cost(1), await cost(7)}
    for name in NAMES:
        await studio.entries(name)
    await studio.harness.steward().see_to_cold()
    assert {(1, 1)} == {await cost(1), await cost(7)}


async def test_boards_in_shards_are_read_on_their_own(studio: Studio, monkeypatch: pytest.MonkeyPatch):
    """The index answers for those that it has, and is not asked again once it is away."""
    path = "/v1/families/parted/players/ada/standings"
    names = [f"parted.p{number}" for number in range(3)]
    await studio.done(
        *(turning("open", name, title=name) for name in names), path="/v1/families/parted/boards"
    )
    for name in names:
        await studio.write(name, "bob", 9)
        await studio.write(name, "ada", 5)
        await studio.entries(name)
    await studio.harness.steward().see_to_cold()
    indexed = await studio.harness.get(path)
    assert [(2, 2)] * 3 == [(each["rank"], each["total"]) for each in indexed.body["standings"]]
    assert "Scoregate-Source" not in indexed.headers
    client, counted = studio.harness.edge.index.client, LEDGER_PAGES.labels("parted")
    await client.delete(keys.sentinel(f"{names[0]}/0"), keys.sentinel(f"{names[0]}/1"))
    before = counted._value.get()
    with monkeypatch.context() as patch:
        patch.setattr(player_standings, "INDEXED_AT_ONCE", 1)
        assert indexed.body == (await studio.harness.get(path)).body
    assert 1 == counted._value.get() - before, "the others are whole"
    calls = []

    async def away(*_: Any) -> None:
        calls.append(1)
        raise IndexUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(ShardedIndex, "around", away)
        patch.setattr(player_standings, "INDEXED_AT_ONCE", 1)
        answer = await studio.harness.get(path)
        assert ("ledger", indexed.body) == (answer.headers["Scoregate-Source"], answer.body)
    assert [1] == calls
    await client.flushall()
    answer = await studio.harness.get(path)
    assert ("ledger", indexed.body) == (answer.headers["Scoregate-Source"], answer.body)


async def test_a_board_that_the_index_cannot_read_leaves_the_others_to_it(studio: Studio):
    """The ledger answers for that board alone, in shards or not, and the log has one line for the request."""
    sharded = "parted.p"
    await studio.done(turning("open", sharded, title="P"), path="/v1/families/parted/boards")
    names = [*NAMES[:3], sharded]
    for name in names:
        await studio.write(name, "ada", 5)
        await studio.entries(name)
    await studio.harness.steward().see_to_cold()
    path = f"/v1/players/ada/entries?boards={','.join(names)}"
    indexed = await studio.harness.get(path)
    assert "Scoregate-Source" not in indexed.headers
    window = keys.window(NAMES[1], "alltime")
    client = studio.harness.edge.index.client
    await client.zadd(window, {"junk:ada": 5})
    await client.hset(keys.members(NAMES[1], "alltime"), "ada", "1 junk:ada s")
    counted = [LEDGER_PAGES.labels(family) for family in ("track", "parted")]
    before = [each._value.get() for each in counted]
    with logged(board_reader) as lines:
        answer = await studio.harness.get(path)
    assert ("ledger", indexed.body) == (answer.headers["Scoregate-Source"], answer.body)
    assert [1, 0] == [each._value.get() - past for each, past in zip(counted, before, strict=True)]
    assert ["the index holds a member that Scoregate never wrote"] == [
        each["error"] for each in lines_of(lines, "index_unavailable")
    ]


async def test_without_the_ledger_it_says_so(studio: Studio, monkeypatch: pytest.MonkeyPatch):
    """As every read that needs it; and one page costs the ledger few reads, however many boards are on it."""
    for name in NAMES:
        await studio.write(name, "ada", 5)
    ledger, reads = studio.harness.edge.ledger, []

    async def read(self: Any, operation: Any, kind: ReadKind = ReadKind.DUTIES) -> Any:
        reads.append(kind)
        return await original(self, operation, kind)

    original = type(ledger).read
    monkeypatch.setattr(player_standings, "ENTRIES_LIMIT", 3)
    monkeypatch.setattr(type(ledger), "read", read)
    assert NAMES == (await page(studio))[0]
    assert 2 == reads.count(ReadKind.PAGES)
    reads.clear()
    monkeypatch.setattr(across_boards, "SMALL", 0)
    assert NAMES == (await page(studio))[0]
    assert 5 == reads.count(ReadKind.PAGES), "three windows at once that are not small"

    async def down(*_: Any) -> None:
        raise LedgerUnavailable("down")

    monkeypatch.setattr(type(ledger), "read", down)
    for path in (STANDINGS, f"/v1/players/ada/entries?boards={NAMES[0]}"):
        answer = await studio.harness.get(path)
        assert (503, "temporary-reduced-capacity") == (answer.status, answer.problem)
