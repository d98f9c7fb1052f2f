"""One client against all others: what it holds open, what it does not take, and what it is refused for is its own."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from gateway import edge_wiring
from gateway.edge import connections, listening
from gateway.edge.connections import Connection, ConnectionGate
from gateway.runtime.settings import Settings
from policies.limits import Rate
from tests.support.attack import until
from tests.support.harness import Answer, Harness, Request, running_harness
from tests.support.raw import RawConnection, exchange

SITE = "2001:db8:1"


def getting(harness: Harness, path: str, client: str) -> bytes:
    """A read by somebody behind a proxy that is named in the settings."""
    return f"GET {path} HTTP/1.1\r\nHost: {harness.authority}\r\nX-Forwarded-For: {client}\r\n\r\n".encode()


@pytest.fixture
def behind_a_proxy(settings: Settings) -> Settings:
    return settings.model_copy(update={"trusted_proxies": ("127.0.0.1",)})


async def test_R12_one_client_leaves_feeds_for_others(behind_a_proxy: Settings):
    """Feeds are counted by the client's address and network, not by the proxy's; what is closed is free again."""
    few = {"live_per_address": 2, "live_per_network": 3}
    async with running_harness(behind_a_proxy.model_copy(update=few)) as harness, AsyncExitStack() as stack:

        async def listen(client: str) -> tuple[bytes, RawConnection]:
            feed = await stack.enter_async_context(RawConnection(harness.authority))
            await feed.send(getting(harness, "/v1/boards/sprint/live", client))
            return (await feed.line()).split()[1], feed

        greedy = [await listen(f"{SITE}::{number}") for number in range(3)]
        assert [b"200", b"200", b"429"] == [status for status, _ in greedy]
        neighbours = [await listen(f"{SITE}:{number}::1") for number in (1, 2)]
        assert [b"200", b"429"] == [status for status, _ in neighbours]
        assert b"200" == (await listen("192.0.2.1"))[0]
        greedy[0][1].reset()

        async def has_a_seat() -> bool:
            return (await listen(f"{SITE}::9"))[0] == b"200"

        await until(has_a_seat)


async def test_F10_a_client_that_takes_nothing_is_cut_off(settings: Settings):
    """Who asks again and again and reads no answer loses the connection, and with it what waited there."""
    deaf_soon = settings.model_copy(update={"write_timeout_s": 0.3, "connections_per_address": 1})
    async with running_harness(deaf_soon) as harness, RawConnection(harness.authority) as deaf:
        asking = asyncio.create_task(deaf.send(getting(harness, "/v1/boards", "192.0.2.1") * 20_000))

        async def is_answered() -> bool:
            try:
                answer = await exchange(harness.authority, getting(harness, "/livez", "192.0.2.1"))
            except (ConnectionError, asyncio.IncompleteReadError):
                return False
            return answer.status == 200

        await until(is_answered, within_s=30)
        asking.cancel()


async def test_F10_the_door_writes_nothing_to_a_client_that_takes_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Refusals at the door wait for a client as other answers do: else they would pile up without a bound."""
    opened: list[Connection] = []
    written: list[bytes] = []

    class Watched(ConnectionGate):
        def admit(self) -> Connection:
            opened.append(super().admit())
            return opened[-1]

    def refusal(*_fields: bytes) -> bytes:
        written.append(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        return written[-1]

    monkeypatch.setattr(listening, "ConnectionGate", Watched)
    monkeypatch.setattr(connections, "refusal", refusal)
    async with running_harness(settings) as harness, RawConnection(harness.authority) as client:
        monkeypatch.setattr(harness.edge.entrance, "is_full", lambda: True)
        post = f"POST /v1/players HTTP/1.1\r\nHost: {harness.authority}\r\nContent-Length: 0\r\n\r\n".encode()
        await client.send(post)
        assert (503, 1) == ((await client.answer()).status, len(written))
        opened[-1].pause_writing()
        await client.send(post)
        assert (503, 1) == ((await client.answer()).status, len(written))
        opened[-1].resume_writing()


async def test_F04_players_made_for_it_fill_no_lists_without_end(
    behind_a_proxy: Settings, monkeypatch: pytest.MonkeyPatch
):
    """What all players of an address change about themselves has a limit; beyond it no row comes, and others go on."""
    monkeypatch.setattr(edge_wiring, "ADDRESS_RATE", Rate(per_minute=1, burst=3))
    async with running_harness(behind_a_proxy) as harness:
        tokens = [await harness.new_player() for _ in range(3)]

        async def follow(token: str, friend: str, address: str) -> Answer:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
            return await harness.send(Request("PUT", f"/v1/friends/{friend}", b"", headers))

        answers = [await follow(token, friend, "192.0.2.1") for token in tokens for friend in ("f1", "f2")]
        assert [200, 200, 200, 429, 429, 429] == [each.status for each in answers]
        assert answers[-1].headers["RateLimit"].startswith('"address"')
        listed = [(await harness.get("/v1/friends", token)).body["total"] for token in tokens]
        assert [2, 1, 0] == listed
        assert 200 == (await follow(tokens[2], "f1", "198.51.100.1")).status
