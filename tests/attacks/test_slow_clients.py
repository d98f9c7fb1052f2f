"""Clients that take their time: each is given up at its deadline, on either event loop, and harms nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import uvloop

from gateway.edge.admission.shedding import Entrance
from gateway.edge.app import build_app
from gateway.edge.connections import ConnectionGate
from gateway.edge.live import heartbeats, sse
from gateway.edge_wiring import open_edge
from gateway.runtime.settings import Settings
from tests.support.attack import a_run, accept, honest, until
from tests.support.harness import Harness, Request, running_harness
from tests.support.leaving import requests_that_stay
from tests.support.raw import RawConnection, as_bytes, exchange

LOOPS = {"asyncio": asyncio.run, "uvloop": uvloop.run}


def on(loop: str, settings: Settings, scenario: Callable[[Harness], Awaitable[None]], **changes: Any) -> None:
    """Plays a scenario against an edge with changed settings on an event loop of this kind."""

    async def play() -> None:
        async with running_harness(settings.model_copy(update=changes)) as harness:
            await scenario(harness)

    LOOPS[loop](play())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("head", "drop"),
    [(b"GET /livez HTTP/1.1\r\nX", b"a"), (b"POST /", b"a"), (b"\r\n\r\n", b"\r\n"), (b"", b"")],
)
def test_R12_a_head_that_does_not_arrive_is_given_up(settings: Settings, loop: str, head: bytes, drop: bytes):
    """A connection without a whole request head is closed at the deadline, however it drips; others are answered."""

    async def scenario(harness: Harness) -> None:
        started = asyncio.get_running_loop().time()
        async with RawConnection(harness.authority) as slow:
            await slow.send(head)
            await accept(harness, honest(harness, await a_run(harness)))
            dripping = asyncio.create_task(drip(slow, drop))
            assert await slow.is_closed()
            dripping.cancel()
        assert asyncio.get_running_loop().time() - started < settings.keepalive_timeout_s

    on(loop, settings, scenario, head_timeout_s=0.8)


async def drip(connection: RawConnection, drop: bytes) -> None:
    while True:
        await asyncio.sleep(0.05)
        await connection.send(drop)


@pytest.mark.parametrize("loop", LOOPS)
def test_R12_a_second_head_has_the_same_deadline(settings: Settings, loop: str):
    """Having been answered once buys no time: the next head must come as soon."""

    async def scenario(harness: Harness) -> None:
        async with RawConnection(harness.authority) as slow:
            await slow.send(b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n")
            assert 200 == (await slow.answer()).status
            await slow.send(b"GET /livez HTTP/1.1\r\nX-Slow: ")
            assert await slow.is_closed()

    on(loop, settings, scenario, head_timeout_s=0.8)


@pytest.mark.parametrize("loop", LOOPS)
def test_R12_who_was_refused_at_the_door_has_the_same_deadline(
    settings: Settings, loop: str, monkeypatch: pytest.MonkeyPatch
):
    """A full edge keeps no connection for a client that never comes again."""

    async def scenario(harness: Harness) -> None:
        request = honest(harness, await a_run(harness))
        monkeypatch.setattr(Entrance, "is_full", lambda _: True)
        async with RawConnection(harness.authority) as slow:
            await slow.send(as_bytes(request, harness.authority))
            assert 503 == (await slow.answer()).status
            assert await slow.is_closed()

    on(loop, settings, scenario, head_timeout_s=0.8)


@pytest.mark.parametrize("loop", LOOPS)
def test_R12_a_half_sent_body_is_answered_408(settings: Settings, loop: str):
    """A body that stops is given up at its deadline, and its connection closed."""

    async def scenario(harness: Harness) -> None:
        request = honest(harness, await a_run(harness))
        async with RawConnection(harness.authority) as slow:
            await slow.send(as_bytes(request, harness.authority)[:-1])
            answer = await slow.answer()
            assert (408, "request-timeout") == (answer.status, answer.problem)
            assert await slow.is_closed()
        await accept(harness, request)

    on(loop, settings, scenario, body_timeout_s=0.6)


@pytest.mark.parametrize("loop", LOOPS)
def test_R12_connections_of_one_address_are_capped(settings: Settings, loop: str):
    """Connections past the cap are closed unanswered; the open ones work on, and a place that is freed is given again."""

    async def scenario(harness: Harness) -> None:
        get = b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n"
        async with AsyncExitStack() as stack:
            idle = [await stack.enter_async_context(RawConnection(harness.authority)) for _ in range(5)]
            for connection in idle:
                await connection.send(get)
                assert 200 == (await connection.answer()).status
            async with RawConnection(harness.authority) as refused:
                assert await refused.is_closed()
            await idle[0].send(get)
            assert 200 == (await idle[0].answer()).status
        await until(lambda: is_answered(harness, get))

    on(loop, settings, scenario, connections_per_address=5)


async def is_answered(harness: Harness, get: bytes) -> bool:
    try:
        return (await exchange(harness.authority, get)).status == 200
    except (ConnectionError, asyncio.IncompleteReadError):
        return False


async def nobody_listens(harness: Harness) -> bool:
    return harness.edge.live.listeners("sprint") == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_R12_a_listener_that_takes_nothing_is_cut_off(
    settings: Settings, loop: str, monkeypatch: pytest.MonkeyPatch
):
    """A live feed whose client does not read ends; it holds neither memory nor its place among the connections."""
    monkeypatch.setattr(heartbeats, "STALLED_S", 0.3)
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", 0.001)
    monkeypatch.setattr(sse, "sse_heartbeat", lambda _position: b": " + b"x" * 500_000 + b"\n\n")

    async def scenario(harness: Harness) -> None:
        async with RawConnection(harness.authority) as deaf:
            await deaf.send(
                b"GET /v1/boards/sprint/live HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n"
            )
            assert b"HTTP/1.1 200 OK\r\n" == await deaf.line()
            await until(lambda: nobody_listens(harness))
            await until(
                lambda: is_answered(
                    harness, b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n"
                )
            )

    on(loop, settings, scenario, connections_per_address=1)


async def test_a_listener_that_leaves_takes_its_request_along(harness: Harness):
    """It does not wait for the collector of cycles, however many come and go."""
    head = as_bytes(Request("GET", "/v1/boards/arcade/live", b""), harness.authority)

    async def listeners(count: int) -> bool:
        return harness.edge.live.listeners("arcade") == count

    async def leave() -> None:
        async with RawConnection(harness.authority) as listener:
            await listener.send(head)
            await until(lambda: listeners(1))
            listener.reset()
        await until(lambda: listeners(0))

    assert await requests_that_stay(leave) <= 1


@pytest.mark.parametrize("loop", LOOPS)
def test_open_feeds_do_not_hold_up_the_end(settings: Settings, loop: str):
    """At shutdown the feeds are let go at once, and what is being answered is finished."""

    async def play() -> None:
        async with running_harness(settings) as harness, RawConnection(harness.authority) as listener:
            await listener.send(
                b"GET /v1/boards/sprint/live HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n"
            )
            assert b"HTTP/1.1 200 OK\r\n" == await listener.line()

    async def quickly() -> None:
        async with asyncio.timeout(settings.shutdown_grace_s / 2):
            await play()

    LOOPS[loop](quickly())


async def test_R12_the_connections_of_a_subscriber_are_counted_together(settings: Settings):
    """All addresses of one IPv6 /64 share the cap; what leaves is not counted on."""
    async with running_harness(settings.model_copy(update={"connections_per_address": 2})) as harness:
        gate = ConnectionGate(harness.edge, build_app(harness.edge))
        names = [
            gate.enter(peer) for peer in ("2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1")
        ]
        assert [True, True, False, True] == [name is not None for name in names]
        gate.leave(names[0])
        assert names[0] == gate.enter("2001:db8::4")


async def test_R12_the_connections_of_a_network_are_counted_together(settings: Settings):
    """A site with many addresses has a cap of its own; who is refused takes no place, and who left is not remembered."""
    few = {"connections_per_address": 2, "connections_per_network": 3}
    async with open_edge(settings.model_copy(update=few)) as edge:
        gate = ConnectionGate(edge, build_app(edge))
        names = [
            gate.enter(f"192.0.{peer}")
            for peer in ("2.1", "2.1", "2.1", "2.2", "2.3", "2.4", "3.1", "3.1", "3.1")
        ]
        is_in = [name is not None for name in names]
        assert [True, True, False, True, False, False, True, True, False] == is_in
        gate.leave(names[0])
        names[4] = gate.enter("192.0.2.3")
        assert (True, None) == (names[4] is not None, gate.enter("192.0.2.4"))
        for name in filter(None, names[1:]):
            gate.leave(name)
        assert 0 == len(gate._seats)
