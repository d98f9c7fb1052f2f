"""A player page that has been broken into: it can draw what it likes, and reaches nothing of the console around it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Dialog, Route, expect

from tests.browser.test_playback import Watch, loaded, player_frames, press, watch, watched
from tests.support.thorough import thoroughly

__all__ = ["watch"]

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

ALERT = ".playback-place [role=alert]"

CONVERSATION = """<!doctype html><title>player</title><h1>Approve</h1><script>
addEventListener("message", ({ data, ports: [port] }) => {
  if (data?.scoregate !== "welcome") return;
  window.heard = (window.heard ?? 0) + 1;
  const loaded = { type: "loaded", result: null, checkpoints: null };
  const state = { type: "state", tick: 1, score: 1, over: false, playing: false };
  port.onmessage = ({ data: said }) => { if (said.type === "load") { window.load = said; %s } };
});
parent.postMessage({ scoregate: "hello", versions: %s }, "*");
</script>"""

ATTEMPTS = """
port.postMessage(loaded); port.postMessage(state);
const tried = window.tried = {};
const attempt = (name, what) => { try { tried[name] = String(what()); } catch (error) { tried[name] = error.name; } };
attempt("document", () => parent.document.title);
attempt("address", () => parent.location.href);
attempt("top", () => { top.location.href = "/watching/evil"; });
attempt("cookies", () => document.cookie);
attempt("storage", () => localStorage.length);
attempt("window", () => open("/watching/evil"));
attempt("alert", () => alert("evil"));
attempt("confirm", () => confirm("evil"));
attempt("origin", () => self.origin);
attempt("form", () => { const form = document.body.appendChild(document.createElement("form")); form.action = "/watching/evil"; form.target = "_top"; form.submit(); });
attempt("download", () => { const link = document.body.appendChild(document.createElement("a")); link.href = "data:,evil"; link.download = "evil"; link.click(); });
attempt("focus", () => { const field = document.body.appendChild(document.createElement("input")); field.autofocus = true; window.focus(); field.focus(); });
for (const message of ["approve", { scoregate: "hello", versions: [1] }, { scoregate: "decide", decision: "approve" }]) parent.postMessage(message, "*");
addEventListener("pointerdown", () => { tried.pointer = true; });
addEventListener("keydown", () => { tried.key = true; });
Promise.allSettled([fetch("/v1/boards"), fetch("/arcade/arcade.js"), fetch("/v1/moderation/x", { credentials: "include" })])
  .then((all) => { tried.reads = all.map(({ status }) => status).join(); });
"""

BREACHES = {
    "flood": ("port.postMessage(loaded); for (let i = 0; i < 4000; i += 1) port.postMessage(state);", "sends too much"),
    "future": ("port.postMessage(loaded); port.postMessage({ ...state, tick: 1e9 });", "a tick that the run does not have"),
    "before": ("port.postMessage(loaded); port.postMessage({ ...state, tick: -1 });", "a tick that the run does not have"),
    "fraction": ("port.postMessage(loaded); port.postMessage({ ...state, score: 0.5 });", "no whole number"),
    "huge": ("port.postMessage(loaded); port.postMessage({ ...state, score: 2 ** 53 });", "no whole number"),
    "text": ("port.postMessage(loaded); port.postMessage({ ...state, score: '1' });", "no whole number"),
    "early": ("port.postMessage(state);", "breaks the protocol"),
    "twice": ("port.postMessage(loaded); port.postMessage(loaded);", "breaks the protocol"),
    "unknown": ("port.postMessage(loaded); port.postMessage({ type: 'approve' });", "breaks the protocol"),
    "nothing": ("port.postMessage(null);", "breaks the protocol"),
    "stats": (
        "port.postMessage({ ...loaded, result: { score: 1, ticks: 1, over: true, stats: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`s${i}`, 1])) } });",
        "statistics that no board has",
    ),
    "names": (
        "port.postMessage({ ...loaded, result: { score: 1, ticks: 1, over: true, stats: { '<b>': 1 } } });",
        "statistics that no board has",
    ),
    "hashes": ("port.postMessage({ ...loaded, checkpoints: new ArrayBuffer(8e6) });", "checkpoints that the run does not have"),
    "markup": ("port.postMessage({ type: 'error', message: '<img src=x onerror=evil()>' + 'x'.repeat(500) });", "<img src=x onerror=evil()>"),
    "object": ("port.postMessage({ type: 'error', message: { toString: 1 } });", "it gives no reason"),
}  # fmt: skip


OF_EACH_KIND = ("flood", "future", "fraction", "early", "names", "hashes", "markup")
"""One of each kind, which an ordinary run tries."""


def hostile(attack: str, versions: str = "[1]") -> str:
    return CONVERSATION % (attack, versions)


async def test_M07_a_hostile_player_reaches_nothing_of_the_console(watch: Watch):
    """Neither document, address, cookies, storage nor answers of the API; no pop-up, dialog, download, click, key or focus."""
    run = watched().with_playback(page="/watching/hostile.html")
    moderator = await watch(run, complains=True, pages={"hostile.html": hostile(ATTEMPTS)})
    page = moderator.page
    dialogs: list[str] = []

    async def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", dismiss)
    downloads: list[Any] = []
    page.on("download", lambda download: downloads.append(download.url))
    await loaded(page)
    [frame] = player_frames(page)
    await frame.wait_for_function("window.tried?.reads")
    box = await page.locator(".playback-place").last.bounding_box()
    await page.mouse.click(box["x"] + 40, box["y"] + 40)
    await page.locator(".playback-seek").focus()
    await press(moderator, "Play")
    await page.keyboard.press("a")

    tried = await frame.evaluate("window.tried")
    denied = {name: tried.pop(name) for name in ("document", "address", "cookies", "storage")}
    assert dict.fromkeys(denied, "SecurityError") == denied
    assert "rejected,rejected,rejected" == tried["reads"]
    assert ("null", "null", "false") == (tried["window"], tried["origin"], tried["confirm"])
    assert {"pointer", "key"}.isdisjoint(tried)
    assert not await page.evaluate("document.activeElement instanceof HTMLIFrameElement")
    assert (1, [], []) == (len(page.context.pages), dialogs, downloads)
    assert ("A run", True) == (await page.title(), page.url.endswith("/watching/"))
    assert 1 == await frame.evaluate("window.heard")


async def test_M07_a_player_page_gets_the_run_and_nothing_about_the_player(watch: Watch):
    """Seed, parameters and inputs, which it needs; no name, no claimed score, no finding, no case."""
    run = watched().with_playback(
        page="/watching/hostile.html", parameters='{"gap":60}', asset_url="/watching/map"
    )
    moderator = await watch(
        run,
        complains=True,
        pages={"hostile.html": hostile("port.postMessage(loaded); port.postMessage(state);"), "map": "a map"},
    )
    await loaded(moderator.page)
    [frame] = player_frames(moderator.page)
    assert ["asset", "inputs", "recording", "run", "type"] == sorted(
        await frame.evaluate("Object.keys(window.load)")
    )
    assert {
        "board": "arcade",
        "build": "arcade-1",
        "simulator": run.playback["simulator"],
        "seed": run.playback["seed"],
        "parameters": '{"gap":60}',
        "ticks": run.run.ticks,
        "ticks_per_second": 60,
        "checkpoint_ticks": 60,
        "buttons": run.playback["buttons"],
    } == await frame.evaluate("window.load.run")
    assert list(b"a map") == await frame.evaluate("[...new Uint8Array(window.load.asset)]")
    assert run.run.inputs == await frame.evaluate("[...new Uint32Array(window.load.inputs)]")
    assert list(run.recording) == await frame.evaluate("[...new Uint8Array(window.load.recording)]")


@pytest.mark.parametrize("name", [*OF_EACH_KIND, *thoroughly(*sorted(BREACHES.keys() - {*OF_EACH_KIND}))])
async def test_M07_what_breaks_the_protocol_ends_the_page(watch: Watch, name: str):
    """An error stands in its place, as text; the frame is gone and the controls do nothing."""
    attack, told = BREACHES[name]
    run = watched().with_playback(page="/watching/hostile.html")
    moderator = await watch(run, pages={"hostile.html": hostile(attack)})
    await expect(moderator.page.locator(ALERT)).to_contain_text(told)
    assert len(await moderator.text(ALERT)) < 260
    assert [] == player_frames(moderator.page)
    assert 0 == await moderator.page.locator(".playback-controls :enabled, .playback img").count()


async def test_M07_a_page_that_leads_elsewhere_or_says_nothing_is_given_up(watch: Watch):
    """The frame cannot leave the policy's origin; a silent page, and one of another version, end with a word."""
    elsewhere: list[str] = []
    leaving = "port.postMessage(loaded); port.onmessage = () => { location.href = 'http://evil.example/'; };"
    moderator = await watch(
        watched().with_playback(page="/watching/hostile.html"),
        complains=True,
        pages={"hostile.html": hostile(leaving)},
    )

    async def note(route: Route) -> None:
        elsewhere.append(route.request.url)
        await route.abort()

    await moderator.page.context.route("http://evil.example/**", note)
    async with moderator.page.expect_console_message(lambda message: "frame-src" in message.text):
        await loaded(moderator.page)
        await press(moderator, "Play")
    assert [] == elsewhere

    other = await watch(
        watched().with_playback(page="/watching/hostile.html"),
        pages={"hostile.html": hostile("", versions="[2]")},
    )
    await expect(other.page.locator(ALERT)).to_contain_text("no version of the protocol")

    silent = await watch(
        watched().with_playback(page="/watching/silent.html"), pages={"silent.html": "<title>x</title>"}
    )
    await expect(silent.page.locator("iframe")).to_have_count(1)
    await silent.page.clock.install()
    await silent.page.reload()
    await expect(silent.page.locator("iframe")).to_have_count(1)
    await silent.page.clock.run_for(21_000)
    await expect(silent.page.locator(ALERT)).to_contain_text("does not answer")
