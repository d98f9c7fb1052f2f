"""Ports that nobody else takes: every process has a block of them, claimed for as long as it lives.

A port that the kernel picks, if it is closed before use, may go to another test's server or to an outgoing
connection. So ports are drawn from below the kernel's range, out of a block whose first port the drawing
process has bound. Neither two suites on a machine nor the workers of one share a block.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
BLOCK_PORTS: Final = 250
FIRST_PORT: Final = 10_000
"""Below are the ports that well-known servers have, from Redis' 6379 to Prometheus' 9090."""

LAST_PORT: Final = 65_535
EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
DEFAULT_EPHEMERAL: Final = 32_768
"""Where Linux begins to pick; macOS and the BSDs begin higher."""


class Block:
    """Ports of this process alone."""

    def __init__(self, claim: socket.socket) -> None:
        self._claim = claim
        first = claim.getsockname()[1]
        self.ports = range(first + 1, first + BLOCK_PORTS)
        self._turn = cycle(self.ports)

    def draw(self) -> int:
        """Return a port on which nobody listens, the one that was drawn longest ago."""
        for _ in self.ports:
            port = next(self._turn)
            with socket.socket() as probe:
                # As servers do, or what remains of closed connections would be in the way.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if _is_bound(probe, port):
                    return port
        raise OSError(f"all of the ports {self.ports[0]} to {self.ports[-1]} are in use")


def free_port() -> int:
    """Return a port that no other process draws, for a server that needs its number before it starts."""
    return _block(os.getpid()).draw()


@contextmanager
def unserved_port() -> Iterator[int]:
    """Hold a port on which nobody can listen until the block ends: connections to it are refused."""
    with socket.socket() as holder:
        while not _is_bound(holder, port := free_port()):
            pass
        yield port


@cache
def _block(process_id: int) -> Block:
    """The block of a process; one that was forked claims its own."""
    return claimed_block(process_id)


def claimed_block(process_id: int) -> Block:
    """Claim a block that nobody has; the search begins at another place for each process."""
    blocks = _blocks()
    for turn in range(len(blocks)):
        claim = socket.socket()
        if _is_bound(claim, blocks[(process_id + turn) % len(blocks)]):
            return Block(claim)
        claim.close()
    raise OSError(f"all {len(blocks)} blocks of ports from {FIRST_PORT} on are claimed")


def _blocks() -> range:
    """Return the first ports of the blocks: below the kernel's range if there is room for a block."""
    picked = int(EPHEMERAL_RANGE.read_text().split()[0]) if EPHEMERAL_RANGE.exists() else DEFAULT_EPHEMERAL
    end = picked if picked >= FIRST_PORT + BLOCK_PORTS else LAST_PORT + 1
    return range(FIRST_PORT, end - BLOCK_PORTS + 1, BLOCK_PORTS)


def _is_bound(holder: socket.socket, port: int) -> bool:
    try:
        holder.bind((HOST, port))
    except OSError:
        return False
    return True
