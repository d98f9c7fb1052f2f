"""Where the pages under `/docs` lead, and to whom their first submission goes."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from gateway.edge.docs.drawn_pages import load_pages
from gateway.edge.docs.first_submission import fill_in
from gateway.ledger.judgement.builds import BuildChange, set_build_status
from gateway.runtime.settings import Settings
from policies.replaying import BuildStatus
from tests.support.game import ROOT
from tests.support.harness import Harness, running_harness
from tests.support.policies import a_policy, write_policies


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Every page as it was drawn, by its path."""
    return {path: body.decode() for path, body in load_pages().items() if path.startswith("/docs")}


def test_a_page_names_the_files_that_the_edge_does_not_serve(pages: dict[str, str]):
    """A written reference leads to no page but those that there are; a how-to is called by the name of its file."""
    for path in pages:
        source = ROOT / f"docs/reference/{path.removeprefix('/docs/')}.md"
        if not source.is_file():
            continue
        main = pages[path].partition("<main>")[2]
        links = {link for link in re.findall(r'href="([^"]+)"', main) if not link.startswith("#")}
        assert set() == {link for link in links if link.partition("#")[0] not in pages} - {
            link for link in links if link.startswith("https://")
        }
        assert "/docs" not in links
        named = set(re.findall(r"<small>\[([\w./-]+)\]</small>", main))
        assert [] == [name for name in named if not (ROOT / name).is_file()]
        assert ("](../" in source.read_text("utf-8")) == bool(named)
    assert "(how <small>[docs/how-to/change-a-policy.md]</small>)" in pages["/docs/policy"]


def test_a_written_reference_has_the_title_and_the_contents_of_its_source(pages: dict[str, str]):
    """The tab and the side of the page say what the headings in it say, without those below them."""
    shown = 0
    for path, page in pages.items():
        source = ROOT / f"docs/reference/{path.removeprefix('/docs/')}.md"
        if not source.is_file():
            continue
        text = re.sub(r"^```.*?^```", "", source.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        [title] = re.findall(r"^# (.+)$", text, re.MULTILINE)
        headings = [heading.replace("`", "") for heading in re.findall(r"^## (.+)$", text, re.MULTILINE)]
        contents = page.partition("<strong>On this page</strong>")[2].partition("</ul>")[0]
        links = re.findall(r'<a href="#([^"]+)">(.+?)</a>', contents)
        assert f"<title>{title} · Scoregate</title>" in page
        assert headings == [unescape(text) for _, text in links]
        assert [] == [slug for slug, _ in links if f'<h2 id="{slug}">' not in page]
        shown += 1
    assert shown > 10


def first_steps(page: str) -> tuple[str, str, str]:
    """The authority, the board and the body with which the page opens a run."""
    command = page.partition("/runs -H")
    authority, board = re.search(r"curl (\S+)/v1/boards/(\S+)$", command[0]).groups()
    return authority, unescape(board), unescape(re.search(r"-d '(.+)'", command[2])[1])


async def test_the_first_submission_goes_to_the_edge_that_is_asked(harness: Harness):
    """It names the authority of the request, a board with a build, and nothing that stays to be filled in."""
    page = (await harness.get("/docs")).raw.decode()
    authority = harness.url.removeprefix("http://")
    assert (authority, "arcade", '{"build": "arcade-1"}') == first_steps(page)
    assert f"curl {authority}/v1/players" in page
    assert None is re.search(r"%[A-Z]+%", page)


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (
            [a_policy("zoo"), a_policy("arena", writes="trusted"), a_policy("club")],
            ("club", '{"build": "1.0"}'),
        ),
        (
            [
                a_policy("club", builds={"old": {"status": "blocked"}}),
                a_policy("zoo", builds={"old": {"status": "blocked"}, "new": {}}),
            ],
            ("zoo", '{"build": "new"}'),
        ),
        ([a_policy("arena", writes="trusted")], ("<board>", '{"build": "<build>"}')),
    ],
)
async def test_the_first_submission_is_for_a_board_that_players_write(
    settings: Settings, tmp_path: Path, policies: list[dict[str, object]], expected: tuple[str, str]
):
    """The first board of those that open runs, with a build that does; without one, a place to be filled in."""
    folder = write_policies(tmp_path / "own", *policies)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        page = (await harness.get("/docs")).raw.decode()
    assert expected == first_steps(page)[1:]


async def test_the_first_submission_is_of_no_build_that_an_operator_has_blocked(
    settings: Settings, tmp_path: Path
):
    """The next build that opens runs is named, and the next board once none is left or the only one is blocked."""
    boards = [a_policy("club", builds={"old": {}, "new": {}}), a_policy("den"), a_policy("zoo")]
    folder, shown = write_policies(tmp_path / "own", *boards), []
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        for board, build in (("club", "old"), ("club", "new"), ("den", "1.0")):
            change = BuildChange(board, build, BuildStatus.BLOCKED, "operator", "it cheats", harness.clock())
            await harness.edge.ledger.write(set_build_status(change))
            await harness.edge.builds.refresh()
            shown.append(first_steps((await harness.get("/docs")).raw.decode())[1:])
    assert [
        ("club", '{"build": "new"}'),
        ("den", '{"build": "1.0"}'),
        ("zoo", '{"build": "1.0"}'),
    ] == shown


def test_what_a_client_calls_the_edge_is_escaped():
    """The edge refuses foreign hosts before; the page does not rely on it."""
    assert b"curl &lt;b&gt;&quot;/" == fill_in(b"curl %AUTHORITY%/", '<b>"', "b", "1.0")
