"""How long received bytes waited before they were read, as the kernel says."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any, cast

import pytest

from gateway.edge.admission.receive_delay import receive_delay_s

WAITED_S = 0.1


class Transport:
    """A transport of a connected socket, or of none."""

    def __init__(self, connection: socket.socket | None) -> None:
        self._connection = connection

    def get_extra_info(self, name: str) -> Any:
        return {"socket": self._connection}[name]


def delay_s(connection: socket.socket | None) -> float:
    return receive_delay_s(cast("asyncio.BaseTransport", Transport(connection)))


def has_ipv6() -> bool:
    """Whether this machine speaks IPv6, which some containers do not."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="no other kernel says how long bytes have waited")
@pytest.mark.parametrize(
    ("family", "host"),
    [
        (socket.AF_INET, "127.0.0.1"),
        pytest.param(
            socket.AF_INET6, "::1", marks=pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
        ),
    ],
    ids=["IPv4", "IPv6"],
)
def test_F21_bytes_have_waited_since_they_came(family: socket.AddressFamily, host: str):
    """In seconds, over either protocol: as long as they lay there, and no longer than since they were sent."""
    with socket.create_server((host, 0), family=family) as server, socket.socket(family) as client:
        client.connect(server.getsockname()[:2])
        connection, _ = server.accept()
        with connection:
            began_s = time.monotonic()
            client.sendall(b"x")
            connection.recv(1)
            time.sleep(WAITED_S)
            waited_s = delay_s(connection)
            assert WAITED_S * 0.8 <= waited_s <= time.monotonic() - began_s + 0.02


def test_F21_nothing_is_known_of_connections_without_a_kernel_that_counts():
    """Through a Unix socket, or without a socket at all, nothing seems to have waited."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"x")
        assert [0.0, 0.0] == [delay_s(here), delay_s(None)]
