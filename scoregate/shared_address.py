"""One address for several edges: each has a socket of its own, and the kernel divides the connections."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from gateway.runtime.settings import host_and_port
from policies.errors import SettingsError

CAN_DIVIDE: Final = sys.platform == "linux"
"""Whether sockets with SO_REUSEPORT share an address evenly. The BSDs and macOS have the option, but give all
connections to one of the sockets."""


class SharedAddress:
    """A claim to an address, and the sockets that listen there.

    The claim holds the port and never listens. It keeps other processes from the address, which SO_REUSEPORT
    alone would let in: another deployment of the same user would share the port, and get half of the players.
    """

    def __init__(self, bind: str) -> None:
        """Claim the address; port 0 is any free port. Raises SettingsError if it cannot be had."""
        self._claims: list[socket.socket] = []
        host, port = host_and_port(bind)
        try:
            for family, where in _addresses(host, port):
                # A name may have an address of each family. All get the port of the first.
                at = (where[0], self._claims[0].getsockname()[1]) if self._claims else where
                self._claims.append(_claimed(family, at))
        except OSError as error:
            self.close()
            hint = "; give another with --bind, such as --bind 127.0.0.1:8090"
            hint = hint if error.errno == errno.EADDRINUSE else ""
            raise SettingsError(
                f"SCOREGATE_BIND: cannot listen on {bind}: {error.strerror or error}{hint}"
            ) from None
        port = self._claims[0].getsockname()[1]
        self.bind = f"{bind.rpartition(':')[0]}:{port}"

    def sockets(self) -> list[socket.socket]:
        """Return bound sockets for one more edge, one for each address of the host's name. Raises OSError."""
        return [_beside(claim) if CAN_DIVIDE else claim.dup() for claim in self._claims]

    def close(self) -> None:
        """Give the address up."""
        for claim in self._claims:
            claim.close()


@contextmanager
def sharing(bind: str, edges: int) -> Iterator[SharedAddress]:
    """Claim an address for this many edges while the block runs. Raises SettingsError."""
    if edges > 1 and not CAN_DIVIDE:
        raise SettingsError(
            "--edges: several edges can share an address on Linux only (SO_REUSEPORT); "
            "start each with `scoregate serve` at an address of its own"
        )
    address = SharedAddress(bind)
    try:
        yield address
    finally:
        address.close()


def is_free(bind: str) -> bool:
    """Return whether the address could be claimed just now."""
    try:
        SharedAddress(bind).close()
    except SettingsError:
        return False
    return True


def inherited(descriptors: Iterable[int]) -> list[socket.socket]:
    """Return the sockets that this process was started with. Raises SettingsError."""
    return [_inherited(descriptor) for descriptor in descriptors]


def are_listening(sockets: Sequence[socket.socket]) -> bool:
    """Return whether a process listens on all of these sockets."""
    return all(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) for each in sockets)


def _inherited(descriptor: int) -> socket.socket:
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        raise SettingsError(f"--fd {descriptor}: expected a bound socket: {error.strerror}") from None
    if sock.type != socket.SOCK_STREAM or sock.family not in {socket.AF_INET, socket.AF_INET6}:
        raise SettingsError(f"--fd {descriptor}: expected a TCP socket")
    return sock


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, (str(where[0]), int(where[1]))) for family, *_, where in found))


def _claimed(family: socket.AddressFamily, where: tuple[str, int]) -> socket.socket:
    """Return a socket that has the address to itself, except for sockets made by `_beside`."""
    claim = _socket(family)
    try:
        # Connections that an earlier process closed are no obstacle, as to any server.
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        claim.bind(where)
        if CAN_DIVIDE:
            # Only after the claim: a later claim then fails, whether or not an edge listens yet.
            claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError:
        claim.close()
        raise
    return claim


def _beside(claim: socket.socket) -> socket.socket:
    """Return another socket at the address of a claim."""
    other = _socket(claim.family)
    try:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(claim.getsockname())
    except OSError:
        other.close()
        raise
    return other


def _socket(family: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # as asyncio does
    return made
