"""The desk in real browsers, at a real `scoregate demo`: from the first admin's link to a ban and back.

With SCREENSHOTS=write the run writes the pictures of README.md, and has more players for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect
from scoregate_client import ModeratorClient, ScoregateClient, encode_recording

from examples.arcade.players import CHECKPOINT_TICKS
from gateway.edge.auth.moderators import ModeratorRole
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from tests.browser.conftest import PATIENCE_MS, await_ready
from tests.browser.test_console import DESK, PHONE, WIDTH
from tests.browser.watching import at_tick, loaded
from tests.support import moderators, preloaded
from tests.support.deployment import eventually
from tests.support.forked_parts import FORK_PARTS
from tests.support.game import BUILD, arcade, give_up
from tests.support.harness import free_port
from tests.support.policies import arcade_policy, write_policies

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_MS)

IS_WRITTEN: Final = os.environ.get("SCREENSHOTS") == "write"
IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
ADMIN, PASSWORD = "admin", "seven quiet lanterns drift"
BELIEVED: Final = {"threshold": 4.0, "spread_floor": 1, "prior": {"mean": 60, "spread": 20}}
"""What the demo's board believes of newcomers, so that short runs are held."""

NAMES: Final = ("Vega", "Lyra", "Mira", "Orion", "Juno", "Rhea", "Thea")
MORE: Final = ("Atlas", "Dione", "Elara", "Hydra", "Io", "Leda", "Nix", "Pan", "Titan", "Ymir", "Ceres", "Pallas",
               "Vesta", "Eris", "Sedna")  # fmt: skip

SHORT_DEMO: Final = f"""{FORK_PARTS}
import dataclasses
from examples.demo import actors, performance
from tests.support.game import give_up
actors.play = give_up
performance.PLAYERS, performance.RUNS_EACH = performance.PLAYERS[:6], 1
performance.CHEATS = tuple(dataclasses.replace(cheat, tries=0) for cheat in performance.CHEATS)
"""
"""The demo with six players, whose runs take six seconds, and no cheats: those come from here."""


@dataclass
class Held:
    """Somebody whose run waits for a moderator."""

    player: str
    token: str
    submission: str


@dataclass
class Demo:
    """A running demo, the link that it printed, and whose runs are held."""

    url: str
    link: str
    data: Path
    held: dict[str, Held]

    def case(self, name: str) -> str:
        return f"/console/cases/{self.held[name].submission}"


async def held_run(url: str, name: str, leaving: AsyncExitStack) -> Held:
    """A run too good for a newcomer, played in five seconds."""
    client = await leaving.enter_async_context(ScoregateClient(url))
    player = await client.create_player(name)
    run, began = await client.open_run("arcade", BUILD), time.monotonic()
    played = await asyncio.to_thread(give_up, arcade(), run.seed, 1.0, random.Random(run.seed), 300)
    recording = encode_recording(played.inputs, played.checkpoints, CHECKPOINT_TICKS)
    await asyncio.sleep(max(0.0, began + played.ticks / 60 - time.monotonic()))
    await client.submit(run, played.score, played.ticks, played.stats, recording)
    while (await client.submission(run.run)).state == "pending":  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(0.1)
    return Held(player.player, player.token, run.run)


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    url, log = f"http://127.0.0.1:{free_port()}", folder / "demo.log"
    policies = write_policies(folder / "policies", arcade_policy(anomaly=BELIEVED))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCOREGATE_")}
    environment |= {"SCOREGATE_POLICIES_DIR": str(policies), "COLUMNS": "300"}
    words = ["demo", "--data-dir", str(folder / "data"), "--bind", url.removeprefix("http://")]
    with log.open("wb") as output:
        process = preloaded.start(words, environment, output, before=SHORT_DEMO)
    try:
        async with AsyncExitStack() as leaving:
            await asyncio.to_thread(await_ready, process, f"{url}/readyz", log)
            names = NAMES + MORE if IS_WRITTEN else NAMES
            held = await asyncio.gather(*(held_run(url, name, leaving) for name in names))
            link = re.compile(r"(http://\S+/console/invitations/\S+)")
            await eventually(lambda: link.search(log.read_text()) is not None, log)
            found = link.search(log.read_text())
            assert found is not None
            origin = found[1].partition("/console/")[0]  # whose cookies the link sets
            yield Demo(origin, found[1], folder / "data", dict(zip(names, held, strict=True)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@dataclass
class Desk:
    """Browsers at the demo, and what they complained of."""

    browser: Browser
    demo: Demo
    leaving: AsyncExitStack
    state: Any = None
    complaints: list[str] = field(default_factory=list)

    async def sit(self, path: str, **context: Any) -> Page:
        """A new browser's page there: the admin's, unless the context says otherwise."""
        known = {
            "base_url": self.demo.url,
            "viewport": DESK,
            "color_scheme": "dark",
            "storage_state": self.state,
        }
        window = await self.browser.new_context(**known | context)
        self.leaving.push_async_callback(window.close)
        page = await window.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        await page.goto(path)
        return page

    async def program(self) -> ModeratorClient:
        """A program of a senior."""
        settings = Settings(data_dir=self.demo.data)
        token = moderators.token_of(settings, "program", ModeratorRole.SENIOR, [], now_ms=wall_clock())
        return await self.leaving.enter_async_context(ModeratorClient(self.demo.url, token))


async def free(desk: Desk, program: ModeratorClient, count: int) -> list[str]:
    """So many players in whose cases nobody is."""
    names = {held.submission: name for name, held in desk.demo.held.items()}
    waiting = [case async for case in program.queue() if case.claim is None and case.submission in names]
    return [names[case.submission] for case in waiting[-count:]]


async def accept(page: Page) -> None:
    """Set the password that an invitation asks for, which signs in."""
    await page.fill("#password", PASSWORD)
    await page.fill("#again", PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/queue")


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def signed_in(demo: Demo, browser: Browser) -> Any:
    """What the first admin's browser keeps, who came by the link that the demo printed."""
    async with AsyncExitStack() as leaving:
        page = await Desk(browser, demo, leaving).sit(demo.link)
        await accept(page)
        return await page.context.storage_state()


@pytest_asyncio.fixture(loop_scope="package")
async def desk(demo: Demo, browser: Browser, signed_in: Any) -> AsyncIterator[Desk]:
    async with AsyncExitStack() as leaving:
        sitting = Desk(browser, demo, leaving, signed_in)
        yield sitting
    assert [] == sitting.complaints


AS_WEBP: Final = """async (picture) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.9).split(",")[1];
}"""


async def drawn(page: Page, name: str, height: int = 720) -> None:
    """Have the page drawn from its top, and keep the picture if it is to be written."""
    await page.set_viewport_size({"width": DESK["width"], "height": height})
    await page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    picture = await page.screenshot()
    assert picture.startswith(b"\x89PNG")
    if IS_WRITTEN:
        blank = await page.context.new_page()
        written = await blank.evaluate(AS_WEBP, b64encode(picture).decode())
        (IMAGES / f"console-{name}.webp").write_bytes(b64decode(written))
        await blank.close()


def on_board(page: Page, name: str) -> Locator:
    return page.locator("#board li .who", has_text=name)


async def decide(page: Page, kind: str) -> None:
    """Open the form of a decision and send it for its first reason."""
    await page.keyboard.press({"approve": "a", "reject": "r"}[kind])
    await expect(page.locator(f"[data-decision={kind}] input[type=radio]").first).to_be_focused()
    await page.keyboard.press("1")
    await expect(page.locator(f"[data-decision={kind}] input:checked")).to_be_focused()
    await page.keyboard.press("Enter")


async def test_the_first_admin_plays_a_case_back_and_the_board_follows(desk: Desk):
    """By the link of the demo: taken, played back, approved, and on an open board page at once; reject and undo."""
    page, board = await desk.sit("/console/queue"), await desk.sit("/arcade/", storage_state=None)
    await drawn(page, "queue")
    await page.keyboard.press("n")
    await page.wait_for_url("**/console/cases/*")
    name, case = (await page.locator("h1 .player").inner_text()).strip(), page.url
    await loaded(page)
    await page.select_option(".playback-controls select", "8")
    await page.locator(".playback-controls").get_by_role("button", name="Play", exact=True).click()
    ticks = re.search(r"([\d,]+) ticks", await page.locator(".facts").inner_text())
    await at_tick(page, int(ticks[1].replace(",", "")) if ticks else -1)
    await drawn(page, "case", 1240)
    await expect(on_board(board, name)).to_have_count(0)
    await decide(page, "approve")
    await expect(page.locator(".settled")).to_contain_text(name)
    await expect(on_board(board, name)).to_have_count(1)

    assert case != page.url
    second = (await page.locator("h1 .player").inner_text()).strip()
    await decide(page, "reject")
    await expect(page.locator(".settled")).to_contain_text(second)
    await page.keyboard.press("u")
    await page.wait_for_url(f"**{desk.demo.case(second)}")
    await expect(page.locator(".case-head .tag").first).to_have_text("Held")


async def test_two_moderators_do_not_decide_the_same_case(desk: Desk):
    """An invited colleague sees who is in it; who comes too late is told by whom, and nothing is stored."""
    people = await desk.sit("/console/people")
    await people.fill("#name", "jo")
    await people.click("text=Invite >> nth=-1")
    invitation = await people.locator("#invitation").inner_text()
    theirs = await desk.sit(invitation, storage_state=None)
    await accept(theirs)
    [name] = await free(desk, await desk.program(), 1)
    case = desk.demo.case(name)
    ours = await desk.sit(case)
    await theirs.goto(case)
    await theirs.click("text=Take it")
    await expect(theirs.locator("#claim-line")).to_contain_text("You are in this case")
    await decide(ours, "approve")
    await expect(ours.locator("#notices")).to_contain_text("jo")
    queue = await desk.sit("/console/queue")
    await expect(queue.locator("tr", has_text=name)).to_contain_text("jo")

    await decide(theirs, "reject")
    await expect(theirs.locator(".settled")).to_contain_text(name)
    await ours.locator("[data-decision=approve] form button").click()
    await expect(ours.locator("#notices")).to_contain_text("has changed since you read it")
    await expect(queue.locator("tr", has_text=name)).to_have_count(0)


async def test_a_banned_player_is_off_the_board_and_back_as_before(desk: Desk):
    """For everybody else, in pages that are open; in shadow they see themselves there as before."""
    program = await desk.program()
    [name] = await free(desk, program, 1)
    banned = desk.demo.held[name]
    await program.approve((await program.case(banned.submission)).submission, "plausible")
    own = {"name": name, "wish": name, "player": banned.player, "token": banned.token}
    kept = [{"name": "scoregate.arcade.player", "value": json.dumps(own)}]
    as_banned = {"cookies": [], "origins": [{"origin": desk.demo.url, "localStorage": kept}]}
    boards = [await desk.sit("/arcade/", storage_state=state) for state in (None, as_banned)]
    for board in boards:
        await expect(on_board(board, name)).to_have_count(1)
    before = [await board.locator("#board").inner_text() for board in boards]
    page = await desk.sit(f"/console/players/{banned.player}")
    for is_shadow, tag in ((False, "Banned on arcade"), (True, "Shadow-banned on arcade")):
        await page.fill("#where", "arcade")
        if is_shadow:
            await page.check("[name=shadow]")
        else:
            await page.fill("#message", "Not played by hand.")
        await page.click("button.danger")
        await expect(page.locator(".page-head")).to_contain_text(tag)
        await expect(on_board(boards[0], name)).to_have_count(0)
        await expect(on_board(boards[1], name)).to_have_count(int(is_shadow))
        await page.click("text=Unban")
        await expect(page.locator(".page-head")).not_to_contain_text(tag)
        for board in boards:
            await expect(on_board(board, name)).to_have_count(1)
        assert before == [await board.locator("#board").inner_text() for board in boards]


async def test_a_batch_decides_on_what_it_previewed_while_the_queue_changes(desk: Desk):
    """What a moderator decided since the preview stays as it is; an open queue follows, there and back."""
    program = await desk.program()
    names = await free(desk, program, 2)
    assert 2 == len(names), "the demo holds too few runs"
    queue = await desk.sit("/console/queue")
    rows = [queue.locator("tr", has_text=name) for name in names]
    for row in rows:
        await expect(row).to_have_count(1)
    batches = []
    for name in names:
        selection = {"board": "arcade", "player": desk.demo.held[name].player}
        batches.append(await program.preview_batch(f"demo-{name}", "reject", "tool-assisted", selection))
    page = await desk.sit(desk.demo.case(names[0]))
    await decide(page, "approve")
    await page.wait_for_url("**/console/queue?settled=*")
    applied = [await program.await_batch(await program.apply_batch(batch)) for batch in batches]
    assert [{"overtaken": 1}, {"decided": 1}] == [batch.outcomes for batch in applied]
    for row in rows:
        await expect(row).to_have_count(0)
    for batch in applied[1:]:
        await program.reverse_batch(batch.batch)
    for row, count in zip(rows, (0, 1), strict=True):
        await expect(row).to_have_count(count)


async def test_a_case_is_settled_on_a_phone_by_keys_alone(desk: Desk):
    """From signing in to the figures, and nothing is wider than 360 px."""
    page = await desk.sit("/console/sign-in", storage_state=None, viewport=PHONE)
    await page.keyboard.type(ADMIN)
    await page.keyboard.press("Tab")
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/queue")
    assert PHONE["width"] == await page.evaluate(WIDTH)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/cases/*")
    name = (await page.locator("h1 .player").inner_text()).strip()
    assert PHONE["width"] == await page.evaluate(WIDTH)
    await decide(page, "reject")
    await expect(page.locator(".settled")).to_contain_text(name)
    await page.keyboard.press("u")
    await page.wait_for_url(f"**{desk.demo.case(name)}")
    await page.keyboard.press("p")
    await page.wait_for_url("**/console/players/*")
    assert PHONE["width"] == await page.evaluate(WIDTH)
    await page.goto("/console/figures")
    assert PHONE["width"] == await page.evaluate(WIDTH)


async def test_the_figures_are_drawn(desk: Desk):
    """With what was decided here; for the picture, on more cases."""
    program = await desk.program()
    for number, name in enumerate(await free(desk, program, 18) if IS_WRITTEN else ()):
        case = (await program.case(desk.demo.held[name].submission)).submission
        await (program.approve(case, "plausible") if number % 3 else program.reject(case, "tool-assisted"))
    page = await desk.sit("/console/figures")
    await expect(page.locator("h1")).to_have_text("Figures")
    await drawn(page, "figures")
