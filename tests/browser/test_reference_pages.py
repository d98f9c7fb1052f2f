"""The interface's reference in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.edge.reference import page_paths
from gateway.edge.routes import ROUTES
from tests.support.game import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

ROUTE_PAGES = [path for path in page_paths(ROOT / "docs" / "reference") if path.startswith("/docs/routes-")]
WRITTEN = sorted(f"/docs/{file.stem}" for file in (ROOT / "docs" / "reference").glob("*.md"))
PAPER = "getComputedStyle(document.body).backgroundColor"


async def test_the_reference_shows_every_route_with_its_style(visit: Any):
    """`/docs` is styled under its policy, leads to where every route is described, and needs no script."""
    reader = await visit("/docs", color_scheme="light")

    texts = "rows => rows.map(row => [row.querySelector('.verb').textContent, row.querySelector('code').textContent])"
    expected = sorted([route.method, route.path] for route in ROUTES)
    assert expected == sorted(await reader.page.locator("main .routes li").evaluate_all(texts))
    described = []
    for path in ROUTE_PAGES:
        section = await visit(path)
        described += await section.page.locator("main .address").evaluate_all(texts)
    assert expected == sorted(described)
    assert "sticky" == await reader.page.evaluate(
        "getComputedStyle(document.querySelector('.contents')).position"
    )
    assert 0 == await reader.page.locator("script, style, [style]").count()


@pytest.mark.parametrize("path", ["/docs", *ROUTE_PAGES, *WRITTEN])
async def test_every_link_of_the_reference_leads_somewhere(visit: Any, path: str):
    """Links within a page have their target, and links to other pages of ours are answered."""
    reader = await visit(path)

    links = await reader.page.locator("a").evaluate_all(
        "all => [...new Set(all.map(link => link.getAttribute('href')))]"
    )
    inner = [link for link in links if link.startswith("#")]
    missing = await reader.page.evaluate(
        "links => links.filter(link => !document.getElementById(link.slice(1)))", inner
    )
    outer = [link.partition("#") for link in links if link.startswith("/")]
    answers = {page: await reader.page.request.get(page) for page in {page for page, _, _ in outer}}

    assert set(WRITTEN) <= set(links)
    assert [] == missing
    assert dict.fromkeys(answers, 200) == {page: answer.status for page, answer in answers.items()}
    for page, _, place in outer:
        assert not place or f'id="{place}"' in await answers[page].text()


async def test_the_first_submission_leads_to_the_signature_reference(visit: Any):
    """From the introduction a reader gets to how a request is signed."""
    reader = await visit("/docs")

    await reader.page.click("#first-submission a[href='/docs/signatures']")

    assert "Signatures" == await reader.text("h1")
    assert 1 == await reader.page.locator("#worked-example").count()


async def test_the_reference_follows_the_reader_s_colours_and_fits_a_phone(browser: Any, visit: Any):
    """Dark and light differ, and a phone need not scroll sideways."""
    light = await visit("/docs", color_scheme="light")
    dark = await visit("/docs", color_scheme="dark", **browser.phone)

    assert "rgb(255, 255, 255)" == await light.page.evaluate(PAPER)
    assert "rgb(16, 18, 27)" == await dark.page.evaluate(PAPER)
    width = await dark.page.evaluate("document.documentElement.scrollWidth")
    assert browser.phone["viewport"]["width"] == width
