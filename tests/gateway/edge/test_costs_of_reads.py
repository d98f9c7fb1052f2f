"""What reads are taken to cost, and what they do not cost: a page that did not change, or a score that is only submitted."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.edge.reads.page_cache import CachedPage, PageCache
from gateway.edge.reads.read_budget import DECLARED_US, FREE, declared_us
from gateway.edge.routes import ROUTES
from gateway.ledger.reads import ReadKind
from tests.gateway.edge.test_readers import VAULT, filled
from tests.support.attack import accept, honest, issued
from tests.support.harness import Harness

ENTRIES = "/v1/boards/{board}/entries"
LIVE = "/v1/boards/{board}/live"


def cost_us(path: str, query: str = "", **headers: str) -> int:
    """What a read of a route costs with a query and headers."""
    names = {"family": "track", "board": "vault", "player": "ada", "submission": "s", "segment": "country"}
    names |= {"moderator": "mara", "invitation": "i", "digest": "0" * 64, "batch": "b", "view": "v"}
    target = path.format(**names)
    return declared_us(path, make_mocked_request("GET", f"{target}?{query}", headers=headers))


def test_F08_what_makes_a_read_dear_makes_it_cost_more():
    """Friends, listed players and the past by far; what a parameter means on another route is not charged there."""
    plain = cost_us(ENTRIES)
    dear = {
        query: cost_us(ENTRIES, query) - plain
        for query in ("friends=true", "players=a,b", "segment=country:de", "as_of=2026-01-01T00:00:00Z")
    }
    assert all(more >= plain for more in dear.values()), dear
    assert dear["friends=true"] >= 10 * plain
    assert dear["players=a,b"] >= 10 * plain
    assert dear["as_of=2026-01-01T00:00:00Z"] >= 1000 * plain
    both = cost_us(ENTRIES, "friends=true&segment=country:de") - plain
    assert dear["friends=true"] + dear["segment=country:de"] == both
    assert plain == cost_us(ENTRIES, "limit=5&offset=3&window=daily")
    windows = "/v1/boards/{board}/windows"
    assert cost_us(windows) == cost_us(windows, "after=1.daily:20261120")
    for feed in (LIVE, f"{LIVE}/websocket"):
        assert cost_us(feed, "after=1-0") >= 2 * cost_us(feed) >= 20 * plain
        again = {"Last-Event-ID": "1-0"}  # as a browser asks that comes back
        assert cost_us(feed, "after=1-0") == cost_us(feed, **again) == cost_us(feed, "after=1-0", **again)
    assert plain == cost_us(ENTRIES, **again)
    heavy = {
        path: cost_us(path) for path in DECLARED_US if path.endswith(("trending", "details", "distribution"))
    }
    assert 3 == len([path for path, cost in heavy.items() if cost >= 5 * plain])
    assert cost_us("/openapi.json") >= 5 * cost_us("/docs")


def test_a_read_of_many_boards_costs_by_their_number():
    """Boards of a list, and of a page as large as is asked for; a filter that is walked by adds to a list."""
    standings = "/v1/families/{family}/players/{player}/standings"
    one = cost_us(standings, "limit=1")
    assert [25, 100, 100, 1] == [
        round(
            (cost_us(standings, query) - cost_us(standings, "limit=0"))
            / (one - cost_us(standings, "limit=0"))
        )
        for query in ("", "limit=100", "cursor=alltime~track.a&limit=100", "limit=1")
    ]
    for junk in ("limit=", "limit=x", "limit=-5", f"limit={'9' * 400}", "limit=٣"):
        assert 0 < cost_us(standings, junk) < one, junk
    entries = "/v1/players/{player}/entries"
    step = cost_us(entries, "boards=a,b") - cost_us(entries, "boards=a")
    assert step > 0
    assert cost_us(entries, "boards=a") + 99 * step == cost_us(entries, "boards=" + ",".join("a" * 100))
    boards = "/v1/families/{family}/boards"
    assert cost_us(boards, "metadata.country=it") >= 5 * cost_us(boards, "order=newest")


def test_F08_every_read_costs_something():
    """What is declared is declared of routes that there are; every other read costs something too, health alone nothing."""
    reads = {route.path for route in ROUTES if route.method == "GET"}
    assert {"/openapi.json"} == DECLARED_US.keys() - reads, "the one that is a page"
    assert {"/livez", "/readyz"} == FREE
    assert all(cost_us(path) >= 100 for path in reads - FREE)


async def test_a_page_that_did_not_change_is_drawn_once(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Whatever page of a board it is: the next reader costs one look at its version."""
    await filled(harness, 3)
    windows: list[str] = []
    render = PageCache._rendered

    async def noted(cache: PageCache, page: CachedPage, *how: Any) -> Any:
        windows.append(page.window)
        return await render(cache, page, *how)

    monkeypatch.setattr(PageCache, "_rendered", noted)
    paths = ("/entries", "/entries/p2", "/entries/p2/around", "/percentiles", "/distribution?bins=2")
    for path in paths:
        pages = [await harness.get(VAULT + path) for _ in range(3)]
        assert 1 == len({page.raw for page in pages})
    assert ["alltime"] * len(paths) == windows


@pytest.fixture
def read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read of the ledger from now on, by the names of the queries."""
    ledger, names = harness.edge.ledger, []
    asked = ledger.read

    async def noted(work: Any, *kind: ReadKind) -> Any:
        names.append(work.__qualname__.partition(".")[0])
        return await asked(work, *kind)

    monkeypatch.setattr(ledger, "read", noted)
    return names


async def test_a_submission_reads_nothing_of_the_ledger(harness: Harness, read: list[str]):
    """The index tells what it needs, its run's counts are in the ticket; only a resend is looked up."""
    await accept(harness, honest(harness, issued(harness, "ada")))
    await harness.edge.index.drained()
    request = honest(harness, issued(harness, "ada"))
    read.clear()
    assert 202 == (await harness.send(request)).status
    assert set() == {"receipt", "baselines_of"} & set(read)
    await harness.edge.index.drained()
    assert 202 == (await harness.send(request)).status
    assert {"receipt"} == {"receipt", "baselines_of"} & set(read)


async def test_a_window_that_cannot_be_is_not_looked_for(harness: Harness, read: list[str]):
    """Only what could be the name of an archived window costs a question to the ledger."""
    for window in ("nonsense", "%01", "daily:", "season:" + "9" * 15, "x" * 300):
        for path in ("/entries", "/entries/p1", "/percentiles"):
            assert 404 == (await harness.get(f"{VAULT}{path}?window={window}")).status, window
    assert 0 == read.count("archived_window")
    assert 404 == (await harness.get(f"{VAULT}/entries?window=season:2026")).status
    assert 1 == read.count("archived_window")
