"""The page at `/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.edge.docs import home
from gateway.runtime.settings import Settings
from tests.support.harness import Harness, running_harness
from tests.support.policies import a_family, a_policy, write_policies


async def test_N11_the_first_page_shows_the_boards_that_there_are(settings: Settings, tmp_path: Path):
    """With policies of one's own `/` lists those boards, escaped, and does not lead to a game that has no board."""
    folder = write_policies(tmp_path / "own", a_policy("sprint", title="<b>Sprint</b>"), a_policy("other"))
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        page = await harness.get("/")
        assert (200, "text/html; charset=utf-8") == (page.status, page.headers["Content-Type"])
        assert page.headers["Content-Security-Policy"].startswith("default-src 'self'")
        text = page.raw.decode()
        assert ["/v1/boards/other/entries", "/v1/boards/sprint/entries"] == [
            link for link in text.split('"') if link.endswith("/entries")
        ]
        assert "&lt;b&gt;Sprint" in text
        assert "/arcade/" not in text


async def test_N11_the_first_page_leads_to_the_game_that_has_its_board(harness: Harness):
    """With the bundled policies the game is one click away."""
    assert 'href="/arcade/"' in (await harness.get("/")).raw.decode()


async def test_the_first_page_lists_no_more_boards_than_fit(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Past the most that are listed, the page says how many are left out and where they are."""
    monkeypatch.setattr(home, "MOST_BOARDS", 1)
    folder = write_policies(tmp_path / "own", a_policy("sprint"), a_policy("other"))
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        text = (await harness.get("/")).raw.decode()
    assert "/v1/boards/sprint/entries" not in text
    assert '1 more are in <a href="/v1/boards">' in text


async def test_the_first_page_shows_families_and_what_follows_from_them(settings: Settings, tmp_path: Path):
    """Each family leads to the list of its boards, and nobody is said to write a rollup."""
    world = {"board": "world", "title": "World", "writes": "derived", "rollup": {"family": "track"}}
    family = a_family(title="<b>Tracks</b>", score={"maximum": 1000})
    folder = write_policies(tmp_path / "own", family, world | {"score": {"maximum": 1000}})
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        text = (await harness.get("/")).raw.decode()
    assert 'href="/v1/families/track/boards"' in text
    assert "&lt;b&gt;Tracks" in text
    assert "nobody: it follows from a family" in text
    assert "players" not in text
