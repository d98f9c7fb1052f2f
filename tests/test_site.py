"""The documentation as a site: it builds strictly, and has a page for everything that points to one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.edge.problems import PROBLEM_BASE, ProblemType

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as its first line says: a dead link or anchor ends the build."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return folder


def test_each_problem_has_a_page_at_the_address_that_is_its_type(site: Path):
    """What a refusal names can be opened."""
    assert PROBLEM_BASE == "https://scoregate.dev/problems/"
    for kind in ProblemType:
        page = (site / "problems" / kind.slug / "index.html").read_text()
        assert f"Status <strong>{kind.status}</strong>" in page, kind.slug
        assert "What a client should do" in page, kind.slug


def test_every_page_is_in_the_navigation_the_search_and_the_list_for_programs(site: Path):
    """One list of pages, three ways to find one."""
    pages = {path.parent.relative_to(site).as_posix() for path in site.rglob("index.html")} - {"."}
    home = (site / "index.html").read_text()
    shown = {href.rstrip("/") for href in re.findall(r'href="([^":#]+/)"', home)}
    assert set() == pages - shown
    found = {
        entry["location"].partition("#")[0].rstrip("/")
        for entry in json.loads((site / "search" / "search_index.json").read_text())["docs"]
    }
    assert set() == pages - found
    told = (site / "llms.txt").read_text()
    assert set() == {page for page in pages if f"]({'https://scoregate.dev/'}{page}/): " not in told}
    about = [line.partition("/): ")[2] for line in told.splitlines() if line.startswith("- ")]
    assert [] == [words for words in about if not words or "](" in words]


def test_pages_link_to_pages_of_the_site_and_to_nothing_in_the_repository(site: Path):
    """Also from the READMEs beside clients and examples."""
    page = (site / "clients" / "c" / "index.html").read_text()
    assert 'href="../../how-to/clients/cpp-and-unreal/"' in page
    assert 'href="../vectors/"' in page
    for each in site.rglob("*.html"):
        dead = re.findall(r'href="([^"]*\.(?:md|py|c|h|js|yaml|yml))"', each.read_text())
        assert [] == [href for href in dead if "://" not in href], each
