"""The game page in a real browser, against everything that `scoregate up` starts."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from playwright.async_api import expect
from scoregate_client import ScoregateClient

from examples.arcade.players import INWARD, LEFT, RIGHT
from replay.recording import decode
from tests.browser.conftest import GIVE_UP, PATIENCE_MS, Visitor, rivalling
from tests.support.attack import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

PUSHED_MS = 5_000
"""How soon a change must be on the board; without a push the page looks every 20 s only."""

NOTE_STATUSES = """
  window.statuses = [];
  document.addEventListener("DOMContentLoaded", () => {
    const status = document.getElementById("status");
    new MutationObserver(() => {
      if (!status.hidden && window.statuses.at(-1) !== status.dataset.state) window.statuses.push(status.dataset.state);
    }).observe(status, { attributes: true, childList: true });
  });
"""
SILENT_SOURCE = "window.EventSource = class { addEventListener() {} close() {} };"
WINDOWS_OF = """async (board) => {
  const { Courses } = await import("/arcade/courses.js");
  return new Courses({}, document.createElement("ol")).of(board).windows;
}"""
HOSTILE = "<img src onerror=evil()>"
LISTEN = """() => new Promise((begun) => {
  const source = new EventSource("/v1/boards/arcade/live");
  source.onopen = begun;
  window.heard = new Promise((heard) => source.addEventListener("standing", () => { source.close(); setTimeout(heard, 200); }));
})"""
"""Another listener in the page: once it has heard of the next standing, so has the page itself."""

NOTE_EVIL = "window.evils = 0; window.evil = () => { window.evils += 1; };"


class Submitted:
    """The submission that a page sends, seen on its way."""

    def __init__(self, visitor: Visitor) -> None:
        self._sent = asyncio.get_running_loop().create_future()
        visitor.page.on("request", self._look)

    def _look(self, request: Any) -> None:
        if request.url.endswith("/scores") and not self._sent.done():
            self._sent.set_result(json.loads(request.post_data))

    async def claim(self) -> dict[str, Any]:
        return await asyncio.wait_for(self._sent, 30)

    async def inputs(self) -> set[int]:
        """The words of the recording."""
        recording = decode(base64.b64decode((await self.claim())["recording"]), maximum_ticks=7200)
        return set(recording.inputs)


async def begin(visitor: Visitor, name: str) -> None:
    await visitor.page.fill("#name", name)
    await visitor.page.click("#play")
    await visitor.page.wait_for_selector("#panel", state="hidden")


async def ranked(visitor: Visitor) -> None:
    await visitor.page.wait_for_selector("#status[data-state=rank]", timeout=40_000)
    await visitor.page.wait_for_selector("#board li[data-own]", timeout=PUSHED_MS)


async def entries(stack: str) -> list[tuple[int, str, int]]:
    async with ScoregateClient(stack) as reader:
        return [(entry.rank, entry.name, entry.score) for entry in (await reader.entries("arcade")).entries]


async def test_a_player_plays_to_a_rank_while_another_watches(stack: str, visit: Any):
    """Name, keys, game over, pending, then the rank by live push; a second visitor sees the row without reloading."""
    player, watcher = await visit(script=NOTE_STATUSES), await visit()
    polls: list[Any] = []

    async def hold_back(poll: Any) -> None:
        polls.append(poll)

    await player.page.route("**/v1/submissions/*", hold_back)  # only the push can tell the rank
    await watcher.page.wait_for_selector("#live[data-state=on]")
    await watcher.page.evaluate("window.isTheSame = true")
    submitted = Submitted(player)

    await begin(player, "Ada")
    for key in ("ArrowDown", "KeyA", "ArrowRight"):
        await player.page.keyboard.press(key, delay=120)
    claim, inputs = await submitted.claim(), await submitted.inputs()
    await ranked(player)

    assert {0, INWARD, LEFT, RIGHT} <= inputs
    assert ["pending", "rank"] == await player.page.evaluate("window.statuses")
    own = [row for row in await player.board() if row["isOwn"]]
    assert [("Ada", claim["score"])] == [(row["name"], row["score"]) for row in own]
    assert f"{claim['score']:,}" == own[0]["shown"] == await player.text("#final")
    assert (await player.text("#status")).startswith(f"Rank {own[0]['rank']}")
    assert (own[0]["rank"], "Ada", claim["score"]) in await entries(stack)

    await watcher.page.wait_for_selector("#board .who:text-is('Ada')", timeout=PUSHED_MS)
    assert ("Ada", claim["score"], False) in [
        (row["name"], row["score"], row["isOwn"]) for row in await watcher.board()
    ]
    assert await watcher.page.evaluate("window.isTheSame")

    for poll in polls:
        await poll.abort("aborted")
    player.complaints.clear()  # of the polls that were cut off
    await player.page.reload()
    await player.page.wait_for_selector("#board li[data-own]")
    assert "Ada" == await player.page.input_value("#name")


async def test_a_phone_plays_by_touch_and_learns_its_rank_without_the_live_feed(browser: Any, visit: Any):
    """On a phone the page fits, the buttons steer, and polling tells the rank when the push does not come."""
    phone = await visit(**browser.phone, script=NOTE_STATUSES + SILENT_SOURCE, display="")
    submitted = Submitted(phone)

    await phone.page.fill("#name", "Thumbs")
    await phone.page.tap("#play")
    await phone.page.wait_for_selector("#touch:not([hidden])")
    for bit in (INWARD, LEFT):
        await phone.page.tap(f"[data-button='{bit}']")
    width, *rooms = await phone.page.evaluate(
        """() => [document.documentElement.scrollWidth, ...[...document.querySelectorAll("[data-button]")].map(
             button => Math.round(innerHeight - button.getBoundingClientRect().bottom))]"""
    )
    inputs = await submitted.inputs()
    await ranked(phone)

    assert browser.phone["viewport"]["width"] == width
    assert all(room >= 0 for room in rooms)
    assert {0, INWARD, LEFT} <= inputs
    assert ["pending", "rank"] == await phone.page.evaluate("window.statuses")
    assert ["Thumbs"] == [row["name"] for row in await phone.board() if row["isOwn"]]


async def test_N13_giving_up_is_heard_and_the_score_counts(visit: Any):
    """Escape ends a run at once, verified like any other; who does not see the game hears its start, end and score politely.

    The network is gone by then: the page says that the run is saved, and a reload sends it.
    """
    player = await visit(script=NOTE_STATUSES)
    submitted = Submitted(player)
    region = player.page.locator("#announcer")
    assert ("status", "polite") == (
        await region.get_attribute("role"),
        await region.get_attribute("aria-live"),
    )

    await begin(player, "Quitter")
    await expect(region).to_contain_text("The run begins", timeout=PATIENCE_MS)
    await player.page.wait_for_selector("#score:text-matches('^[1-9]')")
    await player.page.route("**/scores", lambda route: route.fulfill(status=503, json={}))
    await player.page.keyboard.press("Escape")
    await expect(region).to_contain_text(re.compile(r"^Adrift\. \d+ points\.$"), timeout=PATIENCE_MS)
    inputs = await submitted.inputs()
    await player.page.wait_for_selector("#status[data-state=waiting]:text('Saved')")
    assert "status" == await player.page.locator("#status").get_attribute("role")
    assert "Adrift" == await player.text("#headline")
    assert GIVE_UP in inputs

    await player.page.unroute("**/scores")
    await player.page.reload()
    await ranked(player)
    assert {"503"} == set(re.findall(r"\d{3}(?= \()", " ".join(player.complaints)))
    player.complaints.clear()


async def test_a_run_left_behind_can_be_played_when_too_many_are_open(visit: Any):
    """Somebody who reloads in mid-run, again and again, is not locked out, and the score counts."""
    player = await visit()
    answers = []
    player.page.on(
        "response", lambda answer: answers.append(answer.status) if answer.url.endswith("/runs") else None
    )

    for _ in range(5):
        await begin(player, "Restless")
        await player.page.reload()
    await begin(player, "Restless")
    await player.page.keyboard.press("Escape")
    await ranked(player)

    assert [201] * 5 + [429] == answers
    assert 1 == len(player.complaints)  # the browser's own line for the 429
    player.complaints.clear()


async def test_M07_a_hostile_name_is_shown_as_text(stack: str, visit: Any):
    """Markup in a player's name reaches the board of others, and one's own page, as the characters it is."""
    watcher = await visit(script=NOTE_EVIL)
    async with rivalling(stack, HOSTILE, "Honest") as rivals:
        await asyncio.gather(*(rival.finish() for rival in rivals))
        for name in (HOSTILE, "Honest"):
            await watcher.page.wait_for_selector(f"#board .who:text-is('{name}')")

    own = await visit(script=NOTE_EVIL)
    await begin(own, HOSTILE)
    await own.page.keyboard.press("Escape")
    await ranked(own)

    assert [HOSTILE] == [row["name"] for row in await own.board() if row["isOwn"]]
    for visitor in (watcher, own):
        assert 0 == await visitor.page.locator("img").count()
        assert 0 == await visitor.page.evaluate("window.evils")


async def test_a_change_told_while_the_board_is_read_is_shown(stack: str, visit: Any):
    """An answer that was on its way when a change was pushed does not put the next read off, nor replace it."""
    watcher = await visit()
    await watcher.page.wait_for_selector("#live[data-state=on]")
    held: list[tuple[Any, Any]] = []
    is_held = asyncio.Event()

    async def hold_back(route: Any) -> None:
        held.append((route, await route.fetch()))
        is_held.set()

    await watcher.page.route("**/entries?*", hold_back, times=1)
    async with rivalling(stack, "Sooner", "Later") as (sooner, later):
        await sooner.finish()
        await asyncio.wait_for(is_held.wait(), PATIENCE_MS / 1000)
        await watcher.page.evaluate(LISTEN)
        await later.finish()
        await watcher.page.evaluate("window.heard")
    for route, answer in held:
        await route.fulfill(response=answer)

    await watcher.page.wait_for_selector("#board .who:text-is('Later')", timeout=PUSHED_MS)
    assert {"Sooner", "Later"} <= {row["name"] for row in await watcher.board()}


async def test_M07_a_hostile_problem_is_shown_as_text(visit: Any):
    """Markup in a problem's detail is shown as the characters it is."""
    player = await visit(script=NOTE_EVIL)
    problem = {"type": "https://scoregate.dev/problems/schema-violation", "title": "no", "detail": HOSTILE}
    await player.page.route(
        "**/v1/players",
        lambda route: route.fulfill(status=422, content_type="application/problem+json", json=problem),
    )

    await player.page.fill("#name", "Ada")
    await player.page.click("#play")
    await player.page.wait_for_selector("#message:not([hidden])")

    assert HOSTILE == await player.text("#message")
    assert 0 == await player.page.evaluate("document.images.length + window.evils")
    assert 1 == len(player.complaints)  # the browser's own line for the 422
    player.complaints.clear()


FOREIGN = """async () => {
  const due = ["script-src-elem", "script-src-attr", "style-src-elem", "frame-src", "connect-src", "fetch"];
  const blocked = [], patience = performance.now() + 15000;
  document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
  const script = document.createElement("script");
  script.textContent = "evil()";
  const image = document.createElement("div");
  image.innerHTML = "<img src='/none.png' onerror='evil()'><style>body { display: none }</style>";
  const frame = document.createElement("iframe");
  frame.src = "https://example.org/";
  document.body.append(script, image, frame);
  try { await fetch("https://example.org/"); } catch { blocked.push("fetch"); }
  while (!due.every((each) => blocked.includes(each)) && performance.now() < patience) {
    await new Promise((resume) => setTimeout(resume, 20));
  }
  try { new Function("evil()")(); } catch { blocked.push("eval"); }  // not before: what a debugger calls may evaluate
  return [...new Set(blocked)].sort();
}"""


async def test_M07_the_content_security_policy_holds(visit: Any):
    """Injected scripts, handlers, styles, frames, evaluation and foreign requests are blocked by the browser."""
    visitor = await visit(script=NOTE_EVIL)

    async with visitor.page.expect_console_message(lambda message: "404" in message.text):  # of the image
        blocked = await visitor.page.evaluate(FOREIGN)

    expected = {
        "script-src-elem",
        "script-src-attr",
        "style-src-elem",
        "frame-src",
        "connect-src",
        "eval",
        "fetch",
    }
    assert expected <= set(blocked)
    assert 0 == await visitor.page.evaluate("window.evils")
    visitor.complaints.clear()  # of everything just blocked


@pytest.mark.parametrize(
    "path", ["/arcade/", "/arcade/arcade.js", "/arcade/scoregate/index.js", "/docs", "/docs/signatures"]
)
async def test_M07_every_page_is_sent_with_its_defences(stack: str, path: str):
    """Each page forbids inline code, sniffing and framing."""
    async with aiohttp.ClientSession() as session, session.get(stack + path) as response:
        headers = response.headers

    policy = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
    assert "'self'" == policy["default-src"] == policy["style-src"]
    assert "'self' 'wasm-unsafe-eval'" == policy["script-src"]
    assert "'none'" == policy["frame-ancestors"] == policy["base-uri"]
    assert "nosniff" == headers["X-Content-Type-Options"]


async def test_the_board_can_be_seen_by_day_and_week(stack: str, visit: Any):
    """The windows of the board are a click away, and each shows its own entries."""
    async with rivalling(stack, "Early") as rivals:
        score = await rivals[0].finish()
    visitor = await visit()
    await visitor.page.wait_for_selector("#board .who:text-is('Early')")  # the run has its verdict

    for window in ("daily", "weekly", "alltime"):
        async with visitor.page.expect_response(f"**/entries?window={window}&*") as answer:
            await visitor.page.click(f"[data-window={window}]")
        shown = (await (await answer.value).json())["entries"]
        await visitor.page.wait_for_selector("#board .who:text-is('Early')")
        assert ("Early", score) in [(entry["name"], entry["score"]) for entry in shown]
        assert [entry["name"] for entry in shown] == [row["name"] for row in await visitor.board()]


CARDS = """() => [...document.querySelectorAll("#courses button")].map((card) => ({
  board: card.dataset.board, isChosen: card.getAttribute("aria-pressed") === "true", isFree: !card.closest("[inert]"),
  kicker: card.querySelector(".kicker").textContent, title: card.querySelector(".title").textContent,
  standing: card.querySelector(".standing").textContent }))"""


FADES = (
    "() => ['after', 'before'].map((edge) => document.querySelector('#courses').hasAttribute(`data-${edge}`))"
)


async def edges_that_fade(player: Any, width: int, *, scrolled_px: int = 0) -> tuple[bool, bool]:
    """Whether the strip of courses fades at its right and at its left, in a window of this width."""
    await player.page.set_viewport_size({"width": width, "height": 800})
    await player.page.evaluate(f"document.querySelector('#courses').scrollLeft = {scrolled_px}")
    await player.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))"
    )
    right, left = await player.page.evaluate(FADES)
    return right, left


async def courses_open(stack: str) -> None:
    """Waits until the steward has opened the courses and today's challenge."""

    async def are_open() -> bool:
        lists = [await reader.family_boards(family) for family in ("arcade-course", "daily")]
        return [len(each.boards) for each in lists] >= [5, 1]

    async with ScoregateClient(stack) as reader:
        await until(are_open)


async def test_a_player_chooses_a_course_and_sees_the_rank_on_each(stack: str, visit: Any):
    """The open course, today's challenge and the courses are cards; a run lands on the chosen board alone, and a reload knows."""
    await courses_open(stack)
    player = await visit(script=NOTE_STATUSES)
    await player.page.wait_for_selector("[data-board='arcade-course.free-fall']", timeout=PATIENCE_MS)
    cards = await player.page.evaluate(CARDS)
    daily = cards[1]["board"]
    assert [
        "arcade",
        daily,
        *(f"arcade-course.{name}" for name in ("drift", "narrows", "hail", "flares", "free-fall")),
    ] == [card["board"] for card in cards]
    assert re.fullmatch(r"daily\.\d{4}-\d\d-\d\d", daily)
    assert re.fullmatch(r"Today · (\d+ (h|min) left|ends now)", cards[1]["kicker"])
    assert ("Course 2", "The narrows") == (cards[3]["kicker"], cards[3]["title"])
    levels = ["◆◇◇◇◇", "◆◆◇◇◇", "◆◆◆◇◇", "◆◆◆◆◇", "◆◆◆◆◆"]
    assert ["The classic", "One sky for all", *levels] == [card["standing"] for card in cards]
    assert (True, False) == await edges_that_fade(player, 360), "the third card peeks in"
    assert (False, True) == await edges_that_fade(player, 360, scrolled_px=9999)
    assert (False, False) == await edges_that_fade(player, 1280), "all cards fit"

    await player.page.click("[data-board='arcade-course.narrows']")
    assert ("The narrows", "Waves with hardly a gap") == (
        await player.text("#headline"),
        await player.text("#lead"),
    )
    await expect(player.page.locator("#windows button:visible")).to_have_text(["All time", "This week"])
    await begin(player, "Pilot")
    assert not any(card["isFree"] for card in await player.page.evaluate(CARDS))
    await player.page.click("[data-board='arcade']", force=True)  # a run in progress is left alone
    await player.page.wait_for_selector("#score:text-matches('^[1-9]')")
    await player.page.keyboard.press("Escape")
    await ranked(player)
    await expect(player.page.locator("[data-board='arcade-course.narrows'] .standing")).to_have_text(
        re.compile("^Rank 1 of ")
    )
    async with ScoregateClient(stack) as reader:
        assert ["Pilot"] == [entry.name for entry in (await reader.entries("arcade-course.narrows")).entries]
        assert [] == [entry.name for entry in (await reader.entries("arcade-course.hail")).entries]
    assert "Pilot" not in [name for _, name, _ in await entries(stack)]

    await player.page.click(f"[data-board='{daily}']")
    await expect(player.page.locator("#board li")).to_have_count(0)
    assert (f"?board={daily}", True) == (
        await player.page.evaluate("location.search"),
        await player.page.is_hidden("#windows"),
    )
    await player.page.reload()
    await expect(player.page.locator("[data-board='arcade-course.narrows'] .standing")).to_have_text(
        re.compile("^Rank 1 of ")
    )
    assert [daily] == [card["board"] for card in await player.page.evaluate(CARDS) if card["isChosen"]]
    assert "Daily challenge" == await player.text("#headline")


async def course_list(visitor: Visitor, days: list[dict[str, str]]) -> None:
    """Has a page find no courses, and these boards as the daily challenge's."""
    await visitor.page.route(
        re.compile(r"/v1/families(\?|$)"),
        lambda route: route.fulfill(json={"families": [{"family": "daily"}], "next": None}),
    )
    await visitor.page.route(
        "**/v1/families/daily/boards*", lambda route: route.fulfill(json={"boards": days, "next": None})
    )


async def test_the_challenge_of_the_day_follows_the_one_before(stack: str, visit: Any):
    """Also if it is not open yet when the page looks, and after the run that is on at midnight, whose result stays."""
    await courses_open(stack)
    player = await visit("/docs")
    days: list[dict[str, str]] = []
    await course_list(player, days)
    begin_s = time.time() - 680  # so that no signature comes from the future
    await player.page.clock.install(time=begin_s)
    await player.page.goto("/arcade/")
    await expect(player.page.locator("#courses button")).to_have_count(1)
    await player.page.wait_for_selector("#play:enabled")

    midnight = datetime.fromtimestamp(begin_s + 600, UTC).isoformat()
    days.append({"board": "arcade-course.hail", "closes_at": midnight})
    await player.page.clock.fast_forward(61_000)
    await player.page.click("[data-board='arcade-course.hail']")
    await begin(player, "Owl")
    days[0] = {"board": "arcade-course.drift", "closes_at": "2099-01-01T00:00:00Z"}
    async with player.page.expect_response("**/v1/families/daily/boards*"):
        await player.page.clock.fast_forward(600_000)
    await player.page.wait_for_selector("[data-board='arcade-course.drift']")
    assert "?board=arcade-course.hail" == await player.page.evaluate("location.search"), "its run is on"
    await player.page.keyboard.press("Escape")
    await player.page.wait_for_url("**/arcade/?board=arcade-course.drift")
    assert ["arcade-course.drift"] == [
        card["board"] for card in await player.page.evaluate(CARDS) if card["isChosen"]
    ]
    assert await player.page.is_visible("#result")
    await player.page.wait_for_selector("#status[data-state=rank]", timeout=40_000)


async def test_a_board_that_is_not_listed_has_its_windows_and_the_rank_of_whoever_plays(
    stack: str, visit: Any
):
    """The player's own, not that of the player before, however late the answer comes."""
    await courses_open(stack)
    async with ScoregateClient(stack) as reader:
        newest = (await reader.family_boards("daily", order="newest")).boards
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    today = next(
        board for board in newest if (board.opens_at or "") <= now
    )  # tomorrow's may be there already
    player = await visit("/docs")
    await course_list(player, [])
    asked: list[Any] = []

    async def hold(route: Any) -> None:
        asked.append(route)

    await player.page.route("**/v1/players/*/entries?*", hold)
    old = {"player": "p_old", "name": "Old", "wish": "Old", "token": "none"}
    await player.page.evaluate(f"localStorage.setItem('scoregate.arcade.player', '{json.dumps(old)}')")
    async with player.page.expect_request("**/v1/players/p_old/entries?*") as request:
        await player.page.goto(f"/arcade/?board={today.board}")
    assert f"boards=arcade%2C{today.board}&" in (await request.value).url
    assert await player.page.is_hidden("#windows")
    assert ["alltime", "weekly", "daily"] == await player.page.evaluate(WINDOWS_OF, "constructor")
    await begin(player, "New")
    standing = {"board": "arcade", "rank": 1, "total": 9, "score": 5}
    await asked[0].fulfill(
        json={"entries": [{"board": "arcade", "status": "ranked", "standing": standing}], "player": "p_old"}
    )
    await player.page.evaluate("() => new Promise((done) => setTimeout(done, 100))")
    assert ["The classic"] == [card["standing"] for card in await player.page.evaluate(CARDS)]
