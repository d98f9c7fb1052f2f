"""Which client a request comes from, as far as that can be known, and how it is named without naming it."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from policies.errors import SettingsError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

IPV6_PREFIX = 64
"""One subscriber has at least a /64 (RFC 6177), so a single IPv6 address means nothing."""


class ClientAddresses:
    """Names a client by a keyed hash of its address.

    That is the peer's address, or behind configured proxies the right-most hop that none of them is. What a client
    writes into forwarding headers itself stands further left and is never looked at.
    """

    def __init__(self, trusted_proxies: Sequence[str], key: bytes) -> None:
        try:
            self._trusted: tuple[Network, ...] = tuple(ip_network(each) for each in trusted_proxies)
        except ValueError as error:
            raise SettingsError(
                f"SCOREGATE_TRUSTED_PROXIES: expected addresses or networks: {error}"
            ) from None
        self._key = key
        self._name = lru_cache(maxsize=65_536)(self._hash)

    def name(self, peer: str | None, forwarded_for: Sequence[str]) -> str:
        """24 hex digits that stand for the client; they cannot be turned back without the key."""
        if not self._trusted or not forwarded_for:
            return self._name(peer or "")
        return self._name(self._outermost(peer or "", forwarded_for))

    def _outermost(self, peer: str, forwarded_for: Sequence[str]) -> str:
        hops = [hop.strip() for line in forwarded_for for hop in line.split(",")]
        for hop in (peer, *reversed(hops)):
            address = _parse(hop)
            if address is None or not any(address in network for network in self._trusted):
                return hop if address else peer
        return peer

    def _hash(self, text: str) -> str:
        address = _parse(text)
        if isinstance(address, IPv6Address):
            known = str(IPv6Network((address, IPV6_PREFIX), strict=False))
        else:
            known = str(address)
        return hmac.digest(self._key, known.encode(), "sha256").hex()[:24]


def _parse(text: str) -> Address | None:
    try:
        address = ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
