"""Readers that do not read: what waits for them is bounded, and they are cut off, on either event loop."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest
import uvloop

from gateway.settings import Settings
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

    def __init__(self, harness: Harness) -> None:
        host, port = harness.authority.split(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect((host, int(port)))
        request = f"GET /openapi.json HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode()
        self._socket.send(request * MANY)
        self._poll = select.poll()
        self._poll.register(self._socket, 0)

    async def cut_off(self) -> None:
        """Returns once the connection was reset."""

        async def is_reset() -> bool:
            return bool(self._poll.poll(0))

        await until(is_reset, within_s=30)

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
    """An address may have a quarter of it: of more readers than that is enough for, the first are cut off."""

    async def scenario() -> None:
        async with running_harness(settings.model_copy(update={"unsent_mib": 1})) as harness:
            readers = [Reader(harness) for _ in range(3)]
            await readers[0].cut_off()
            assert 200 == (await harness.get("/livez")).status
            for reader in readers:
                reader.close()

    LOOPS[loop](scenario())
