"""The live feed by WebSocket: the same events, resumed by `after`; who says anything, or comes from elsewhere, is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from gateway.edge.live import heartbeats
from gateway.edge.live import websocket as live_websocket
from gateway.index.feed import listener
from gateway.index.feed.listener import FeedEnd
from gateway.runtime.settings import Settings
from tests.gateway.edge.test_live_feed import write
from tests.support.attack import registered, until
from tests.support.feeds import add, entry, listeners_of, sse, websocket
from tests.support.harness import Harness, Request, running_harness
from tests.support.metrics import metric
from tests.support.raw import RawConnection

PATH = "/v1/boards/vault/live/websocket"

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
}


async def test_a_websocket_is_told_what_an_event_stream_is(harness: Harness):
    """The same events with the same ids and members."""
    private = await registered(harness)
    await write(harness, private, 5, "bob")
    query = "window=alltime&players=ada,bob"
    async with websocket(harness, query) as socket, sse(harness, query) as stream:
        await write(harness, private, 9)
        for _ in range(3):
            assert await stream.event() == await socket.event()


async def test_a_websocket_that_comes_back_misses_nothing(harness: Harness):
    """From the id it had last, `after` gives everything since; an id that is gone gives `reset`."""
    private = await registered(harness)
    async with websocket(harness) as socket:
        await write(harness, private, 1)
        last = (await socket.event()).id
    for score in (2, 3):
        await write(harness, private, score)
    async with websocket(harness, f"window=alltime&after={last}") as again:
        assert [2, 3] == await again.scores(2)
        await write(harness, private, 4)
        assert [4] == await again.scores(1)
    async with websocket(harness, "after=1-0") as late:
        assert "reset" == (await late.event()).kind


async def test_a_browser_shows_its_token_as_a_subprotocol(harness: Harness):
    """`bearer.<token>` beside `scoregate.v1`, of which the latter alone is spoken; a native client has a header."""
    private = await registered(harness)
    token = await harness.new_player()
    await harness.send(Request("PUT", "/v1/friends/bob", b"", {"Authorization": f"Bearer {token}"}))
    query = "window=alltime&friends=true"
    shown: tuple[dict[str, Any], ...] = (
        {"protocols": ("scoregate.v1", f"bearer.{token}")},
        {"headers": {"Authorization": f"Bearer {token}"}},
    )
    for score, how in enumerate(shown, start=1):
        async with websocket(harness, query, **how) as socket:
            assert ("scoregate.v1" if "protocols" in how else None) == socket.socket.protocol
            await write(harness, private, score, "eve")
            await write(harness, private, score, "bob")
            assert "bob" == (await socket.event()).data["player"]
    for protocols in (
        (),
        ("scoregate.v1",),
        ("scoregate.v1", "bearer.x"),
        ("scoregate.v1", f"bearer.{harness.moderator()}"),
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with websocket(harness, query, protocols=protocols):
                pass
        assert refused.value.status == (403 if len(protocols) == 2 and protocols[1] != "bearer.x" else 401)


async def test_M06_a_page_of_another_site_opens_no_websocket(harness: Harness):
    """Browsers let every page open a WebSocket anywhere: its `Origin` has to be one of ours, and a program has none."""
    own = f"http://{harness.authority}"
    async with websocket(harness, headers={"Origin": own}):
        pass
    for origin in (
        "https://evil.example",
        "null",
        "",
        f"{own}.evil.example",
        f"https://evil@{harness.authority}",
        f"ftp://{harness.authority}",
        "http://[",
        "http://\u00e9",
    ):
        answer = await harness.send(Request("GET", PATH, b"", HANDSHAKE | {"Origin": origin}))
        assert (403, "csrf") == (answer.status, answer.problem), origin


async def test_what_is_no_handshake_is_refused(harness: Harness):
    """A plain GET, an old version, and subprotocols of which we speak none."""
    for headers in (
        {},
        HANDSHAKE | {"Sec-WebSocket-Version": "6"},
        HANDSHAKE | {"Sec-WebSocket-Key": "\u00ff" * 24},
        HANDSHAKE | {"Sec-WebSocket-Key": "short"},
        HANDSHAKE | {"Sec-WebSocket-Protocol": "chat"},
        HANDSHAKE | {"Sec-WebSocket-Protocol": "bearer.secret"},
    ):
        answer = await harness.send(Request("GET", PATH, b"", headers))
        assert (400, "malformed-request") == (answer.status, answer.problem)


@pytest.mark.parametrize(
    ("say", "code"),
    [
        (lambda socket: socket.send_str("hello"), aiohttp.WSCloseCode.POLICY_VIOLATION),
        (lambda socket: socket.send_bytes(b"\x00"), aiohttp.WSCloseCode.POLICY_VIOLATION),
        (lambda socket: socket.send_str("x" * 5000), aiohttp.WSCloseCode.MESSAGE_TOO_BIG),
    ],
)
async def test_who_says_anything_is_closed(harness: Harness, say: Any, code: int):
    """A listener only listens; a long message is not even read."""
    async with websocket(harness) as socket:
        await say(socket.socket)
        assert code == await socket.close_code()
    if code == aiohttp.WSCloseCode.POLICY_VIOLATION:
        assert "listeners must not send messages" == socket.reason


ENDS = {
    FeedEnd.BEHIND: aiohttp.WSCloseCode.TRY_AGAIN_LATER,
    FeedEnd.UNKNOWN_PAST: aiohttp.WSCloseCode.TRY_AGAIN_LATER,
    FeedEnd.RELEASED: aiohttp.WSCloseCode.GOING_AWAY,
    FeedEnd.DELETED: aiohttp.WSCloseCode.OK,
    FeedEnd.UNAUTHORIZED: aiohttp.WSCloseCode.POLICY_VIOLATION,
    FeedEnd.REBUILDING: aiohttp.WSCloseCode.TRY_AGAIN_LATER,
}


async def test_each_end_of_a_feed_has_its_code_and_says_why(harness: Harness):
    """A client knows by the code whether to come back here or elsewhere; who reads the reason knows what happened."""
    told = {}
    for end in FeedEnd:
        async with websocket(harness) as socket:
            [listener_here] = listeners_of(harness)
            listener_here.let_go(end)
            told[end] = (await socket.close_code(), socket.reason)
    assert {end: (code, end.value) for end, code in ENDS.items()} == told


async def test_a_websocket_is_not_compressed_though_a_client_offers_it(harness: Harness):
    """Each listener would hold a window of the compression, some hundred kilobytes, for as long as it listens."""
    async with websocket(harness, compress=15) as socket:
        assert 0 == socket.socket.compress


async def test_a_client_that_answers_no_ping_is_let_go(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """One whose machine is gone closes nothing: it would hold its seat until something is to be sent."""
    monkeypatch.setattr(live_websocket, "HEARTBEAT_S", 0.2)
    async with websocket(harness, autoping=False) as dead:
        assert aiohttp.WSMsgType.PING == (await dead.socket.receive(20)).type

        async def is_gone() -> bool:
            return harness.edge.live.listeners("vault") == 0

        await until(is_gone, within_s=20)


async def test_a_slow_websocket_is_told_to_come_again(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Who fell too far behind is closed with 1013, and resumes with the id of the last event that it had."""
    monkeypatch.setattr(listener, "LISTENER_LIMIT", 2)
    client = harness.edge.index.client
    async with websocket(harness) as socket:
        async with client.pipeline() as pipe:
            for number in range(1, 9):
                pipe.xadd("lb:{33}:changes", entry("ada", number))
            await pipe.execute()
        assert aiohttp.WSCloseCode.TRY_AGAIN_LATER == await socket.close_code()
    assert [] != await add(client, entry("ada", 9))


async def test_a_websocket_that_takes_nothing_is_cut_off(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Its connection is aborted after a while, with what it did not take, and its place is free."""
    monkeypatch.setattr(heartbeats, "STALLED_S", 0.2)
    monkeypatch.setattr(live_websocket, "as_message", lambda _event: "x" * 500_000)
    handshake = "\r\n".join(f"{name}: {value}" for name, value in HANDSHAKE.items())
    async with RawConnection(harness.authority) as deaf:
        await deaf.send(f"GET {PATH} HTTP/1.1\r\nHost: {harness.authority}\r\n{handshake}\r\n\r\n".encode())
        assert b"101" in await deaf.line()

        async def is_here() -> bool:
            return harness.edge.live.listeners("vault") == 1

        async def is_gone() -> bool:
            return not await is_here()

        await until(is_here, within_s=20)
        await add(harness.edge.index.client, *(entry("ada", number) for number in range(1, 60)))
        await until(is_gone, within_s=20)


async def test_listeners_are_counted_and_let_go_at_the_end(settings: Settings):
    """The gauge tells them apart; an edge that ends closes with 1001, and does not wait for who does not answer."""

    def open_ones(transport: str) -> float:
        return metric("scoregate_live_listeners", transport=transport)

    before = open_ones("websocket"), open_ones("sse")
    async with running_harness(settings) as harness:
        async with websocket(harness) as socket, sse(harness):
            assert (before[0] + 1, before[1] + 1) == (open_ones("websocket"), open_ones("sse"))
            harness.edge.live.release()
            assert aiohttp.WSCloseCode.GOING_AWAY == await socket.close_code()

        async def are_gone() -> bool:
            return before == (open_ones("websocket"), open_ones("sse"))

        await until(are_gone, within_s=20)


async def test_a_websocket_counts_as_a_connection_of_its_address(settings: Settings):
    """The cap on connections of an address holds for listeners as for all others."""
    async with running_harness(settings.model_copy(update={"connections_per_address": 1})) as harness:
        async with websocket(harness):
            async with RawConnection(harness.authority) as second:
                assert await second.is_closed()


async def test_a_heartbeat_tells_where_to_resume(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Who is told nothing for long, because nothing concerns it, is told the id it would resume from."""
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", 0.02)
    private = await registered(harness)
    async with websocket(harness, "window=alltime&players=bob&events=standing") as socket:
        await write(harness, private, 1)
        [(newest, _)] = await harness.edge.index.client.xrevrange("lb:{33}:changes", count=1)
        async with asyncio.timeout(20):
            while ("position", newest) != ((told := await socket.event()).kind, told.id):
                assert "position" == told.kind
