"""The routes of pages for browsers: the home page, the arcade game, the references, `/openapi.json`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.context import EDGE, Edge
from gateway.edge.docs.drawn_pages import DESCRIPTION, load_pages
from gateway.edge.docs.first_submission import board_and_build, fill_in
from gateway.edge.docs.home import draw_home, home_template
from gateway.edge.docs.player_page import security_of
from gateway.edge.docs.sections import OVERVIEW, page_paths, reference_folder
from gateway.edge.docs.stored_page import StoredPage
from gateway.edge.reads.read_budget import budgeted

SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".wasm": "application/wasm",
    ".svg": "image/svg+xml",
}

_CLIENT: Final = "scoregate"
"""The folder of the JavaScript client: beside the game in an installation, in `clients/` in a checkout."""

_loading: Final = threading.Lock()


class _Pages(NamedTuple):
    """The overview, in which the host that was asked is filled in, and all other pages by path."""

    overview: bytes
    stored: Mapping[str, StoredPage]


@cache
def _load() -> _Pages:
    """Return the pages, loaded once for all edges of this process."""
    drawn = dict(load_pages())
    overview = drawn.pop(OVERVIEW)
    html = _headers(_TYPES[".html"])
    headers = {DESCRIPTION: _headers("application/json")}
    return _Pages(overview, {path: StoredPage(body, headers.get(path, html)) for path, body in drawn.items()})


def add_pages(app: web.Application, edge: Edge) -> None:
    """Add the pages to the application. Files are read now; references are loaded at the first request."""
    app.router.add_get(OVERVIEW, budgeted(OVERVIEW, _overview))
    for path in (DESCRIPTION, *page_paths(reference_folder())):
        if path != OVERVIEW:
            app.router.add_get(path, budgeted(path, _drawn))
    for name in ("reference.css", "icon.svg"):
        _serve_file(app, f"/docs/{name}", Path(str(files("gateway.edge.docs") / "templates" / name)))
    _add_arcade(app, edge.settings.arcade_dir)
    app.router.add_get("/", budgeted("/", _home))


def _add_arcade(app: web.Application, folder: Path) -> None:
    if not (folder / "index.html").is_file():
        return
    for file in sorted(folder.iterdir()):
        if file.suffix in _TYPES:
            _serve_file(app, f"/arcade/{file.name}", file, SECURITY | security_of(file.name))
    _serve_file(app, "/arcade/", folder / "index.html")
    installed, in_checkout = folder / _CLIENT, folder.parent.parent / "clients" / "javascript" / "src"
    for module in sorted((installed if installed.is_dir() else in_checkout).glob("*.js")):
        _serve_file(app, f"/arcade/{_CLIENT}/{module.name}", module)
    app.router.add_get("/arcade", _redirect("/arcade/"))


async def _home(request: web.Request) -> web.Response:
    # Drawn for each request, since boards may change while the edge runs.
    await asyncio.to_thread(home_template)  # the first time it takes hundredths of a second
    return web.Response(body=draw_home(request.app[EDGE]), headers=_headers(_TYPES[".html"]))


def _serve_file(app: web.Application, path: str, file: Path, security: Mapping[str, str] = SECURITY) -> None:
    stored = StoredPage(file.read_bytes(), _headers(_TYPES[file.suffix], security))

    async def page(request: web.Request) -> web.Response:
        return stored.answer(request)

    app.router.add_get(path, page)


async def _drawn(request: web.Request) -> web.Response:
    pages = await asyncio.to_thread(_load_once)
    return pages.stored[request.path].answer(request)


async def _overview(request: web.Request) -> web.Response:
    pages = await asyncio.to_thread(_load_once)
    body = fill_in(pages.overview, request.host, *board_and_build(request.app[EDGE]))
    return web.Response(body=body, headers=_headers(_TYPES[".html"]))


def _headers(content_type: str, security: Mapping[str, str] = SECURITY) -> dict[str, str]:
    return {**security, "Content-Type": content_type, "Cache-Control": "no-cache"}


def _load_once() -> _Pages:
    """Return the pages, waiting for a thread that is loading them."""
    with _loading:
        return _load()


def _redirect(target: str) -> Handler:
    async def redirect(_request: web.Request) -> web.Response:
        raise web.HTTPFound(target)

    return redirect
