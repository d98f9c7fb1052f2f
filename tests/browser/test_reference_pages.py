"""Every page of the edge in a real browser, which loads each of them once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from gateway.edge.docs.sections import page_paths
from gateway.edge.routes import ROUTES
from gateway.runtime.settings import Settings
from tests.browser.audit import faults
from tests.browser.conftest import Visitor
from tests.support.game import ROOT
from tests.support.harness import free_port, running_harness
from tests.support.thorough import thoroughly
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.browser

REFERENCE = page_paths(ROOT / "docs" / "reference")
ROUTE_PAGES = [path for path in REFERENCE if path.startswith("/docs/routes-")]
WRITTEN = sorted(f"/docs/{file.stem}" for file in (ROOT / "docs" / "reference").glob("*.md"))
PAPER = "getComputedStyle(document.body).backgroundColor"

PAGES = ["/", "/arcade/", *REFERENCE]
LONG = thoroughly("/docs/routes-boards", "/docs/http")
KINDS = ["/", "/arcade/", "/docs", "/docs/routes-operation", "/docs/signatures", *LONG]
"""One page of each kind, and not a long one, for the looks that differ by style alone."""
AUDITED = {*KINDS, "/docs/routes-bodies", *thoroughly(*PAGES)}
"""The pages that axe-core looks at: pages of a kind come from one template."""

in_the_room = pytest.mark.asyncio(loop_scope="package")
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}

ROUTES_OF = (
    "rows => rows.map(row => [row.querySelector('.verb').textContent, row.querySelector('code').textContent])"
)
LINKS_OF = "all => [...new Set(all.map(link => link.getAttribute('href')))]"
UNMET = "links => links.filter(link => link.startsWith('#') && !document.getElementById(link.slice(1)))"

UNBROKEN = """() => [...document.querySelectorAll("main th code, main td")].filter(cell => cell.offsetParent).every(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  const lines = new Set([...range.getClientRects()].map(line => Math.round(line.bottom)));
  return lines.size <= cell.textContent.trim().split(/\\s+/).length && (lines.size === 1 || cell.textContent.includes(" "));
})"""
"""Whether no word of a cell goes over two lines."""

MOST_SCREENS = 36
"""Of 900 pixels: the routes and the commands are the longest pages, and each is found by its list of contents."""


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def stack(tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer) -> AsyncIterator[str]:
    """The address of an edge, which is all that the pages need."""
    with valkey_server.client() as client:
        client.flushall()
    folder = tmp_path_factory.mktemp("edge")
    settings = Settings(
        data_dir=folder / "data", redis_url=valkey_server.url, bind=f"127.0.0.1:{free_port()}"
    )
    async with running_harness(settings) as harness:
        yield harness.url


@dataclass(frozen=True)
class Seen:
    """A page as a reader met it: its faults in each look, its size, its links, and the routes that it describes."""

    faults: dict[str, list[tuple[str, list[str]]]]
    phone_width: int
    desk_height: int
    links: list[str]
    unmet: list[str]
    described: list[list[str]]
    complaints: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def seen(browser: Browser, stack: str) -> dict[str, Seen]:
    """Every page."""
    async with await browser.new_context(base_url=stack, color_scheme="light", viewport=DESK) as window:
        visitor = Visitor(await window.new_page())
        visitor.listen()
        return {path: await look_at(visitor, path) for path in PAGES}


async def look_at(visitor: Visitor, path: str) -> Seen:
    page, looks = visitor.page, {}
    visitor.complaints.clear()
    await page.goto(path)
    if path in AUDITED:
        looks["light"] = await faults(page)
    desk_height = await page.evaluate("document.documentElement.scrollHeight")
    links = await page.locator("a").evaluate_all(LINKS_OF)
    if path in KINDS:
        await page.emulate_media(color_scheme="dark")
        looks["dark"] = await faults(page, "color-contrast")  # nothing but colours differs
        await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(PHONE)
    phone_width = await page.evaluate("document.documentElement.scrollWidth")
    if path in KINDS:
        looks["narrow"] = await faults(page)
    await page.set_viewport_size(DESK)
    return Seen(
        looks,
        phone_width,
        desk_height,
        links,
        await page.evaluate(UNMET, links),
        await page.locator("main .address").evaluate_all(ROUTES_OF),
        list(visitor.complaints),
    )


def test_N13_no_page_has_an_accessibility_fault(seen: dict[str, Seen]):
    """Contrast, names, landmarks, headings and regions that scroll: axe-core has nothing to say, also dark or on a phone."""
    looks = {path: ["light", "dark", "narrow"] if path in KINDS else ["light"] for path in AUDITED}
    assert {path: {look: [] for look in looks[path]} for path in AUDITED} == {
        path: page.faults for path, page in seen.items() if path in AUDITED
    }


def test_N13_no_page_is_wider_than_a_phone_or_endless(seen: dict[str, Seen]):
    """At 360 pixels nothing scrolls sideways, and no page is longer than thirty screens of a desk."""
    assert dict.fromkeys(PAGES, 360) == {path: page.phone_width for path, page in seen.items()}
    assert {} == {
        path: page.desk_height / 900 for path, page in seen.items() if page.desk_height >= MOST_SCREENS * 900
    }


@in_the_room
async def test_words_on_the_page_of_boards_are_whole_on_a_phone(visit: Any):
    """Each cell of its table fits one or two lines, instead of a column of letters."""
    visitor = await visit("/")
    await visitor.page.set_viewport_size(PHONE)
    cell = visitor.page.locator("main td", has_text="Perihelion").first
    assert 40 > (await cell.bounding_box())["height"]
    assert await visitor.page.evaluate(UNBROKEN)


def test_no_page_has_the_browser_complain(seen: dict[str, Seen]):
    """Nothing that a page asks for is missing, fails or is against its policy."""
    assert {path: [] for path in PAGES} == {path: page.complaints for path, page in seen.items()}


@in_the_room
async def test_the_reference_shows_every_route_with_its_style(visit: Any, seen: dict[str, Seen]):
    """`/docs` is styled under its policy, leads to every route and to how a request is signed, and needs no script."""
    reader = await visit("/docs", viewport=DESK)

    expected = sorted([route.method, route.path] for route in ROUTES)
    assert expected == sorted(await reader.page.locator("main .routes li").evaluate_all(ROUTES_OF))
    assert expected == sorted(route for path in ROUTE_PAGES for route in seen[path].described)
    assert "sticky" == await reader.page.evaluate(
        "getComputedStyle(document.querySelector('.contents')).position"
    )
    assert 0 == await reader.page.locator("script, style, [style]").count()

    await reader.page.click("#first-submission a[href='/docs/signatures']")
    assert "Signatures" == await reader.text("h1")
    assert 1 == await reader.page.locator("#worked-example").count()


@in_the_room
async def test_every_link_of_the_reference_leads_somewhere(stack: str, seen: dict[str, Seen]):
    """Links within a page have their target, and links to other pages of ours are answered."""
    assert {path: [] for path in REFERENCE} == {path: seen[path].unmet for path in REFERENCE}
    assert {path: [] for path in REFERENCE} == {
        path: sorted(set(WRITTEN) - set(seen[path].links)) for path in REFERENCE
    }
    outer = {link for path in REFERENCE for link in seen[path].links if link.startswith("/")}
    texts = {}
    async with aiohttp.ClientSession(stack) as session:
        for page in {link.partition("#")[0] for link in outer}:
            async with session.get(page) as answer:
                assert (page, 200) == (page, answer.status)
                texts[page] = await answer.text()
    aims = {link: link.partition("#") for link in outer}
    assert [] == [
        link for link, (page, _, place) in aims.items() if place and f'id="{place}"' not in texts[page]
    ]


@in_the_room
async def test_the_reference_follows_the_reader_s_colours_and_fits_a_phone(browser: Any, visit: Any):
    """Dark and light differ, and a phone need not scroll sideways."""
    reader = await visit("/docs", color_scheme="dark", **browser.phone)

    assert "rgb(16, 18, 27)" == await reader.page.evaluate(PAPER)
    width = await reader.page.evaluate("document.documentElement.scrollWidth")
    assert browser.phone["viewport"]["width"] == width
    await reader.page.emulate_media(color_scheme="light")
    assert "rgb(255, 255, 255)" == await reader.page.evaluate(PAPER)
