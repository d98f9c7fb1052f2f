"""The examples of the JavaScript package as its README has them, and its queue in a browser's own database."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.conftest import PATIENCE_MS
from tests.support.game import ROOT
from tests.support.gate import missing

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

PACKAGE = ROOT / "clients" / "javascript"
KEEP_THE_LAW = """async () => {
  const { LAWS } = await import("/page/test/store-law.mjs"), { IndexedDbStore } = await import("/page/scoregate/index.js");
  const kept = [];
  for (const [name, law] of Object.entries(LAWS)) {
    await law(async () => new IndexedDbStore(name));
    kept.push(name);
  }
  return kept.length;
}"""


def example(language: str, stack: str) -> str:
    """The README's example in a language, for the gateway of the test."""
    [text, *_] = re.findall(
        rf"^```{language}\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    return str(text).replace("http://localhost:8080", stack)


async def test_the_page_of_the_readme_keeps_a_run_over_a_killed_tab(stack: str, visit: Any):
    """As written: a run that cannot be sent outlives its tab, and counts once; the database keeps the law of stores."""
    visitor = await visit("/docs")
    window = visitor.page.context

    async def serve(route: Any) -> None:
        path = route.request.url.partition("/page/")[2]
        if not path:
            await route.fulfill(body=example("html", stack), content_type="text/html; charset=utf-8")
        else:
            file = PACKAGE / re.sub("^(scoregate|src)/", "src/", path)
            await route.fulfill(body=file.read_bytes(), content_type="text/javascript")

    async def lose(route: Any) -> None:
        await route.fulfill(status=200, body="<html>Log in to the Wi-Fi</html>", content_type="text/html")

    await window.route("**/page/**", serve)
    await window.route("**/scores", lose)
    await visitor.page.goto("/page/")
    await visitor.page.click("#play")
    await expect(visitor.page.locator("#told")).to_contain_text("kept", timeout=PATIENCE_MS)
    await visitor.page.close()
    await window.unroute("**/scores")
    page = await window.new_page()
    await page.goto(f"{stack}/page/")
    await expect(page.locator("#told")).to_have_text(
        re.compile(r"^(rank \d+|promoted)$"), timeout=PATIENCE_MS
    )
    await page.reload()
    assert 4 == await page.evaluate(KEEP_THE_LAW)
    assert "" == await page.locator("#told").inner_text()


async def test_the_script_of_the_readme_runs(stack: str, tmp_path: Path):
    """As written, with the package where `npm install` puts it."""
    node = shutil.which("node") or missing("the JavaScript client needs node")
    (tmp_path / "node_modules" / "@scoregate").mkdir(parents=True)
    (tmp_path / "node_modules" / "@scoregate" / "client").symlink_to(PACKAGE)
    (tmp_path / "play.mjs").write_text(example("js", stack))
    script = await asyncio.create_subprocess_exec(
        node, "play.mjs", cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complained = await asyncio.wait_for(script.communicate(), 60)
    assert (b"accepted promoted\n", b"") == (said, complained)
    assert [] == list((tmp_path / "waiting-runs").iterdir())


async def test_the_board_of_the_how_to_is_drawn_before_anything_changes(visit: Any):
    """As written: a page that nobody has played on yet shows the board, and not only what changes on it."""
    page = (ROOT / "docs" / "how-to" / "clients" / "web.md").read_text()
    [shown] = re.findall(r"<!-- example: board -->\n```js\n(.*?)```", page, re.DOTALL)
    visitor = await visit("/docs")
    read, drawn = await visitor.page.evaluate(
        """async () => {
          const { Scoregate } = await import("/arcade/scoregate/index.js");
          const gateway = new Scoregate(location.origin);
          const { entries } = await gateway.entries("arcade", { limit: 10 });
          return [entries, await new Promise((draw) => { SHOWN })];
        }""".replace("SHOWN", shown)
    )
    assert read == drawn
