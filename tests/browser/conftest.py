"""A whole stack as `scoregate up` starts it, a real Chromium, and visitors whose every complaint is noted."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import pytest_asyncio
from scoregate_client import Run, ScoregateClient, encode_recording

from examples.arcade.players import STATS
from tests.support import preloaded
from tests.support.forked_parts import FORK_PARTS
from tests.support.game import BUILD, GIVE_UP, arcade
from tests.support.gate import missing
from tests.support.harness import free_port

try:
    from playwright.async_api import Browser, Page, async_playwright
except ImportError:  # the browser tests then say so themselves
    async_playwright = None

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
)
SMALL = {"width": 640, "height": 480}
"""What a window shows unless a test says otherwise: its pixels are painted by the machine's processors."""

SLOW_DISPLAY = """
  const draw = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (frame) => setTimeout(() => draw(frame), 80);
"""
"""A display that shows ten frames a second: the game ticks as ever, and is drawn more seldom."""

START_S = 30
PATIENCE_MS = 15_000


@pytest.fixture(scope="package")
def chromium() -> str:
    """The path of a Chromium."""
    if async_playwright is None:
        missing("Playwright is not installed: pip install 'scoregate[test]'")
    found = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if found is None:
        missing(f"no browser on PATH: one of {', '.join(CHROMIUM_NAMES)}")
    return str(found)


@pytest.fixture(scope="package")
def stack(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of everything, started by the one command."""
    folder = tmp_path_factory.mktemp("stack")
    address = f"127.0.0.1:{free_port()}"
    words = ["up", "--data-dir", str(folder / "data"), "--bind", address]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCOREGATE_")}
    with (folder / "up.log").open("wb") as log:
        process = preloaded.start(words, environment, log, before=FORK_PARTS)
    try:
        await_ready(process, f"http://{address}/readyz", folder / "up.log")
        yield f"http://{address}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def await_ready(process: preloaded.Process, url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.05)
    process.kill()
    pytest.fail(f"the stack does not start:\n{log.read_text(errors='replace')}")


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_ARGUMENTS))
        running.phone = {
            name: value
            for name, value in playwright.devices["Pixel 7"].items()
            if name != "default_browser_type"
        } | {"device_scale_factor": 1}  # a quarter of the pixels to paint
        yield running
        await running.close()


@dataclass
class Visitor:
    """Somebody at a browser of their own: the page, and whatever the browser complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self._note("error", str(error)))

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(f"{kind}: {text}")

    async def text(self, selector: str) -> str:
        return (await self.page.locator(selector).inner_text()).strip()

    async def board(self) -> list[dict[str, Any]]:
        """The rows of the board as they are shown."""
        return await self.page.locator("#board li").evaluate_all(
            """rows => rows.map(row => ({
                 rank: Number(row.dataset.rank), name: row.querySelector(".who").textContent,
                 score: Number(row.dataset.score), shown: row.querySelector(".points").textContent,
                 isOwn: row.hasAttribute("data-own") }))"""
        )


@pytest_asyncio.fixture(loop_scope="package")
async def visit(browser: Browser, stack: str) -> AsyncIterator[Any]:
    """Opens a page as a new visitor; at the end no visitor's browser may have complained."""
    visitors: list[Visitor] = []
    async with AsyncExitStack() as leaving:

        async def visit(
            path: str = "/arcade/", *, script: str = "", display: str = SLOW_DISPLAY, **context: Any
        ) -> Visitor:
            window = await browser.new_context(**{"base_url": stack, "viewport": SMALL, **context})
            leaving.push_async_callback(window.close)
            await window.add_init_script(f"{{ {display} }}\n{script}")
            visitor = Visitor(await window.new_page())
            visitor.listen()
            visitors.append(visitor)
            await visitor.page.goto(path)
            return visitor

        yield visit
    assert [[] for _ in visitors] == [visitor.complaints for visitor in visitors]


@dataclass
class Rival:
    """A headless player in the middle of a run."""

    client: ScoregateClient
    name: str
    run: Run
    opened_s: float

    async def finish(self) -> int:
        """Submits a run that was given up after one second and a half, as soon as that has passed; the score."""
        session, words = arcade().open(self.run.seed), [0] * 90 + [GIVE_UP]
        checkpoints = []
        for tick, word in enumerate(words, 1):
            session.tick(word)
            if tick % self.run.checkpoint_ticks == 0:
                checkpoints.append(session.state_hash())
        recording = encode_recording(words, checkpoints, self.run.checkpoint_ticks)
        await asyncio.sleep(max(0.0, self.opened_s + len(words) / 60 - time.monotonic()))
        await self.client.submit(self.run, session.score(), len(words), dict.fromkeys(STATS, 0), recording)
        return session.score()


@asynccontextmanager
async def rivalling(url: str, *names: str) -> AsyncIterator[list[Rival]]:
    """Headless players by these names who have begun to play."""
    async with AsyncExitStack() as leaving:
        rivals = []
        for name in names:
            client = await leaving.enter_async_context(ScoregateClient(url))
            await client.create_player(name)
            rivals.append(Rival(client, name, await client.open_run("arcade", BUILD), time.monotonic()))
        yield rivals
