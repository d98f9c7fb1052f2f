"""Pages of other origins: whose they may be, what they may read and send, and how a browser is told so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.edge import preflights
from gateway.edge.admission.early_refusals import refusal
from gateway.edge.admission.shedding import Entrance
from gateway.edge.console.site import CONSOLE_PAGES
from gateway.edge.http import other_origins
from gateway.edge.routes import ROUTES, Caller
from gateway.runtime.settings import Settings, load_settings
from policies.errors import SettingsError
from policies.loader import Policies
from tests.gateway.edge.test_live_websocket import HANDSHAKE
from tests.gateway.edge.test_readers import filled
from tests.support.attack import honest, issued
from tests.support.game import ROOT
from tests.support.harness import Answer, Harness, Request, free_port, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.raw import RawConnection, as_bytes
from tests.support.valkey import ValkeyServer

STUDIO, HOST, STRANGER = "https://play.studio.example", "https://html.itch.zone", "https://evil.example"
ALLOW = "Access-Control-Allow-Origin"


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    """The studio's own origin is allowed everywhere; two boards and a family name others."""
    boards = (
        a_policy("vault", writes="trusted"),
        a_policy("sprint", order="ascending", origins=[HOST]),
        a_policy("open", origins=["*"]),
        a_family("track", origins=["capacitor://localhost"]),
    )
    folder, bind = write_policies(tmp_path / "policies", *boards), f"127.0.0.1:{free_port()}"
    return Settings(
        data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind, origins=(STUDIO,)
    )


@pytest_asyncio.fixture
async def quiet(tmp_path: Path, valkey: ValkeyServer):
    """An edge that allows no other origin."""
    folder = write_policies(tmp_path / "quiet", a_policy("sprint"))
    async with running_harness(
        Settings(
            data_dir=tmp_path / "quiet-data",
            policies_dir=folder,
            redis_url=valkey.url,
            bind=f"127.0.0.1:{free_port()}",
        )
    ) as harness:
        yield harness


async def asked(
    harness: Harness, path: str, origin: str | None, method: str = "GET", **fields: str
) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return await harness.send(Request(method, path, b"", headers | ({"Origin": origin} if origin else {})))


async def preflight(harness: Harness, path: str, origin: str, method: str = "POST", **fields: str) -> Answer:
    fields |= {"Access_Control_Request_Method": method, "Access_Control_Request_Headers": "content-type"}
    return await asked(harness, path, origin, "OPTIONS", **fields)


async def test_each_path_answers_the_origins_of_its_board_and_no_other(harness: Harness):
    """What belongs to no board answers those of each; a rule is an exact text; and nobody is ever allowed credentials."""
    app = "capacitor://localhost"
    readers = {
        "/v1/boards/vault": {STUDIO},
        "/v1/boards/sprint": {STUDIO, HOST},
        "/v1/boards/sprint/entries?limit=5": {STUDIO, HOST},
        "/v1/boards/track.nowhere": {STUDIO, app},
        "/v1/families/track/boards": {STUDIO, app},
    }
    tried = (
        STUDIO,
        HOST,
        app,
        STRANGER,
        "null",
        f"{STUDIO}.evil.example",
        STUDIO.upper(),
        "http://play.studio.example",
    )
    for path, allowed in readers.items():
        for origin in tried:
            answer = await asked(harness, path, origin)
            assert (origin if origin in allowed else None) == answer.headers.get(ALLOW), (path, origin)
            assert "Origin" in answer.headers["Vary"].split(", "), path
            assert "Access-Control-Allow-Credentials" not in answer.headers
        assert ALLOW not in (bare := await asked(harness, path, None)).headers
        assert "Origin" in bare.headers["Vary"].split(", "), path
    for path in ("/v1/boards/open", "/v1/players/x/entries?boards=open", "/v1/friends", "/v1/nothing"):
        for origin in (STRANGER, "null", None):
            answer = await asked(harness, path, origin)
            assert "*" == answer.headers[ALLOW], path
            assert "Origin" not in answer.headers.get("Vary", "")


async def test_moderators_and_the_pages_of_the_edge_answer_no_other_origin(harness: Harness):
    """Not even with `*`: neither an answer nor a refusal nor a preflight of theirs has a field for another origin."""
    moderated = {route.path for route in ROUTES if route.caller in {Caller.MODERATOR, Caller.ACCOUNT}}
    pages = {page.path for page in CONSOLE_PAGES}
    for path in {
        *moderated,
        *pages,
        "/v1/moderation",
        "/v1/moderation?x=1",
        "/openapi.json",
        "/v2/boards/open",
        "//v1/boards/open",
    }:
        assert not harness.edge.origins.of_path(path), path
    for path in (
        "/v1/moderation/session",
        "/v1/moderation/nothing",
        "/console/sign-in",
        "/arcade/",
        "/readyz",
    ):
        for answer in (await asked(harness, path, STUDIO), await preflight(harness, path, STUDIO)):
            assert not [name for name in answer.headers if name.startswith("Access-Control")], path
            assert "Origin" not in answer.headers.get("Vary", ""), path


async def test_a_preflight_is_answered_from_the_table_of_routes(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The methods of players, the fields they send, and for how long that holds; without Redis, the ledger or a limit."""
    monkeypatch.setattr(harness.edge.index.client, "execute_command", None)
    monkeypatch.setattr(harness.edge.ledger, "read", None)
    paths: dict[str, set[str]] = {}
    for route in ROUTES:
        if route.caller in {Caller.ANYONE, Caller.PLAYER, Caller.RUN} and "moderation" not in route.path:
            paths.setdefault(route.path, set()).add(route.method)
    for path, methods in paths.items():
        if not path.startswith("/v1/"):
            continue
        target = path.replace("{board}", "sprint").replace("{", "").replace("}", "")
        answer = await preflight(harness, target, STUDIO)
        assert (204, b"") == (answer.status, answer.raw), path
        assert answer.headers[ALLOW] == (STUDIO if "/sprint" in target or "/families/" in target else "*"), (
            path
        )
        assert "7200" == answer.headers["Access-Control-Max-Age"]
        assert methods == set(answer.headers["Access-Control-Allow-Methods"].split(", ")), path
        allowed = set(answer.headers["Access-Control-Allow-Headers"].split(", "))
        assert {"Authorization", "Content-Type", "Content-Digest", "Signature", "Signature-Input"} <= allowed
    for path in ("/v1/boards/vault/increments", "/v1/boards/vault/removals", "/v1/nothing"):
        answer = await preflight(harness, path, STUDIO)
        assert answer.status in {404, 405}, path
        assert "Access-Control-Allow-Methods" not in answer.headers
    refused = await preflight(harness, "/v1/boards/sprint/scores", STRANGER)
    assert (403, "csrf", None) == (refused.status, refused.problem, refused.headers.get(ALLOW))
    bare = await asked(harness, "/v1/boards/sprint/scores", None, "OPTIONS")
    assert (204, "POST, OPTIONS") == (bare.status, bare.headers["Allow"])


async def test_a_page_of_a_named_origin_alone_reaches_a_private_network(harness: Harness):
    """Who allows every page has not said that every page may look into the network of the edge."""
    private = {"Access_Control_Request_Private_Network": "true"}
    named = await preflight(harness, "/v1/boards/sprint/scores", HOST, **private)
    anybody = await preflight(harness, "/v1/boards/open/scores", STRANGER, **private)
    field = "Access-Control-Allow-Private-Network"
    assert ("true", None) == (named.headers.get(field), anybody.headers.get(field))
    assert field not in (await preflight(harness, "/v1/boards/sprint/scores", HOST)).headers


async def test_a_page_reads_its_refusals_and_every_field_of_an_answer(harness: Harness, quiet: Harness):
    """Also the refusals before a request is parsed. Where nothing is allowed, nothing is said."""
    token = await harness.new_player()
    refused = await asked(harness, "/v1/boards/sprint/runs", HOST, "POST", Authorization=f"Bearer {token}")
    assert (415, HOST) == (refused.status, refused.headers[ALLOW])
    run = issued(harness)
    submitted = honest(harness, run)
    submitted.headers["Origin"] = HOST
    accepted = await harness.send(submitted)
    assert (202, HOST) == (accepted.status, accepted.headers[ALLOW])
    exposed = set(accepted.headers["Access-Control-Expose-Headers"].split(", "))
    sources = [
        file.read_text() for file in (ROOT / "gateway" / "edge").rglob("*.py") if "console" not in file.parts
    ]
    told = set(
        re.findall(
            r'"(ETag|Retry-After|Location|Idempotency-Replayed|RateLimit[A-Za-z-]*|Scoregate-[A-Za-z-]+)"',
            "\n".join(sources),
        )
    )
    assert {"ETag", "Retry-After", "RateLimit", "Scoregate-Window"} <= told <= exposed

    origins = harness.edge.origins
    raw = b"POST /v1/boards/sprint/scores HTTP/1.1\r\nHost: x\r\norigin:  %s \r\nContent-Length: 11\r\n\r\n\r\nOrigin: y"
    early = refusal(origins.fields_of_unparsed(raw % HOST.encode()))
    status, *lines = early.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert (b"HTTP/1.1 503 Service Unavailable", f"{ALLOW}: {HOST}".encode()) == (status, lines[0])
    for data in (
        raw % STRANGER.encode(),
        raw.replace(b"sprint/scores", b"vault") % HOST.encode(),
        raw.replace(b"boards/sprint", b"moderation") % STUDIO.encode(),
        raw.replace(b"origin:  %s \r\n", b"").replace(b"Origin: y", b"Origin: %s\r\n") % HOST.encode(),
    ):
        assert b"" == origins.fields_of_unparsed(data)
    assert b"" == quiet.edge.origins.fields_of_unparsed(raw % STUDIO.encode())
    for answer in (
        await asked(quiet, "/v1/boards/sprint", STUDIO),
        await preflight(quiet, "/v1/players", STUDIO),
    ):
        assert not [name for name in answer.headers if name.startswith("Access-Control") or name == "Vary"]


async def test_F21_a_page_of_another_origin_reads_that_it_came_too_late(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A write that is refused at the door, unparsed, has the fields of any other refusal, and when to come again."""
    monkeypatch.setattr(Entrance, "is_full", lambda _: True)
    late = honest(harness, issued(harness))
    late.headers["Origin"] = HOST
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(late, harness.authority))
        refused = await connection.answer()
    assert (503, HOST) == (refused.status, refused.headers[ALLOW])
    assert "Retry-After" in refused.headers["Access-Control-Expose-Headers"]


async def test_one_kept_page_serves_all_origins(harness: Harness):
    """Under one tag; a copy that is still current is said to be readable as well, and caches hear what it depends on."""
    await filled(harness, 3)
    path = "/v1/boards/vault/entries"
    mine, theirs, bare = [await asked(harness, path, origin) for origin in (STUDIO, STRANGER, None)]
    assert (
        (mine.raw, mine.headers["ETag"])
        == (theirs.raw, theirs.headers["ETag"])
        == (bare.raw, bare.headers["ETag"])
    )
    assert {"Authorization, Origin"} == {answer.headers["Vary"] for answer in (mine, theirs, bare)}
    assert [STUDIO, None, None] == [answer.headers.get(ALLOW) for answer in (mine, theirs, bare)]
    kept = await asked(harness, path, STUDIO, If_None_Match=mine.headers["ETag"])
    assert (304, STUDIO, "Authorization, Origin") == (kept.status, kept.headers[ALLOW], kept.headers["Vary"])


async def test_the_feed_answers_allowed_origins(harness: Harness):
    """By events from the server, and by a WebSocket, which is refused to pages of any other."""
    live = "/v1/boards/sprint/live"
    async with harness.session.get(harness.url + live, headers={"Origin": HOST}) as events:
        assert (200, HOST) == (events.status, events.headers[ALLOW])
    for origin in (STUDIO, HOST, f"http://{harness.authority}"):
        async with harness.session.ws_connect(harness.url + live + "/websocket", headers={"Origin": origin}):
            pass
    async with harness.session.ws_connect(
        f"{harness.url}/v1/boards/open/live/websocket", headers={"Origin": "null"}
    ):
        pass
    for origin in (STRANGER, "null", "capacitor://localhost"):
        refused = await asked(
            harness, f"{live}/websocket", origin, **{n.replace("-", "_"): v for n, v in HANDSHAKE.items()}
        )
        assert (403, "csrf") == (refused.status, refused.problem), origin


async def test_a_reload_changes_who_is_allowed(harness: Harness, tmp_path: Path):
    """The tables are made once for the policies in force, and again for others."""
    origins, before = harness.edge.origins, harness.edge.catalogue.policies
    assert origins.allows("/v1/boards/sprint", HOST)
    boards = {name: board for name, board in before.boards.items() if name not in {"sprint", "open"}}
    harness.edge.catalogue.replace(Policies(boards, before.families))
    assert not origins.allows("/v1/boards/sprint", HOST)
    assert {STUDIO, "capacitor://localhost"} == origins.of_path("/v1/players")


def test_origins_are_written_as_browsers_send_them(monkeypatch: pytest.MonkeyPatch):
    """Anything else would never match, and is refused with what is expected."""
    good = "https://a.example,http://localhost:5173,capacitor://localhost,http://[::1]:8000,https://xn--bcher-kva.example"
    monkeypatch.setenv("SCOREGATE_ORIGINS", good)
    assert tuple(good.split(",")) == load_settings().origins
    monkeypatch.setenv("SCOREGATE_ORIGINS", "*")
    assert ("*",) == load_settings().origins
    wrong = (
        "https://a.example/", "https://a.example/game", "https://A.example", "a.example", "https://*.example",
        "https://a.example:443", "http://a.example:80", "null", "*,https://a.example", "https://b\u00fccher.example",
        "https://a.example\r\nX: y", "https://u@a.example", "https://a.example:99999999",
    )  # fmt: skip
    for text in wrong:
        monkeypatch.setenv("SCOREGATE_ORIGINS", text)
        with pytest.raises(SettingsError, match=r"^SCOREGATE_ORIGINS.*: "):
            load_settings()


def test_what_is_said_of_the_fields_is_a_list_of_names():
    for text in (other_origins.EXPOSED, preflights.ACCEPTED):
        names = text.split(", ")
        assert sorted(set(names)) == names
