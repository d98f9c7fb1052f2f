"""The routes of pages for browsers: the home page, the arcade game, the references, `/openapi.json`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.context import EDGE, Edge
from gateway.edge.docs.drawn_pages import DESCRIPTION, load_pages
from gateway.edge.docs.first_submission import board_and_build, fill_in
from gateway.edge.docs.home import draw_home, home_template
from gateway.edge.docs.player_page import security_of
from gateway.edge.docs.sections import OVERVIEW, page_paths, reference_folder
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


@cache
def _load() -> Mapping[str, bytes]:
    """Return the pages, loaded once for all edges of this process."""
    return load_pages()


def add_pages(app: web.Application, edge: Edge) -> None:
    """Add the pages to the application. Files are read now; references are loaded at the first request."""
    _serve_drawn(app, DESCRIPTION, "application/json")
    for path in page_paths(reference_folder()):
        _serve_drawn(app, path, _TYPES[".html"])
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
    body = draw_home(request.app[EDGE])
    return web.Response(
        body=body, headers=SECURITY | {"Content-Type": _TYPES[".html"], "Cache-Control": "no-cache"}
    )


def _serve_file(app: web.Application, path: str, file: Path, security: Mapping[str, str] = SECURITY) -> None:
    body, content_type = file.read_bytes(), _TYPES[file.suffix]

    async def page(_request: web.Request) -> web.Response:
        return _page(body, content_type, security)

    app.router.add_get(path, page)


def _serve_drawn(app: web.Application, path: str, content_type: str) -> None:
    async def page(request: web.Request) -> web.Response:
        pages = await asyncio.to_thread(_load_once)
        body = pages[path]
        if path == OVERVIEW:
            body = fill_in(body, request.host, *board_and_build(request.app[EDGE]))
        return _page(body, content_type)

    app.router.add_get(path, budgeted(path, page))


def _page(body: bytes, content_type: str, security: Mapping[str, str] = SECURITY) -> web.Response:
    return web.Response(
        body=body, headers={**security, "Content-Type": content_type, "Cache-Control": "no-cache"}
    )


def _load_once() -> Mapping[str, bytes]:
    """Return the drawn pages by path, waiting for a thread that is drawing them."""
    with _loading:
        return _load()


def _redirect(target: str) -> Handler:
    async def redirect(_request: web.Request) -> web.Response:
        raise web.HTTPFound(target)

    return redirect
