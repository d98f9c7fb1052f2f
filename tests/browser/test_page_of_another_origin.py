"""A game on another origin, in a real browser: it plays, reads and listens where its origin is allowed, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Browser

from gateway.runtime.settings import Settings
from tests.browser.conftest import PATIENCE_MS, SMALL
from tests.gateway.edge.test_live_feed import write
from tests.support.attack import registered
from tests.support.game import ROOT
from tests.support.harness import Harness, free_port, running_harness
from tests.support.policies import a_policy, write_policies
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="package")]

PLAY = """async (edge) => {
  const { Scoregate } = await import("/scoregate/index.js");
  const game = new Scoregate(edge);
  const { player } = await game.createPlayer("Ada");
  const run = await game.openRun("sprint", "b-1");
  const receipt = await game.submit(run, { score: 120, ticks: 60, stats: {} });
  const state = (await game.submission(receipt.submission)).state;
  const page = await fetch(`${edge}/v1/boards/vault/entries`);
  const refused = await fetch(`${edge}/v1/boards/sprint/runs`, { method: "POST", body: "{}",
    headers: { "Content-Type": "application/json", Authorization: "Bearer no" } });
  return { origin, isPlayer: run.player === player, state, tag: Boolean(page.headers.get("ETag")),
    total: (await page.json()).total, refused: [refused.status, (await refused.json()).title] };
}"""

LISTEN = """(edge) => {
  const live = `${edge}/v1/boards/vault/live`, told = (window.told = {});
  const events = new EventSource(live);
  events.addEventListener("standing", ({ data }) => { told.events ??= JSON.parse(data).score; });
  const socket = new WebSocket(live.replace("http", "ws") + "/websocket", ["scoregate.v1"]);
  socket.onmessage = ({ data }) => {
    const { event, data: change } = JSON.parse(data);
    if (event === "standing") told.socket ??= change.score;
  };
  const open = (source, name) => new Promise((done) => source.addEventListener(name, done));
  return Promise.all([open(events, "open"), open(socket, "message")]).then(() => true);
}"""

TRY = """async (edge) => {
  const tried = {}, json = { "Content-Type": "application/json" };
  const attempt = async (name, path, request) => {
    tried[name] = await fetch(edge + path, request).then(({ status }) => status, (error) => error.name);
  };
  await attempt("moderation", "/v1/moderation/session");
  await attempt("a login", "/v1/moderation/session", { method: "POST", headers: json, body: "{}" });
  await attempt("the console", "/console/sign-in");
  await attempt("cookies", "/v1/boards/vault/entries", { credentials: "include" });
  await attempt("a server's write", "/v1/boards/vault/removals", { method: "POST", headers: json, body: "{}" });
  await attempt("the other board", "/v1/boards/closed");
  tried["the other feed"] = await new Promise((done) => {
    const socket = new WebSocket(edge.replace("http", "ws") + "/v1/boards/closed/live/websocket");
    socket.onopen = () => done("open");
    socket.onerror = () => done("error");
  });
  return tried;
}"""


async def test_a_page_of_another_origin_plays_where_its_origin_is_allowed(
    browser: Browser, tmp_path: Path, valkey_server: ValkeyServer
):
    """It submits, reads its state, a page and a refusal, and listens both ways; what is not for it stays closed."""
    with valkey_server.client() as client:
        client.flushall()
    site_port = free_port()
    origin = f"http://localhost:{site_port}"
    boards = [
        a_policy("sprint", origins=[origin]),
        a_policy("vault", writes="trusted", origins=[origin]),
        a_policy("closed"),
    ]
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", *boards),
        redis_url=valkey_server.url,
        bind=f"127.0.0.1:{free_port()}",
    )
    async with running_harness(settings) as harness:
        async with TestServer(site(), host="localhost", port=site_port):
            await play(browser, harness, origin)


def site() -> web.Application:
    """A studio's site: the client, and a page that does nothing yet."""
    app = web.Application()

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>game</title>", content_type="text/html")

    app.router.add_get("/", page)
    app.router.add_static("/scoregate", ROOT / "clients" / "javascript" / "src")
    return app


async def play(browser: Browser, harness: Harness, origin: str) -> None:
    async with await browser.new_context(viewport=SMALL) as window:
        page = await window.new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(f"{origin}/")
        private, edge = await registered(harness), harness.url
        await write(harness, private, 5, "bob")
        assert {
            "origin": origin, "isPlayer": True, "state": "held", "tag": True, "total": 1,
            "refused": [401, "The bearer token is missing or does not verify"],
        } == await page.evaluate(PLAY, edge)  # fmt: skip
        assert await page.evaluate(LISTEN, edge)
        await write(harness, private, 7, "bob")
        await page.wait_for_function("told.events === 7 && told.socket === 7")
        closed = dict.fromkeys(
            ("moderation", "a login", "the console", "cookies", "a server's write", "the other board"),
            "TypeError",
        )
        assert closed | {"the other feed": "error"} == await page.evaluate(TRY, edge)
