"""What people open in a browser: the arcade game, the interface's reference, and `/openapi.json`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.context import Edge
from gateway.edge.openapi import describe
from gateway.edge.reference import draw_pages
from gateway.edge.routes import ROUTES
from gateway.settings import bundled_policies

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

_CLIENT: Final = "scoregate.js"
"""The JavaScript client: it lies beside the game in an installation, in `clients/` in a checkout."""


def add_pages(app: web.Application, edge: Edge) -> None:
    """Adds the pages, each read once."""
    document = describe(ROUTES)
    _serve(app, "/openapi.json", orjson.dumps(document, option=orjson.OPT_INDENT_2), "application/json")
    written = bundled_policies().parent / "docs" / "reference"
    for path, html in draw_pages(document, ROUTES, written).items():
        _serve(app, path, html.encode(), _TYPES[".html"])
    for name in ("reference.css", "icon.svg"):
        _serve_file(app, f"/docs/{name}", Path(str(files("gateway.edge") / "templates" / name)))
    _add_arcade(app, edge.settings.arcade_dir)


def _add_arcade(app: web.Application, folder: Path) -> None:
    if not (folder / "index.html").is_file():
        return
    for file in sorted(folder.iterdir()):
        if file.suffix in _TYPES and file.name != _CLIENT:
            _serve_file(app, f"/arcade/{file.name}", file)
    _serve_file(app, "/arcade/", folder / "index.html")
    installed, in_checkout = folder / _CLIENT, folder.parent.parent / "clients" / "javascript" / _CLIENT
    _serve_file(app, f"/arcade/{_CLIENT}", installed if installed.is_file() else in_checkout)
    app.router.add_get("/arcade", _redirect("/arcade/"))
    app.router.add_get("/", _redirect("/arcade/"))


def _serve_file(app: web.Application, path: str, file: Path) -> None:
    _serve(app, path, file.read_bytes(), _TYPES[file.suffix])


def _serve(app: web.Application, path: str, body: bytes, content_type: str) -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(
            body=body, headers=SECURITY | {"Content-Type": content_type, "Cache-Control": "no-cache"}
        )

    app.router.add_get(path, page)


def _redirect(target: str) -> Handler:
    async def redirect(_request: web.Request) -> web.Response:
        raise web.HTTPFound(target)

    return redirect
