"""How an edge ends: who has something under way is waited for, who has not is let go, and nobody for longer than the grace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.edge import listening
from gateway.edge.connections import Connection, ConnectionGate
from gateway.edge.shutdown import IN_FLIGHT_S, Shutdown, drain
from gateway.runtime.settings import Settings
from tests.support.attack import until
from tests.support.harness import running_harness
from tests.support.raw import RawConnection


class Client:
    """A connection that has been quiet for so long."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self.is_closed = False

    def quiet_s(self) -> float:
        return self._quiet_s

    def force_close(self) -> None:
        self.is_closed = True


async def test_F23_who_is_quiet_is_let_go_and_who_is_not_has_the_grace():
    """A connection whose next request may be on its way is not closed under it; when the grace is over that is all."""
    idle, fresh, busy = Client(2 * IN_FLIGHT_S), Client(IN_FLIGHT_S / 2), Client(0.0)
    everybody: Any = [idle, fresh, busy]
    await drain(lambda: [each for each in everybody if not each.is_closed], 0.1)
    assert [True, False, False] == [each.is_closed for each in everybody]
    async with asyncio.timeout(10):
        await drain(list, 3600)


async def test_F23_a_lame_duck_hurries_when_it_is_told_to():
    """A second signal ends the pause at once; without one it lasts as long as is set."""
    shutdown, hurry = Shutdown(), asyncio.Event()
    assert not shutdown.has_begun
    pausing = asyncio.create_task(shutdown.pause(3600, hurry))
    await asyncio.sleep(0)
    assert (True, False) == (shutdown.has_begun, pausing.done())
    hurry.set()
    async with asyncio.timeout(10):
        await pausing
        await Shutdown().pause(0.01, asyncio.Event())


async def test_F23_bytes_that_come_are_no_silence(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """A connection that was idle for long and has just sent half of a head is not closed before the rest of it."""
    opened: list[Connection] = []

    class Watched(ConnectionGate):
        def admit(self) -> Connection:
            opened.append(super().admit())
            return opened[-1]

    monkeypatch.setattr(listening, "ConnectionGate", Watched)
    async with running_harness(settings) as harness, RawConnection(harness.authority) as client:
        get = b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n"
        await client.send(get)
        assert 200 == (await client.answer()).status
        [connection] = opened
        connection._received_s -= 100.0
        assert connection.quiet_s() > 99
        await client.send(get[:9])

        async def is_heard() -> bool:
            return connection.quiet_s() < 50

        await until(is_heard)
        await client.send(get[9:])
        assert 200 == (await client.answer()).status
