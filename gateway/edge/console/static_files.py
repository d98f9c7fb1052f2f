"""The console's own files, each under a name with its digest, so that a browser keeps it for good."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

STATIC: Final = "/console/static/"

_FOLDER: Final = Path(__file__).parent / "static"

_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_DIGITS: Final = 12
"""Hexadecimal digits of the digest in a name."""

_IMPORTED: Final = re.compile(rb'(?<=from "\./)[a-z_]+\.js(?=")')
"""The name of a module that another one imports."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is served: its path, which names its content, its media type and its bytes."""

    path: str
    content_type: str
    body: bytes


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return the files by the name that templates use: the file's own, without its folder."""
    files = {file.name: file for file in sorted(_FOLDER.rglob("*")) if file.suffix in _TYPES}
    served: dict[str, StaticFile] = {}
    for name in files:
        _serve(name, files, served)
    return served


def _serve(name: str, files: Mapping[str, Path], served: dict[str, StaticFile]) -> StaticFile:
    """Add a file, after the modules that it imports: their names are part of its content."""
    if name not in served:
        file = files[name]
        body = _IMPORTED.sub(
            lambda match: _serve(match[0].decode(), files, served).path.removeprefix(STATIC).encode(),
            file.read_bytes(),
        )
        digest = hashlib.sha256(body).hexdigest()[:_DIGITS]
        path = f"{STATIC}{file.stem}-{digest}{file.suffix}"
        served[name] = StaticFile(path, _TYPES[file.suffix], body)
    return served[name]


def add_static_files(app: web.Application) -> None:
    """Add a route for each file."""
    for file in static_files().values():
        app.router.add_get(file.path, _sender(file))


def _sender(file: StaticFile) -> Handler:
    async def send(_request: web.Request) -> web.Response:
        return web.Response(body=file.body, headers=_HEADERS | {"Content-Type": file.content_type})

    return send
