"""The fields of answers: how long each may be kept and by whom, what a browser may do with it, and where it leads."""

from __future__ import annotations

import pytest
from yarl import URL

from gateway.runtime.settings import Settings
from tests.gateway.edge.test_readers import filled
from tests.support.attack import honest, issued
from tests.support.game import ROOT
from tests.support.harness import Answer, Harness, Request, running_harness
from tests.support.raw import RawConnection, exchange

PAGE = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
PAGES = {
    "/": "text/html; charset=utf-8",
    "/docs": "text/html; charset=utf-8",
    "/docs/settings": "text/html; charset=utf-8",
    "/docs/reference.css": "text/css; charset=utf-8",
    "/docs/icon.svg": "image/svg+xml",
    "/openapi.json": "application/json",
    "/arcade/": "text/html; charset=utf-8",
    "/arcade/index.html": "text/html; charset=utf-8",
    "/arcade/scoregate/index.js": "text/javascript; charset=utf-8",
}


async def test_pages_let_a_browser_do_what_they_need_and_no_more(harness: Harness):
    """Nothing of others runs in them, frames them or learns where a reader came from; and they are asked for again."""
    for path, kind in PAGES.items():
        answer = await harness.get(path)
        assert (200, kind) == (answer.status, answer.headers["Content-Type"]), path
        assert PAGE == {name: answer.headers.get(name) for name in PAGE}, path
    async with harness.session.get(f"{harness.url}/arcade", allow_redirects=False) as moved:
        assert (302, "/arcade/") == (moved.status, moved.headers["Location"])


async def test_the_player_page_is_framed_by_this_edge_and_reads_four_files(harness: Harness):
    """Its origin is opaque even when it is opened by itself; nothing but its own modules and the game can be read from there."""
    player = await harness.get("/arcade/playback.html")
    policy = player.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "frame-ancestors 'self'", "sandbox allow-scripts"} <= set(policy)
    assert "connect-src 'self'" in policy
    shared = {"playback.js", "game.js", "scene.js", "arcade.wasm"}
    files = {
        path.name
        for path in (ROOT / "examples" / "arcade").iterdir()
        if path.suffix in {".js", ".html", ".css", ".wasm"}
    }
    for path in (
        *(f"/arcade/{name}" for name in sorted(files)),
        "/arcade/",
        "/",
        "/docs",
        "/v1/boards",
        "/livez",
    ):
        answer = await harness.send(Request("GET", path, b"", {"Origin": "null"}))
        allowed = "*" if path.removeprefix("/arcade/") in shared else None
        assert (200, allowed) == (answer.status, answer.headers.get("Access-Control-Allow-Origin")), path


async def test_what_is_not_said_to_be_public_is_kept_by_nobody(harness: Harness):
    """Tokens and keys, what is one player's, what is derived, health and refusals; and each is what it says that it is."""
    token = await harness.new_player()
    run = await harness.open_run(token, "sprint")
    submitted = await harness.send(honest(harness, issued(harness)))
    answers: dict[str, Answer] = {
        "player": await harness.post("/v1/players", {"name": "Bo"}),
        "run": await harness.post("/v1/boards/sprint/runs", {"build": "b"}, token),
        "submitted": submitted,
        "submission": await harness.get(f"/v1/submissions/{run.id}", token),
        "reveals": await harness.get("/v1/reveals", token),
        "friends": await harness.get("/v1/friends", token),
        "statistics": await harness.get("/v1/boards/sprint/statistics"),
        "trending": await harness.get("/v1/boards/sprint/trending"),
        "achievements": await harness.get("/v1/players/ada/achievements"),
        "livez": await harness.get("/livez"),
        "readyz": await harness.get("/readyz"),
        "nothing": await harness.get("/v1/nothing"),
        "no board": await harness.get("/v1/boards/nothing/entries"),
        "no token": await harness.get("/v1/friends"),
    }
    for name, answer in answers.items():
        assert "no-store" in answer.headers["Cache-Control"], name
        assert "nosniff" == answer.headers["X-Content-Type-Options"], name
        kind = "application/problem+json" if answer.status >= 400 else "application/json; charset=utf-8"
        assert kind == answer.headers["Content-Type"], name
    assert "private, no-store" == answers["reveals"].headers["Cache-Control"]


async def test_what_is_public_may_be_kept_and_asked_about(harness: Harness):
    """By anybody, as long as they ask each time whether it still holds: who has it is told so, and sent nothing."""
    await filled(harness, 2)
    for path in (
        "",
        "/vault",
        "/vault/windows",
        "/vault/details?submissions=x",
        "/vault/entries",
        "/vault/entries?players=p1,p2",
        "/vault/entries/p1",
        "/vault/entries/p1/around",
        "/vault/percentiles",
        "/vault/distribution",
    ):
        url = f"/v1/boards{path}"
        first = await harness.get(url)
        assert (200, "public, max-age=0, must-revalidate") == (
            first.status,
            first.headers["Cache-Control"],
        ), path
        again = await harness.send(Request("GET", url, b"", {"If-None-Match": first.headers["ETag"]}))
        assert (304, b"", first.headers["ETag"]) == (again.status, again.raw, again.headers["ETag"]), path
        other = await harness.send(Request("GET", url, b"", {"If-None-Match": '"other"'}))
        assert (200, first.raw) == (other.status, other.raw), path


async def test_a_feed_is_passed_on_as_it_comes(harness: Harness):
    """No cache keeps it, and no proxy gathers it: a listener behind one would hear nothing for long."""
    async with harness.session.get(f"{harness.url}/v1/boards/sprint/live") as feed:
        assert (200, "text/event-stream", "no-store", "no", "nosniff") == (
            feed.status,
            *(
                feed.headers.get(name)
                for name in (
                    "Content-Type",
                    "Cache-Control",
                    "X-Accel-Buffering",
                    "X-Content-Type-Options",
                )
            ),
        )
        assert b"retry: 2000\n" == await feed.content.readline()


async def test_a_host_is_the_same_in_capitals(harness: Harness):
    """Names of hosts have no case (RFC 9110, section 4.2.3): a proxy may write them as it likes."""
    port = harness.authority.rpartition(":")[2]
    for host, status in ((f"LocalHost:{port}", 200), (f"localhost.:{port}", 421)):
        async with harness.session.get(f"{harness.url}/livez", headers={"Host": host}) as answer:
            assert status == answer.status, host


async def test_a_refused_target_is_told_what_is_served(harness: Harness):
    """The host that came, where the paths are listed, and the methods of the path."""
    served, other = harness.authority, "x" * 70
    for method, path, host, status, detail in (
        ("GET", "/livez", other, 421, f"'{'x' * 64}' is not in SCOREGATE_HOSTS"),
        ("GET", "/nothing", served, 404, "no such path; see /docs"),
        ("GET", "/v1/%2e", served, 404, "no such path; see /docs"),
        ("POST", "/livez", served, 405, "expected GET, HEAD"),
    ):
        url = URL(harness.url + path, encoded=True)
        async with harness.session.request(method, url, headers={"Host": host}) as answer:
            assert (status, detail) == (answer.status, (await answer.json())["detail"])


async def test_an_edge_that_ends_asks_each_client_to_connect_elsewhere(harness: Harness):
    """Answers and refusals alike close their connection, so that no balancer sends another request down it."""
    fields = {}
    for is_ending in (False, True):
        harness.edge.shutdown.has_begun = is_ending
        fields[is_ending] = [
            (await harness.get(path)).headers.get("Connection") for path in ("/livez", "/v1/nothing", "/")
        ]
    assert {False: [None] * 3, True: ["close"] * 3} == fields


@pytest.mark.parametrize(
    ("line", "length", "status"),
    [
        ("POST /v1/players", 9_999, 413),
        ("POST /v1/players", 20, 408),
        ("PUT /v1/friends/bob", 20, 401),
        ("GET /livez", 20, 200),
    ],
)
async def test_an_answer_before_the_end_of_a_body_ends_its_connection(
    settings: Settings, line: str, length: int, status: int
):
    """What is left of the body would else be read as the next request. A whole body ends nothing."""
    fields = "Content-Type: application/json\r\nContent-Length"
    async with running_harness(settings.model_copy(update={"body_timeout_s": 0.2})) as harness:
        head = f"{line} HTTP/1.1\r\nHost: {harness.authority}\r\n{fields}: {length}\r\n\r\n".encode()
        async with RawConnection(harness.authority) as connection:
            await connection.send(head)
            answer = await connection.answer()
            assert (status, "close") == (answer.status, answer.headers.get("Connection"))
        if length == 20:
            whole = await exchange(harness.authority, head + b"x" * length)
            assert "Connection" not in whole.headers
