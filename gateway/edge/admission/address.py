"""The client of a request, as far as it can be known, under pseudonymous names."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from gateway.runtime.telemetry import Event, logger
from policies.errors import SettingsError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PREFIXES: Final = {4: 32, 6: 64}
"""Prefix lengths of one client: a subscriber has at least a /64 of IPv6 (RFC 6177)."""

NETWORK_PREFIXES: Final = {4: 24, 6: 48}
"""Prefix lengths of one site: a /48 of IPv6 (RFC 6177), and the smallest routed network of IPv4, a /24."""

_WITH_PORT: Final = re.compile(r"(?:\[(?P<v6>[^\[\]]*:[^\[\]]*)\]|(?P<v4>[0-9.]+))(?::[0-9]{1,5})?")

_log = logger()


class ClientName(NamedTuple):
    """The hashed names of a client's address and of the network around it, 24 hex digits each."""

    address: str
    network: str


class ClientAddresses:
    """Names of clients by a keyed hash of their addresses.

    A client's address is the peer's, or behind configured proxies the right-most hop that is none of them,
    with a port or without. Hops that a client writes into the headers itself stand further left and are never
    read.
    """

    def __init__(self, trusted_proxies: Sequence[str], key: bytes) -> None:
        try:
            self._trusted: tuple[Network, ...] = tuple(ip_network(proxy) for proxy in trusted_proxies)
        except ValueError as error:
            raise SettingsError(
                f"SCOREGATE_TRUSTED_PROXIES: expected addresses or networks: {error}"
            ) from None
        self._key = key
        self._names = lru_cache(maxsize=65_536)(self._hash)

    def name(self, peer: str | None, forwarded_for: Sequence[str]) -> str:
        """Return the name of the client's address, which cannot be reversed without the key."""
        return self.names(peer, forwarded_for).address

    def names(self, peer: str | None, forwarded_for: Sequence[str]) -> ClientName:
        """Return the names of the client's address and network, which cannot be reversed without the key."""
        if not self._trusted or not forwarded_for:
            return self._names(peer or "")
        return self._names(self._outermost(peer or "", forwarded_for))

    def _outermost(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return the right-most hop that is no trusted proxy; the peer without one or with an invalid hop."""
        hops = [hop.strip() for line in forwarded_for for hop in line.split(",")]
        for hop in (peer, *reversed(hops)):
            address = _parse(_without_port(hop))
            if address is None:
                _log.warning(Event.FORWARDED_UNREAD, characters=len(hop))
                return peer
            if not any(address in network for network in self._trusted):
                return str(address)
        return peer

    def _hash(self, text: str) -> ClientName:
        address = _parse(text)
        network = _around(address, NETWORK_PREFIXES)
        return ClientName(
            self._digest(_around(address, PREFIXES)), self._digest(network and f"network {network}")
        )

    def _digest(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(), "sha256").hex()[:24]


def _around(address: Address | None, prefixes: Mapping[int, int]) -> str:
    """Return the network around an address, "" without an address."""
    return "" if address is None else str(ip_network((address, prefixes[address.version]), strict=False))


def _without_port(hop: str) -> str:
    """Return a hop without the port that some proxies append; IPv6 then has brackets (RFC 7239, §6)."""
    match = _WITH_PORT.fullmatch(hop)
    return (match["v6"] or match["v4"]) if match else hop


def _parse(text: str) -> Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
