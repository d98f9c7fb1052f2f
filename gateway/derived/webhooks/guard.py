"""Where webhooks may go: public addresses over TLS, and hosts that the operator has named.

A name is looked up once and what was found is what is connected to, so a name whose address changes in between (DNS
rebinding) gains nothing. Whatever embeds an IPv4 address is judged by that one.
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
"""RFC 6052: the last 32 bits are an IPv4 address, which a gateway connects to."""


class AddressForbidden(OSError):
    """The host has no address that webhooks may go to."""


def check_url(text: str, hosts: Collection[str]) -> URL:
    """The address of an endpoint. Raises SettingsError for one that webhooks may not go to.

    `hosts` are those that may be plain HTTP and private, as `name`, or `name:port` for that port alone.
    """
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        raise SettingsError(f"{text!r} is no URL: {error}") from None
    if url.scheme not in ("https", "http") or not url.host or port is None:
        raise SettingsError(f"{text!r}: expected https://<host>/<path>")
    if url.raw_user is not None or url.raw_password is not None or url.raw_fragment:
        raise SettingsError("a webhook's URL has no user, no password and no fragment")
    if len(text) > URL_LENGTH or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(f"a webhook's URL is printable ASCII of at most {URL_LENGTH} characters")
    if is_named(url.host, port, hosts):
        return url
    if url.scheme != "https":
        raise SettingsError(f"{url.host}: expected https, or the host in SCOREGATE_WEBHOOK_HOSTS")
    if looks_like_address(url.host) and not is_public(url.host):
        raise SettingsError(
            f"{url.host} is no public address; name it in SCOREGATE_WEBHOOK_HOSTS to allow it"
        )
    return url


def is_named(host: str, port: int, hosts: Collection[str]) -> bool:
    """Whether the operator has named a host."""
    shown = f"[{host}]" if ":" in host else host
    return any(each in hosts for each in (shown, host, f"{shown}:{port}"))


def looks_like_address(host: str) -> bool:
    """Whether a host may be taken for an address.

    aiohttp hands those to the system past our resolver, and the system knows `2130706433` and `0177.1` for 127.0.0.1 too.
    """
    return ":" in host or host.replace(".", "").isdigit()


def is_public(address: str) -> bool:
    """Whether an address is one of the internet's: not private, loopback, link-local, shared, multicast or reserved."""
    try:
        found = _embedded(ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


class GuardedResolver(AbstractResolver):
    """Finds the addresses of a host, and gives those that webhooks may go to."""

    def __init__(self, hosts: Collection[str], resolver: AbstractResolver | None = None) -> None:
        self._hosts = hosts
        self._resolver = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The allowed addresses of a host. Raises AddressForbidden if it has no other than forbidden ones."""
        found = await self._resolver.resolve(host, port, family)
        if is_named(host, port, self._hosts):
            return found
        allowed = [each for each in found if is_public(each["host"])]
        if not allowed:
            raise AddressForbidden(f"{host} has no public address")
        return allowed

    async def close(self) -> None:
        """Ends the resolver."""
        await self._resolver.close()
