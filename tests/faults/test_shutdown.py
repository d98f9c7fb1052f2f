"""An edge that is told to end: a lame duck first, then it finishes what has begun, on either event loop."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop

from gateway.edge.shutdown import stop_listening
from gateway.runtime.settings import Settings
from tests.support.attack import a_run, honest, until
from tests.support.deployment import Client, Deployment, client_of, deployed, ended
from tests.support.harness import Harness, running_harness
from tests.support.policies import a_policy, write_policies
from tests.support.raw import RawConnection, as_bytes
from tests.support.valkey import ValkeyServer

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "run-the-parts-apart.md"

LOOPS = {"asyncio": asyncio.run, "uvloop": uvloop.run}

PATIENCE_S = 30.0
"""Half of what an end takes that waits for its grace."""


async def ending(
    settings: Settings, begun: Callable[[Harness], Awaitable[RawConnection]]
) -> tuple[RawConnection, asyncio.Task[None]]:
    """A connection on which something had begun when the edge was told to end, and the edge's end."""
    stack = AsyncExitStack()
    harness = await stack.enter_async_context(running_harness(settings))
    connection = await begun(harness)
    end = asyncio.create_task(stack.aclose())
    await until(lambda: has_begun(harness))
    return connection, end


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(
        update={"policies_dir": write_policies(tmp_path / "policies", a_policy("sprint"))}
    )


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer) -> Iterator[Deployment]:
    with deployed(tmp_path / "house", valkey) as deployment:
        yield deployment


@pytest.fixture
async def client(house: Deployment) -> AsyncIterator[Client]:
    async with client_of(house) as client:
        yield client


async def has_begun(harness: Harness) -> bool:
    return harness.edge.shutdown.has_begun


@pytest.mark.parametrize("loop", LOOPS)
def test_F23_a_body_that_is_still_arriving_is_taken_and_answered(settings: Settings, loop: str):
    """A request whose body is half here when the edge is told to end is stored and answered 202, and the edge then ends."""

    async def scenario() -> None:
        async def half_sent(harness: Harness) -> RawConnection:
            nonlocal rest
            raw = as_bytes(honest(harness, await a_run(harness)), harness.authority)
            connection = await RawConnection(harness.authority).__aenter__()
            await connection.send(raw[:-10])
            rest = raw[-10:]
            await asyncio.sleep(0.1)  # longer than loopback takes; the head has to be here
            return connection

        rest = b""
        connection, end = await ending(settings.model_copy(update={"shutdown_grace_s": 60.0}), half_sent)
        await asyncio.sleep(0.5)  # longer than a quiet connection may be
        await connection.send(rest)
        answer = await connection.answer()
        assert (202, "close") == (answer.status, answer.headers["Connection"])
        async with asyncio.timeout(PATIENCE_S):
            await end

    LOOPS[loop](scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_F23_an_idle_connection_does_not_hold_up_the_end(settings: Settings, loop: str):
    """Connections on which nothing has begun are closed, and the edge ends long before its grace is over."""

    async def scenario() -> None:
        async def idle(harness: Harness) -> RawConnection:
            return await RawConnection(harness.authority).__aenter__()

        connection, end = await ending(settings.model_copy(update={"shutdown_grace_s": 60.0}), idle)
        async with asyncio.timeout(PATIENCE_S):
            assert await connection.is_closed()
            await end

    LOOPS[loop](scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_F23_live_feeds_are_let_go_at_once(settings: Settings, loop: str):
    """A feed has no end of its own: its listener resumes elsewhere, and the edge ends long before its grace is over."""

    async def scenario() -> None:
        async def following(harness: Harness) -> RawConnection:
            connection = await RawConnection(harness.authority).__aenter__()
            await connection.send(
                f"GET /v1/boards/sprint/live HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode()
            )
            while b"begin" not in await connection.line():
                pass
            return connection

        connection, end = await ending(settings.model_copy(update={"shutdown_grace_s": 60.0}), following)
        async with asyncio.timeout(5):
            while await connection.line():
                pass
            await end

    LOOPS[loop](scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_F23_a_request_that_never_ends_is_cut_off_when_the_grace_is_over(settings: Settings, loop: str):
    """A body that stops holds up the end for the grace and no longer."""

    async def scenario() -> None:
        async def half_sent(harness: Harness) -> RawConnection:
            raw = as_bytes(honest(harness, await a_run(harness)), harness.authority)
            connection = await RawConnection(harness.authority).__aenter__()
            await connection.send(raw[:-10])
            return connection

        _, end = await ending(settings.model_copy(update={"shutdown_grace_s": 0.5}), half_sent)
        async with asyncio.timeout(PATIENCE_S):
            await end

    LOOPS[loop](scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_F23_connections_that_the_kernel_had_taken_are_served(loop: str):
    """What waits to be accepted when listening ends is handed over, and not reset."""

    class Greeter(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.write(b"served")
            transport.close()

    async def scenario() -> None:
        server = await asyncio.get_running_loop().create_server(Greeter, "127.0.0.1", 0)
        where = server.sockets[0].getsockname()
        waiting = [socket.create_connection(where) for _ in range(20)]  # no turn of the loop in between
        await stop_listening(server, Greeter)
        for connection in waiting:
            connection.setblocking(False)
            assert b"served" == await asyncio.get_running_loop().sock_recv(connection, 16)
            connection.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where)

    LOOPS[loop](scenario())


async def test_F23_a_lame_duck_serves_while_readiness_says_that_it_ends(house: Deployment, client: Client):
    """After SIGTERM /readyz is 503 `ending`, submissions are taken with `Connection: close`; a second SIGTERM ends it."""
    edge = house.start("serve", shutdown_pause_s="60")
    await house.is_answering()
    assert 200 == (await client.harness.get("/readyz")).status
    run = await client.open_run()

    edge.send_signal(signal.SIGTERM)
    ready = await client.harness.get("/readyz")
    while ready.status == 200:
        ready = await client.harness.get("/readyz")
    assert (503, "ending", "close") == (ready.status, ready.body["status"], ready.headers["Connection"])
    answer = await client.submit(run, {"score": 0, "ticks": 0})
    assert answer.status not in {500, 503}
    await client.submitted()

    edge.send_signal(signal.SIGTERM)
    assert 0 == await ended(edge)
    assert is_nobody_there(house)


def is_nobody_there(house: Deployment) -> bool:
    host, port = house.authority.split(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return True
    return False


def test_N05_the_server_keeps_connections_longer_than_its_clients(settings: Settings):
    """An idle connection is closed by its client: nginx's sample and aiohttp's default are shorter than the edge's time."""
    aiohttp_default_s = 15.0
    [nginx_s] = re.findall(r"keepalive_timeout (\d+)s;", HOW_TO.read_text())
    assert max(aiohttp_default_s, float(nginx_s)) < Settings(data_dir=settings.data_dir).keepalive_timeout_s


async def test_N05_an_idle_connection_outlives_the_deadline_of_a_head(settings: Settings):
    """The deadline of a head runs from its first byte: a connection that was answered may be idle for longer."""
    async with running_harness(settings.model_copy(update={"head_timeout_s": 0.2})) as harness:
        get = b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n"
        async with RawConnection(harness.authority) as patient:
            for _ in range(2):
                await patient.send(get)
                assert 200 == (await patient.answer()).status
                await asyncio.sleep(0.5)  # what is tested is the time
            await patient.send(get[:10])
            assert await patient.is_closed()


async def test_N05_an_idle_connection_is_closed_when_the_operator_says(settings: Settings):
    """After `keepalive_timeout_s`, which is not the library's own."""
    async with running_harness(settings.model_copy(update={"keepalive_timeout_s": 0.2})) as harness:
        async with RawConnection(harness.authority) as idle:
            await idle.send(b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n")
            assert 200 == (await idle.answer()).status
            assert await idle.is_closed()
