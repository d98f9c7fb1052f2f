"""The files of the console: what others wrote is what they published, and browsers keep each for good."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.edge.console.page_drawing import environment
from gateway.edge.console.static_files import static_files
from tests.support.game import ROOT
from tests.support.harness import Harness

CONSOLE = ROOT / "gateway" / "edge" / "console"
VENDORED = CONSOLE / "static" / "vendored"
TEMPLATES = sorted((CONSOLE / "templates").glob("*.html"))


def parts() -> dict[str, dict[str, Any]]:
    return tomllib.loads((VENDORED / "vendored.toml").read_text())


def test_what_others_wrote_is_what_they_published():
    """Each vendored file has the digest in the list, and the list names version, origin and licence."""
    listed = {name: digest for part in parts().values() for name, digest in part["sha256"].items()}
    stored = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDORED.iterdir()
        if file.name != "vendored.toml"
    }
    assert stored == listed
    for part in parts().values():
        assert part["licence_file"] in part["sha256"]
        assert part["version"] in part["origin"]
        assert {"project", "licence"} <= part.keys()


def test_a_file_is_named_after_its_content():
    """The name changes with the content, and a module imports the names that are served."""
    for name, file in static_files().items():
        digest = hashlib.sha256(file.body).hexdigest()[:12]
        stem, _, suffix = name.rpartition(".")
        assert f"/console/static/{stem}-{digest}.{suffix}" == file.path
        imported = re.findall(rb'from "\./([^"]+)"', file.body)
        assert {each.decode() for each in imported} <= {
            each.path.rpartition("/")[2] for each in static_files().values()
        }


async def test_a_browser_keeps_a_file_for_good(harness: Harness):
    """A file answers with its type, and may be kept as long as its name is asked for."""
    for file in static_files().values():
        answer = await harness.get(file.path)
        assert (200, file.body, file.content_type) == (
            answer.status,
            answer.raw,
            answer.headers["Content-Type"],
        )
        assert "public, max-age=31536000, immutable" == answer.headers["Cache-Control"]
        assert "nosniff" == answer.headers["X-Content-Type-Options"]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_M07_a_template_has_no_script_or_style_of_its_own(template: Path):
    """No page needs what the content security policy forbids, and none shows a value as markup."""
    text = template.read_text()
    assert [] == re.findall(
        r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:|\bhx-on|\|\s*safe\b", text
    )
    assert [] == re.findall(r"\s[\w:-]+=(?:\{|')", text), "a value stands outside of quotation marks"


def test_M07_every_value_is_escaped():
    """The templates' engine escapes by itself."""
    assert True is environment().autoescape
    shown = environment().from_string('<p title="{{ x }}">{{ x }}</p>').render(x="\"'><img onerror=evil()>&")
    assert "<img" not in shown
    assert '"><' not in shown.removeprefix('<p title="').removesuffix("</p>").partition('">')[0]
