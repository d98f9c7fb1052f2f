"""axe-core looks at every kind of page, in both colour schemes and on a phone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from gateway.edge.reference import page_paths
from tests.browser.conftest import Visitor
from tests.support.game import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

PAGES = ["/", "/arcade/", *page_paths(ROOT / "docs" / "reference")]
NARROW = {"viewport": {"width": 360, "height": 740}}


KINDS = ["/", "/arcade/", "/docs", "/docs/routes-boards", "/docs/routes-bodies", "/docs/http"]
"""One page of each kind, for the looks that differ by style alone."""


async def violations(visitor: Visitor, path: str) -> list[tuple[str, list[str]]]:
    """Each rule that a page breaks, with the first places where."""
    await visitor.page.goto(path)
    found = await Axe().run(visitor.page, options={"resultTypes": ["violations"]})
    return [
        (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found.response["violations"]
    ]


@pytest.mark.parametrize(
    ("paths", "look"),
    [(PAGES, {"color_scheme": "light"}), (KINDS, {"color_scheme": "dark"}), (KINDS, NARROW)],
)
async def test_N13_no_page_has_an_accessibility_fault(visit: Any, paths: list[str], look: dict[str, Any]):
    """Contrast, names, landmarks, headings and regions that scroll: axe-core has nothing to say of any page."""
    visitor = await visit("/", **look)
    assert {path: [] for path in paths} == {path: await violations(visitor, path) for path in paths}


async def test_N13_no_page_is_wider_than_a_phone_or_endless(visit: Any):
    """At 360 pixels nothing scrolls sideways, and no page is longer than thirty screens of a desk."""
    visitor = await visit("/", **NARROW)
    for path in PAGES:
        await visitor.page.set_viewport_size({"width": 360, "height": 740})
        await visitor.page.goto(path)
        assert (path, 360) == (path, await visitor.page.evaluate("document.documentElement.scrollWidth"))
        await visitor.page.set_viewport_size({"width": 1280, "height": 900})
        assert await visitor.page.evaluate("document.documentElement.scrollHeight") < 30 * 900, path


async def test_N13_a_player_who_does_not_see_the_game_hears_it(visit: Any):
    """The start of a run and its end, with the score, are said in a polite live region."""
    player = await visit("/arcade/")
    region = player.page.locator("#announcer")
    assert ("status", "polite") == (
        await region.get_attribute("role"),
        await region.get_attribute("aria-live"),
    )
    await player.page.click("#play")
    await expect(region).to_contain_text("The run begins")
    await player.page.keyboard.press("Escape")
    await expect(region).to_contain_text(re.compile(r"^Adrift\. \d+ points\.$"))
