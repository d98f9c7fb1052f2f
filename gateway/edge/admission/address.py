"""Which client a request comes from, as far as that can be known, and how it is named without naming it."""

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
"""One subscriber has at least a /64 of IPv6 (RFC 6177), so a single address of it means nothing."""

NETWORK_PREFIXES: Final = {4: 24, 6: 48}
"""One site may have a /48 (RFC 6177), which is 65,536 times a /64; of IPv4 the smallest network that is routed is a /24."""


_WITH_PORT: Final = re.compile(r"(?:\[(?P<v6>[^\[\]]*:[^\[\]]*)\]|(?P<v4>[0-9.]+))(?::[0-9]{1,5})?")

_log = logger()


class ClientName(NamedTuple):
    """Two hashed names of a client, 24 hex digits each: of its address, and of the network around it."""

    address: str
    network: str


class ClientAddresses:
    """Names a client by a keyed hash of its address.

    That is the peer's address, or behind configured proxies the right-most hop that none of them is, with a port or
    without. What a client writes into forwarding headers itself stands further left and is never looked at.
    """

    def __init__(self, trusted_proxies: Sequence[str], key: bytes) -> None:
        try:
            self._trusted: tuple[Network, ...] = tuple(ip_network(each) for each in trusted_proxies)
        except ValueError as error:
            raise SettingsError(
                f"SCOREGATE_TRUSTED_PROXIES: expected addresses or networks: {error}"
            ) from None
        self._key = key
        self._names = lru_cache(maxsize=65_536)(self._hash)

    def name(self, peer: str | None, forwarded_for: Sequence[str]) -> str:
        """24 hex digits that stand for the client's address; they cannot be turned back without the key."""
        return self.names(peer, forwarded_for).address

    def names(self, peer: str | None, forwarded_for: Sequence[str]) -> ClientName:
        """The client's address and network, by names that cannot be turned back without the key."""
        if not self._trusted or not forwarded_for:
            return self._names(peer or "")
        return self._names(self._outermost(peer or "", forwarded_for))

    def _outermost(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """The right-most hop that is no proxy of ours; the peer where a proxy of ours names one by what is no address."""
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
        around = _around(address, NETWORK_PREFIXES)
        return ClientName(
            self._digest(_around(address, PREFIXES)), self._digest(around and f"network {around}")
        )

    def _digest(self, known: str) -> str:
        return hmac.digest(self._key, known.encode(), "sha256").hex()[:24]


def _around(address: Address | None, prefixes: Mapping[int, int]) -> str:
    """The network of that size around an address; empty where there is no address."""
    return "" if address is None else str(ip_network((address, prefixes[address.version]), strict=False))


def _without_port(hop: str) -> str:
    """A hop without the port that some proxies put behind its address; of IPv6 that needs brackets (RFC 7239, section 6)."""
    found = _WITH_PORT.fullmatch(hop)
    return (found["v6"] or found["v4"]) if found else hop


def _parse(text: str) -> Address | None:
    try:
        address = ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
