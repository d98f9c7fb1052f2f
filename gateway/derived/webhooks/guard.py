"""Limits where webhooks may go: to public addresses over TLS, and to hosts that the operator has named.

A name is resolved once and the connection uses that result, so changing the address in between (DNS
rebinding) gains nothing. An address that embeds an IPv4 address is judged by the embedded one.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from policies.errors import SettingsError

URL_LENGTH: Final = 2_000

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""RFC 6052: a gateway connects to the IPv4 address in the last 32 bits."""


class AddressForbidden(OSError):
    """The host has no address that webhooks may go to."""


def check_url(text: str, hosts: Collection[str]) -> URL:
    """Return the parsed URL of an endpoint. Raises SettingsError if webhooks may not go there.

    `hosts` may use plain HTTP and private addresses; each is `name`, or `name:port` for that port only.
    """
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        raise SettingsError(f"{text!r} is not a URL: {error}") from None
    if url.scheme not in ("https", "http") or not url.host or port is None:
        raise SettingsError(f"{text!r}: expected https://<host>/<path>")
    if url.raw_user is not None or url.raw_password is not None or url.raw_fragment:
        raise SettingsError("a webhook's URL must have no user, no password and no fragment")
    if len(text) > URL_LENGTH or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(f"a webhook's URL must be printable ASCII of at most {URL_LENGTH} characters")
    if is_named(url.host, port, hosts):
        return url
    if url.scheme != "https":
        raise SettingsError(f"{url.host}: expected https, or the host in SCOREGATE_WEBHOOK_HOSTS")
    if looks_like_address(url.host) and not is_public(url.host):
        raise SettingsError(
            f"{url.host} is not a public address; name it in SCOREGATE_WEBHOOK_HOSTS to allow it"
        )
    return url


def is_named(host: str, port: int, hosts: Collection[str]) -> bool:
    """Return whether the operator has named a host."""
    shown = f"[{host}]" if ":" in host else host
    return any(name in hosts for name in (shown, host, f"{shown}:{port}"))


def looks_like_address(host: str) -> bool:
    """Return whether the system may read a host as an address."""
    # aiohttp passes such hosts to the system without our resolver, and the system also reads `2130706433` and
    # `0177.1` as 127.0.0.1.
    return ":" in host or host.replace(".", "").isdigit()


def is_public(address: str) -> bool:
    """Return whether an address is public: not private, loopback, link-local, multicast and the like."""
    try:
        judged = _embedded(ip_address(address))
    except ValueError:
        return False
    return judged.is_global and not (judged.is_multicast or judged.is_reserved or judged.is_unspecified)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


class GuardedResolver(AbstractResolver):
    """Resolves hosts to addresses that webhooks may go to."""

    def __init__(self, hosts: Collection[str], resolver: AbstractResolver | None = None) -> None:
        self._hosts = hosts
        self._resolver = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a host. Raises AddressForbidden if it has none."""
        addresses = await self._resolver.resolve(host, port, family)
        if is_named(host, port, self._hosts):
            return addresses
        allowed = [address for address in addresses if is_public(address["host"])]
        if not allowed:
            raise AddressForbidden(f"{host} has no public address")
        return allowed

    async def close(self) -> None:
        """Close the resolver."""
        await self._resolver.close()
