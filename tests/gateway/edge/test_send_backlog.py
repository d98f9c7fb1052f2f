"""Readers that do not read: what waits for them is bounded, and they are cut off, on either event loop."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest
import uvloop

from gateway.edge import listening
from gateway.edge.admission.send_backlog import SendBacklog, SendBuffer
from gateway.edge.app import build_app
from gateway.edge.connections import ConnectionGate
from gateway.edge_wiring import open_edge
from gateway.runtime.settings import Settings
from tests.support.attack import until
from tests.support.harness import Harness, running_harness

LOOPS: Final[dict[str, Callable[[Coroutine[Any, Any, None]], None]]] = {
    "asyncio": asyncio.run,
    "uvloop": uvloop.run,
}
MANY: Final = 200
"""Answers of some 200 KiB: more than the kernel takes for one connection."""


class Reader:
    """A client that asks for much, and takes nothing of it unless it is told to."""

    def __init__(self, harness: Harness, *, before: int = 0) -> None:
        """`before`: answers of another page that come first, so that the kernel stops within another part of an answer."""
        host, port = harness.authority.split(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect((host, int(port)))
        request = f"GET /openapi.json HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode()
        other = f"GET /docs HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode()
        self._socket.send(other * before + request * MANY)
        self._poll = select.poll()
        self._poll.register(self._socket, 0)

    async def is_cut_off(self) -> bool:
        """Tells whether the connection was reset."""
        return bool(self._poll.poll(0))

    async def cut_off(self) -> None:
        """Returns once the connection was reset."""
        await until(self.is_cut_off, within_s=30)

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("loop", LOOPS)
def test_F10_who_does_not_read_is_cut_off(settings: Settings, loop: str):
    """After its time; meanwhile others are answered."""

    async def scenario() -> None:
        async with running_harness(settings.model_copy(update={"write_timeout_s": 0.2})) as harness:
            reader = Reader(harness)
            assert 200 == (await harness.get("/livez")).status
            await reader.cut_off()
            reader.close()

    LOOPS[loop](scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_F10_what_waits_is_bounded(settings: Settings, loop: str):
    """An address may have a quarter of it: of more readers than that is enough for, some are cut off."""

    async def scenario() -> None:
        async with running_harness(settings.model_copy(update={"unsent_mib": 1})) as harness:
            readers = [Reader(harness, before=number) for number in range(16)]

            async def is_any_cut_off() -> bool:
                return any([await reader.is_cut_off() for reader in readers])

            await until(is_any_cut_off, within_s=30)
            assert 200 == (await harness.get("/livez")).status
            for reader in readers:
                reader.close()

    LOOPS[loop](scenario())


async def test_F10_what_waited_for_a_client_that_left_waits_no_more(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """It is not counted until the time that the client had is over."""
    gates = list[ConnectionGate]()

    class Watched(ConnectionGate):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            gates.append(self)

    monkeypatch.setattr(listening, "ConnectionGate", Watched)
    async with running_harness(settings.model_copy(update={"write_timeout_s": 60.0})) as harness:
        backlog, reader = gates[0].send_backlog, Reader(harness)

        async def waits() -> bool:
            return backlog.total_bytes > 0

        async def waits_no_more() -> bool:
            return not await waits()

        await until(waits)
        reader.close()
        await until(waits_no_more)


class Taking:
    """A transport whose client has taken everything by now."""

    is_aborted = False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> None:
        return None

    def abort(self) -> None:
        self.is_aborted = True


async def test_F10_who_took_everything_is_left_alone():
    """Once nothing waits any more nothing is counted, and the time that was given is forgotten."""
    loop, is_later, transport = asyncio.get_running_loop(), asyncio.Event(), Taking()
    backlog = SendBacklog(1024)
    buffer = SendBuffer(backlog, transport, "address", loop)
    buffer.begin(0.001)
    buffer.end()
    loop.call_later(0.002, is_later.set)  # later than it would have been cut off
    await is_later.wait()
    assert (False, 0, {}) == (transport.is_aborted, backlog.total_bytes, backlog._sizes)


class Full(Taking):
    """A transport whose client takes nothing."""

    def get_write_buffer_size(self) -> int:
        return 100


async def test_F10_an_address_that_was_slow_is_not_remembered():
    """Neither one whose clients took everything in the end, nor one whose last client was cut off."""
    loop = asyncio.get_running_loop()
    backlog = SendBacklog(1000)
    for address, end in (("took", SendBuffer.end), ("left", SendBuffer.cut_off)):
        slow = [SendBuffer(backlog, Full(), address, loop) for _ in range(2)]
        for buffer in slow:
            buffer._weigh()
        assert (200, {address: 200}) == (backlog.total_bytes, dict(backlog._bytes_by_address))
        for buffer in slow:
            end(buffer)
        assert (0, {}) == (backlog.total_bytes, dict(backlog._bytes_by_address))


async def test_F10_the_oldest_of_an_address_makes_room_for_it_and_the_oldest_of_all_for_all():
    """Nobody is cut off for what waits for another address, while all that may wait is not exceeded."""
    loop, backlog, readers = asyncio.get_running_loop(), SendBacklog(800), dict[str, Full]()

    def cut_off_after(name: str) -> list[str]:
        readers[name] = Full()
        SendBuffer(backlog, readers[name], name[0], loop)._weigh()
        return [each for each, transport in readers.items() if transport.is_aborted]

    assert [[], [], [], ["b1"]] == [cut_off_after(name) for name in ("a1", "b1", "b2", "b3")]
    assert [["b1"]] * 5 == [cut_off_after(name) for name in ("c1", "c2", "d1", "d2", "e1")]
    assert ["a1", "b1"] == cut_off_after("e2")


@pytest.mark.parametrize(("proxies", "is_cut_off"), [((), True), (("127.0.0.1",), False)])
async def test_F10_behind_a_proxy_one_address_may_have_all_that_may_wait(
    settings: Settings, proxies: tuple[str, ...], is_cut_off: bool
):
    """It stands for all its clients; by itself an address has a quarter of it."""
    changes = {"unsent_mib": 1, "trusted_proxies": proxies}
    async with open_edge(settings.model_copy(update=changes)) as edge:
        backlog, transport = ConnectionGate(edge, build_app(edge)).send_backlog, Taking()
        buffer = SendBuffer(backlog, transport, "address", asyncio.get_running_loop())
        backlog.weigh(buffer, 500_000)
        assert is_cut_off == transport.is_aborted
