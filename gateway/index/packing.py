"""Connections that pack commands by hiredis; redis-py packs those of its asyncio client in Python."""

from __future__ import annotations

from typing import Any, Final

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection


class _Packing(AbstractConnection):
    """A connection that packs a command in one step, which gives the bytes that redis-py would send."""

    def pack_command(self, *arguments: Any) -> list[bytes]:
        """Return the bytes of a command. Raises DataError for an argument that Redis cannot have."""
        name, *others = arguments
        try:
            return [pack_command((*name.split(), *others))]
        except TypeError:  # hiredis takes no subclasses, which redis-py takes unless they are no values
            return super().pack_command(*arguments)


class PackedConnection(_Packing, Connection):
    """A TCP connection."""


class PackedSSLConnection(_Packing, SSLConnection):
    """A TLS connection."""


class PackedUnixConnection(_Packing, UnixDomainSocketConnection):
    """A connection to a Unix socket."""


PACKED: Final[dict[type[AbstractConnection], type[Any]]] = {
    Connection: PackedConnection,
    SSLConnection: PackedSSLConnection,
    UnixDomainSocketConnection: PackedUnixConnection,
}
"""The connections that pack by hiredis, by those of redis-py."""
