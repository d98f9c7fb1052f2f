"""The time that received bytes waited in the kernel, which is a part of their client's wait.

Only the kernel knows it. While an edge opens a thousand connections, or gets no processor time, requests grow
old before their first byte is read, and would seem new.
"""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
import sys
from typing import Final

_INFO_BYTES: Final = 56
_LAST_DATA_RECEIVED: Final = struct.Struct("=52xI")
"""`tcpi_last_data_recv` of `struct tcp_info`: the age of the newest segment with data (ms; linux/tcp.h)."""

_getsockopt: Final = ctypes.PyDLL(None).getsockopt if sys.platform == "linux" else None
"""It never waits, so it keeps the interpreter lock, which it might not get back at once."""


def receive_delay_s(transport: asyncio.BaseTransport) -> float:
    """Return how long the newest bytes just read from a connection had waited (s), 0.0 if that is unknown.

    This takes a system call.
    """
    connection = transport.get_extra_info("socket")
    if (
        _getsockopt is None
        or connection is None
        or connection.family not in {socket.AF_INET, socket.AF_INET6}
    ):
        return 0.0
    info, length = ctypes.create_string_buffer(_INFO_BYTES), ctypes.c_uint32(_INFO_BYTES)
    failed = _getsockopt(connection.fileno(), socket.IPPROTO_TCP, socket.TCP_INFO, info, ctypes.byref(length))
    if failed or length.value < _INFO_BYTES:
        return 0.0
    [waited_ms] = _LAST_DATA_RECEIVED.unpack(info)
    return float(waited_ms) / 1000
