"""Draws pages of the console: the template environment, and the headers that every page has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from gateway.edge.console import wording
from gateway.edge.console.static_files import static_files
from gateway.edge.context import EDGE

if TYPE_CHECKING:
    from jinja2 import Environment

THEME: Final = "scoregate-theme"
"""The cookie with the colours that somebody chose; scripts may read it, since it says nothing else."""

_THEMES: Final = frozenset({"dark", "light"})

_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "same-origin",  # without any, browsers send `Origin: null` with the forms of a page
    "Vary": "HX-Request",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src {frames}; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "require-trusted-types-for 'script'; trusted-types scoregate"
)


@cache
def environment() -> Environment:
    """Return the templates, which escape all values and raise for missing ones.

    The first call loads the engine, which no other part of a running edge needs.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    drawing = Environment(
        loader=PackageLoader("gateway.edge.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawing.filters |= {
        "number": wording.number,
        "time": wording.day_and_time,
        "since": wording.since,
        "span": wording.span,
        "state": wording.state_name,
        "actor": wording.actor_name,
        "phrase": wording.phrase,
        "window": wording.window_name,
        "browser": wording.browser_name,
    }
    drawing.globals["static"] = {name: file.path for name, file in static_files().items()}
    return drawing


def is_fragment(request: web.Request) -> bool:
    """Return whether htmx asks for a part of a page that is open already."""
    return request.headers.get("HX-Request") == "true"


def draw(
    request: web.Request,
    template: str,
    *,
    status: int = 200,
    frames: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> web.Response:
    """Return a page. `frames` are the origins of the pages that it may show in frames."""
    theme = request.cookies.get(THEME, "")
    text = (
        environment()
        .get_template(template)
        .render(
            values
            | {
                "now_ms": request.app[EDGE].clock(),
                "path": request.path,
                "theme": theme if theme in _THEMES else "",
                "is_fragment": is_fragment(request),
            }
        )
    )
    policy = _POLICY.format(frames=" ".join(frames) or "'none'")
    return web.Response(
        text=text,
        status=status,
        headers=_HEADERS | {"Content-Security-Policy": policy} | dict(headers or {}),
    )


def go_to(request: web.Request, path: str) -> web.Response:
    """Return the answer that has the browser open another page, after a form or instead of a page."""
    where = {"HX-Redirect": path} if is_fragment(request) else {"Location": path}
    status = 200 if is_fragment(request) else 303
    return web.Response(status=status, headers={"Cache-Control": "no-store"} | where)
