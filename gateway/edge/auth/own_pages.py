"""Whether a request comes from a page of this deployment, as browsers say (Origin, Sec-Fetch-Site)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.problems import Problem, ProblemType
from gateway.runtime.settings import LOOPBACK

_SCHEMES: Final = ("http", "https")

_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""What `Sec-Fetch-Site` says of our own pages, and of what a person began: an address that was typed in."""


def is_own_origin(request: web.Request, origin: str) -> bool:
    """Return whether an `Origin` is one of this deployment, whose pages may come through a proxy with TLS."""
    hosts = request.app[EDGE].settings.allowed_hosts
    return origin.lower() in {f"{scheme}://{host}" for scheme in _SCHEMES for host in hosts}


def address_at(host: str, path: str) -> str:
    """Return the address of a page of ours: over HTTPS, or plain for this machine alone."""
    is_here = urlsplit(f"//{host}").hostname in LOOPBACK
    return f"{'http' if is_here else 'https'}://{host}{path}"


def refuse_foreign_pages(request: web.Request, *, is_cookie: bool) -> None:
    """Raise `csrf` for a request of a page of another site.

    With `is_cookie` the request rests on what browsers add by themselves, and has to say where it comes from.
    """
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    if origin is not None and not is_own_origin(request, origin):
        raise Problem(ProblemType.CSRF, "Origin: expected a page of this deployment")
    if site is not None and site not in _OWN_SITES:
        raise Problem(ProblemType.CSRF, "Sec-Fetch-Site: expected a page of this deployment")
    if is_cookie and origin is None and site is None:
        raise Problem(ProblemType.CSRF, "Origin: expected with the cookie of a session")


def refuse_plain_http(request: web.Request) -> None:
    """Raise `insecure-origin` for a page whose browser would not keep the cookie of a session.

    Browsers keep `Secure` cookies of pages over HTTPS, and of the loopback addresses.
    """
    origin = urlsplit(request.headers.get("Origin", ""))
    if origin.scheme == "http" and origin.hostname not in LOOPBACK:
        raise Problem(
            ProblemType.INSECURE_ORIGIN,
            "over plain HTTP a browser does not keep the session: use https://, or http://localhost",
        )
