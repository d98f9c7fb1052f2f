"""Kept pages: the same bytes while nothing changed, never older than the request, and not sent to who has them."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.edge.context import EDGE
from gateway.edge.reads import page_cache
from gateway.edge.reads.board_reader import BoardReader
from gateway.edge.reads.page_cache import PageCache, RenderedPage
from gateway.edge.routes import ROUTES
from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.shared_records import Change
from policies.loader import Board, load_policies
from policies.opened_board import OpenedBoard
from policies.vocabulary import State
from tests.gateway.edge.conftest import KINDS
from tests.gateway.edge.test_cursors import change, whole  # noqa: F401 - a fixture
from tests.gateway.edge.test_readers import VAULT, filled
from tests.support.harness import Answer, Harness, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.standings import a_standing

PAGES = ["/entries", "/entries?window=daily&limit=2", "/entries/p2", "/entries/p2/around?radius=1"]


async def asked(harness: Harness, path: str, tag: str | None = None, method: str = "GET") -> Answer:
    headers = {"If-None-Match": tag} if tag else {}
    async with harness.session.request(method, harness.url + path, headers=headers) as response:
        return Answer(response.status, response.headers, await response.read())


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_not_sent_to_who_has_it(harness: Harness, path: str):
    """The same validator while nothing changed, a 304 for it without a body, and another one after a change."""
    private = await filled(harness, 3)
    first, second = await asked(harness, VAULT + path), await asked(harness, VAULT + path)
    tag = first.headers["ETag"]
    assert (200, first.raw, tag) == (second.status, second.raw, second.headers["ETag"])
    assert "public, max-age=0, must-revalidate" == first.headers["Cache-Control"]
    for given in (tag, f"W/{tag}", f'"other", {tag}'):
        answer = await asked(harness, VAULT + path, given)
        assert (304, b"", tag) == (answer.status, answer.raw, answer.headers["ETag"])
        assert "public, max-age=0, must-revalidate" == answer.headers["Cache-Control"]
    await change(harness, private, ("p2", 5000))
    changed = await asked(harness, VAULT + path, tag)
    assert 200 == changed.status
    assert b"5000" in changed.raw
    assert tag != changed.headers["ETag"]


async def test_pages_of_one_window_do_not_share_validators(harness: Harness):
    """A validator is of its own target, and of the window that it meant."""
    await filled(harness, 3)
    tags = {(await asked(harness, VAULT + path)).headers["ETag"] for path in (*PAGES, "/entries?limit=1")}
    assert len(PAGES) + 1 == len(tags)
    yesterday = (await asked(harness, f"{VAULT}/entries?window=daily")).headers["ETag"]
    harness.clock.shift(86_400)
    today = await asked(harness, f"{VAULT}/entries?window=daily", yesterday)
    assert (200, 0) == (today.status, today.body["total"])


async def test_processes_agree_on_validators(harness: Harness):
    """Behind a load balancer, what one edge sent is known to the other, and what one wrote is seen by the other."""
    private = await filled(harness, 3)
    async with running_harness(harness.edge.settings.model_copy(update={"bind": "127.0.0.1:0"})) as other:
        first = await asked(harness, f"{VAULT}/entries")
        async with harness.session.get(
            f"{other.url}{VAULT}/entries",
            headers={"Host": harness.authority, "If-None-Match": first.headers["ETag"]},
        ) as answer:
            assert 304 == answer.status
        await asked(harness, f"{VAULT}/entries")
        await change(harness, private, ("p9", 9000))
        async with harness.session.get(
            f"{other.url}{VAULT}/entries", headers={"Host": harness.authority}
        ) as answer:
            assert "p9" == (await answer.json())["entries"][0]["player"]


@pytest.mark.parametrize("what", ["policy", "software"])
async def test_a_page_that_something_else_draws_has_another_validator(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
):
    """Over the same index, after a restart: who has the page of before is sent the one of now, which may look otherwise."""
    await filled(harness, 3)
    first = await asked(harness, f"{VAULT}/entries")
    moved: dict[str, Any] = {"bind": "127.0.0.1:0"}
    if what == "policy":
        changed = a_policy("vault", writes="trusted", windows=KINDS, title="Another")
        moved["policies_dir"] = write_policies(tmp_path / "other", changed)
    else:
        monkeypatch.setattr(page_cache, "_SOFTWARE", "the next version")
    async with running_harness(harness.edge.settings.model_copy(update=moved)) as other:
        headers = {"Host": harness.authority, "If-None-Match": first.headers["ETag"]}
        async with harness.session.get(f"{other.url}{VAULT}/entries", headers=headers) as answer:
            assert (200, False) == (answer.status, first.headers["ETag"] == answer.headers["ETag"])


@pytest.mark.parametrize(
    "path", [*PAGES, "", "/entries?players=p1", "/statistics", "/trending?kind=played&span=day"]
)
async def test_head_is_get_without_the_body(harness: Harness, path: str):
    """The same status and fields, and no bytes."""
    await filled(harness, 3)
    get, head = await asked(harness, VAULT + path), await asked(harness, VAULT + path, method="HEAD")
    assert (get.status, b"") == (head.status, head.raw)
    for name in ("ETag", "Content-Length", "Content-Type", "Cache-Control"):
        assert get.headers.get(name) == head.headers.get(name), name


async def test_what_is_not_public_is_not_kept_by_anybody(harness: Harness):
    """Answers to a token, refusals and health may be stored nowhere."""
    token = await harness.new_player()
    answers = [
        await harness.get(f"{VAULT}/entries?friends=true", token),
        await harness.get("/v1/friends", token),
        await harness.get("/v1/moderation/queue", harness.moderator()),
        await harness.get(f"{VAULT}/entries?as_of=2026-01-01T00:00:00Z", harness.moderator()),
        await harness.get("/livez"),
        await harness.get(f"{VAULT}/entries/nobody"),
    ]
    assert [200] * 5 + [404] == [each.status for each in answers]
    assert all("no-store" in each.headers["Cache-Control"] for each in answers)


async def test_an_unknown_player_is_told_how_many_there_are(harness: Harness):
    """404 says that the player is not ranked, among how many."""
    await filled(harness, 3)
    for path in ("/entries/nobody", "/entries/nobody/around"):
        answer = await harness.get(VAULT + path)
        assert (404, False, 3) == (answer.status, answer.body["ranked"], answer.body["total"])


async def test_parameters_that_no_route_has_are_refused(harness: Harness):
    """Every route that reads names the parameter it does not know, and the one that comes twice."""
    for route in ROUTES:
        if route.method != "GET":
            continue
        names = {
            "family": "track",
            "board": "vault",
            "player": "p1",
            "submission": "s",
            "digest": "d",
            "batch": "b",
            "view": "v",
        }
        path = route.path.format_map(names | {"segment": "country", "moderator": "mara", "invitation": "i"})
        for given in ("nonsense=1", "nonsense=", "nonsense"):
            unknown = await harness.get(f"{path}?{given}")
            assert (422, "schema-violation") == (unknown.status, unknown.problem), (path, given)
            assert "nonsense" in unknown.body["detail"]
        for name in route.query:
            for again in (f"{name}=2", f"{name}=", name):
                twice = await harness.get(f"{path}?{name}=1&{again}")
                told = (twice.status, twice.body["detail"])
                assert (422, f"{name}: is given more than once") == told, (path, again)


async def test_no_reader_sees_a_board_older_than_the_request(harness: Harness):
    """While a score grows, what is read after a write was answered has it, by every kept target."""
    await filled(harness, 2)
    index = harness.edge.index.of(harness.edge.catalogue.of_files["vault"])
    written = 0

    async def write() -> None:
        nonlocal written
        for score in range(2000, 2060):
            standing = a_standing("p1", score, 1, score, index.ranking)
            await index.project(Change(score, f"s{score}", "vault", "p1", State.PROMOTED, (standing,)))
            written = score

    async def read(path: str) -> None:
        seen = 0
        while not writer.done():
            before = max(written, seen)
            body = (await harness.get(VAULT + path)).body
            seen = (body["entries"][0] if "entries" in body else body)["score"]
            assert seen >= before

    writer = asyncio.create_task(write())
    await asyncio.gather(
        writer, *(read(path) for path in ("/entries", "/entries/p1", "/entries/p1/around") * 3)
    )


async def test_a_reader_after_a_change_does_not_wait_for_the_page_before_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A page that is being rendered when a score changes goes to those who asked before, and to nobody else."""
    await filled(harness, 2)
    index, read = harness.edge.index.of(harness.edge.catalogue.of_files["vault"]), BoardReader.page
    has_read, may_go_on = asyncio.Event(), asyncio.Event()

    async def page(reader: BoardReader, *given: Any) -> Any:
        result = await read(reader, *given)
        if not has_read.is_set():
            has_read.set()
            await may_go_on.wait()
        return result

    monkeypatch.setattr(BoardReader, "page", page)
    before = asyncio.create_task(harness.get(f"{VAULT}/entries"))
    async with asyncio.timeout(20):
        await has_read.wait()
        standing = a_standing("p1", 2000, 1, 2000, index.ranking)
        await index.project(Change(2000, "s2000", "vault", "p1", State.PROMOTED, (standing,)))
        after = await harness.get(f"{VAULT}/entries")
    may_go_on.set()
    scores = [answer.body["entries"][0]["score"] for answer in (after, await before)]
    assert 2000 == scores[0] > scores[1]


@pytest.fixture
async def private(harness: Harness) -> Any:
    return await filled(harness, 3)


@pytest.fixture
def index(harness: Harness, private: Any) -> BoardIndex:
    return harness.edge.index.of(harness.edge.catalogue.of_files["vault"])


REPAIRS = {
    "prune": lambda board, seen: board.prune("alltime", keys.window("vault", "alltime"), [seen]),
    "drop": lambda board, seen: board.drop(keys.members("vault", "alltime"), {seen[1]: seen[2]}),
    "put": lambda board, seen: board.put(keys.names("vault"), {"p1": "Mallory"}),
    "delete": lambda board, seen: board.delete([keys.members("vault", "alltime")]),
}


@pytest.mark.parametrize("repair", REPAIRS)
async def test_a_repair_of_the_index_is_seen(harness: Harness, index: BoardIndex, repair: str):
    """What the reconciler mends is not hidden by a kept page."""
    first = await asked(harness, f"{VAULT}/entries")
    board = Inspection(index.client, "vault")
    member = (await index.page("alltime", 0, 1)).entries[0].place.member.encode()
    [slot] = await board.values(keys.members("vault", "alltime"), ["p1"])
    await REPAIRS[repair](board, (member, b"p1", slot))
    second = await asked(harness, f"{VAULT}/entries", first.headers["ETag"])
    assert 200 == second.status
    assert first.raw != second.raw


async def test_an_emptied_index_is_seen(harness: Harness, index: BoardIndex):
    """A wiped Redis has other versions than before, and an expired window another number of entries."""
    before = await index.versions.of("alltime")
    await index.client.unlink(keys.window("vault", "alltime"))
    assert (before.name, 0) == await index.versions.of("alltime")
    await index.client.flushall()
    assert before.name != (await index.versions.of("alltime")).name


def a_request(harness: Harness, target: str, app: Any) -> Any:
    return make_mocked_request("GET", target, app=app)


async def test_who_asks_at_once_has_it_drawn_once(harness: Harness, private: Any):
    """A page that many wait for is read and written once; after a change once more."""
    drawn = 0

    async def render() -> RenderedPage:
        nonlocal drawn
        drawn += 1
        await asyncio.sleep(0)
        return RenderedPage(b"%d" % drawn)

    cache, request = PageCache(), a_request(harness, "/top", {EDGE: harness.edge})
    page = cache.remember(request, harness.edge.catalogue.of_files["vault"], "alltime", render)
    answers = await asyncio.gather(*(cache.answer(request, page) for _ in range(20)))
    assert {b"1"} == {each.body for each in answers}
    await change(harness, private, ("p9", 1))
    answers = await asyncio.gather(*(cache.answer(request, page) for _ in range(20)))
    assert {b"2"} == {each.body for each in answers}


async def test_a_page_that_was_read_during_a_change_is_not_kept(harness: Harness, index: BoardIndex):
    """Nobody knows which version it shows, so it has no validator of the index and is read again."""
    scores = iter(range(100, 110))

    async def render() -> RenderedPage:
        score = next(scores)
        standing = a_standing("p1", score, 1, score, index.ranking)
        await index.project(Change(score, f"s{score}", "vault", "p1", State.PROMOTED, (standing,)))
        return RenderedPage(b"%d" % score)

    cache, request = PageCache(), a_request(harness, "/top", {EDGE: harness.edge})
    page = cache.remember(request, harness.edge.catalogue.of_files["vault"], "alltime", render)
    answers = [await cache.answer(request, page) for _ in range(3)]
    assert [b"100", b"101", b"102"] == [each.body for each in answers]
    assert page.latest is None


async def test_what_is_not_of_the_index_is_not_kept(harness: Harness, index: BoardIndex):
    """A page from elsewhere changes without the version: it is drawn for each reader."""
    numbers = iter(range(9))

    async def render() -> RenderedPage:
        return RenderedPage(b"%d" % next(numbers), is_from_index=False)

    cache, request = PageCache(), a_request(harness, "/top", {EDGE: harness.edge})
    page = cache.remember(request, harness.edge.catalogue.of_files["vault"], "alltime", render)
    assert [b"0", b"1"] == [(await cache.answer(request, page)).body for _ in range(2)]


async def test_readers_who_looked_at_an_old_page_find_the_new_one(harness: Harness):
    """However many waited to hear that a family's board has changed, its page is drawn once, for all of them."""
    old, new = (replace(harness.edge.catalogue.of_files["vault"], family="track") for _ in range(2))
    is_told = asyncio.Event()

    async def told(_name: str) -> Board:
        await is_told.wait()
        return new

    edge: Any = SimpleNamespace(clock=lambda: 1_000, catalogue=SimpleNamespace(board=told))
    cache, request = PageCache(), a_request(harness, "/top", {EDGE: edge})

    async def render() -> RenderedPage:
        return RenderedPage(b"x")

    cache.remember(request, old, "alltime", render)
    readers = [asyncio.create_task(cache.page_of(request)) for _ in range(5)]
    await asyncio.sleep(0)
    fresh = cache.remember(request, new, "alltime", render, until_ms=2_000)
    is_told.set()
    assert [fresh] * 5 == await asyncio.gather(*readers)
    assert fresh is cache.remember(request, new, "alltime", render), "another reader was as fast"
    others = [
        cache.remember(request, old, "alltime", render),
        cache.remember(request, old, "daily:2026-01-01", render, until_ms=1_000),
        cache.remember(request, old, "daily:2026-01-01", render),
    ]
    assert 4 == len({fresh, *others})
    assert [False, False, False, True] == [page.is_in_cache for page in (fresh, *others)]


async def test_the_least_read_page_is_given_up(harness: Harness, index: BoardIndex):
    """What is kept has a bound in bytes."""

    async def render() -> RenderedPage:
        return RenderedPage(b"x" * 10_000)

    cache, app = PageCache(limit_bytes=30_000), {EDGE: harness.edge}
    requests = [a_request(harness, f"/{number}", app) for number in range(3)]
    for request in requests[:2]:
        page = cache.remember(request, harness.edge.catalogue.of_files["vault"], "alltime", render)
        await cache.answer(request, page)
    assert await cache.page_of(requests[0])
    page = cache.remember(requests[2], harness.edge.catalogue.of_files["vault"], "alltime", render)
    await cache.answer(requests[2], page)
    assert [True, False, True] == [await cache.page_of(each) is not None for each in requests]


@pytest.mark.parametrize("metadata", [{}, {f"field-{number}": "x" * 9 for number in range(150)}])
async def test_what_a_cache_counts_for_pages_of_a_family_s_boards_is_what_they_take(
    harness: Harness, tmp_path: Path, metadata: dict[str, Any]
):
    """Each keeps its board from being let go, however many other boards are read."""
    write_policies(tmp_path / "families", a_family())
    family = load_policies(tmp_path / "families").families["track"]
    cache, app = PageCache(), {EDGE: harness.edge}
    requests = [a_request(harness, f"/v1/boards/track.b{number}/entries", app) for number in range(100)]

    async def render(_board: Board) -> RenderedPage:
        return RenderedPage(b"")

    stored = orjson.dumps(metadata)
    gc.collect()
    tracemalloc.start()
    try:
        before_bytes, _ = tracemalloc.get_traced_memory()
        for number, request in enumerate(requests):
            board = family.board(
                OpenedBoard(f"track.b{number}", "track", f"Track {number}", orjson.loads(stored))
            )
            cache.remember(request, board, "alltime", partial(render, board))
        gc.collect()
        taken_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    finally:
        tracemalloc.stop()
    assert taken_bytes < cache._size_bytes < 3 * taken_bytes


async def test_a_page_that_was_given_up_as_it_was_drawn_takes_no_room(harness: Harness, index: BoardIndex):
    """Nobody can find it any more: the room is that of the pages that are known, whoever came in between."""
    cache, request = PageCache(), a_request(harness, "/top", {EDGE: harness.edge})
    board = harness.edge.catalogue.of_files["vault"]

    async def render() -> RenderedPage:
        cache.remember(request, board, "alltime", render)  # another was as fast
        return RenderedPage(b"x" * 10_000)

    for _ in range(3):
        await cache.answer(request, cache.remember(request, board, "alltime", render))
    assert sum(page.size_bytes for page in cache._pages.values()) == cache._size_bytes
