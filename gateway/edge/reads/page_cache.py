"""Pages of boards, kept while their board has not changed, and the validators by which readers need not get them twice.

Redis is asked for the version of a window for every request, once for all requests of a moment. A kept page is given
only while its version is the current one, so no reader sees a board that is older than the request.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from typing import Final

from aiohttp import web
from multidict import CIMultiDict

from gateway.edge.context import EDGE
from gateway.edge.http.responses import JSON
from gateway.edge.reads.board_reader import note_away
from gateway.edge.reads.staleness import is_behind
from gateway.index.versions import Version, Versions
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.windows import FOREVER_MS

CACHE_BYTES: Final = 32 * 2**20
"""Most bytes of pages that a process keeps."""

_OVERHEAD_BYTES: Final = 2048
"""What keeping a page takes beside its target and its body."""

_SHARED: Final = {"Cache-Control": "public, max-age=0, must-revalidate"}
_SOFTWARE: Final = installed_version("scoregate")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page as it is sent. It may be kept if all of it is from the index, whose version tells when that changes."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    is_of_index: bool = True


Draw = Callable[[], Awaitable[Drawn]]


@dataclass(frozen=True, slots=True)
class _Kept:
    version: Version
    body: bytes
    headers: CIMultiDict[str]


class Asked:
    """A page that readers ask for by one target: of which window, until when (Unix ms) they mean that, how to draw it."""

    def __init__(self, target: str, board: Board, window: str, draw: Draw, until_ms: int) -> None:
        self.board = board.name
        self.window = window
        self.draw = draw
        self.until_ms = until_ms
        self.kept: _Kept | None = None
        self.drawing: tuple[Version, asyncio.Task[_Kept | Drawn]] | None = None
        self.is_known = True
        # Other software and another policy may draw it otherwise under the same version.
        facts = f"{_SOFTWARE}\n{board.digest}\n{window}\n{target}"
        self._stem = hashlib.blake2b(facts.encode(), digest_size=6).hexdigest()
        self._own_bytes = _OVERHEAD_BYTES + len(target)

    def tag(self, version: Version) -> str:
        """The entity tag of the page under a version."""
        return f'"{self._stem}-{version.name}-{version.total}"'

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self._own_bytes + (len(self.kept.body) if self.kept else 0)


class PageCache:
    """The pages that one process keeps. The least recently read is given up first."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._known: OrderedDict[str, Asked] = OrderedDict()

    def known(self, request: web.Request) -> Asked | None:
        """What a request of the same target asked for, if it is still what that means."""
        asked = self._known.get(request.raw_path)
        if asked is None:
            return None
        if asked.until_ms <= request.app[EDGE].clock():
            self._forget(request.raw_path)
            return None
        self._known.move_to_end(request.raw_path)
        return asked

    def remember(
        self, request: web.Request, board: Board, window: str, draw: Draw, *, until_ms: int = FOREVER_MS
    ) -> Asked:
        """What a request asks for, once it is understood."""
        target = request.raw_path
        self._forget(target)
        asked = self._known[target] = Asked(target, board, window, draw, until_ms)
        self._grow(asked.size)
        return asked

    async def answer(self, request: web.Request, asked: Asked) -> web.Response:
        """The page as it is now, or a 304 for a reader that has it. Raises what drawing it raises."""
        index = request.app[EDGE].index.boards[asked.board]
        versions = index.versions
        try:
            if index.residency.is_limited:  # a board that is read from kept pages alone is in use as well
                await index.residency.note_use()
            version = await versions.of(asked.window)
        except IndexUnavailable as error:  # nothing is known to be current; the page may come from elsewhere
            note_away(error)
            return _unkept(request, await asked.draw())
        if _is_named(request, asked, version):
            return _not_modified(asked.tag(version))
        kept = asked.kept
        if kept is None or kept.version != version:
            drawn = await self._drawn_once(asked, version, versions)
            if isinstance(drawn, Drawn):
                return _unkept(request, drawn)
            kept = drawn
        return web.Response(body=kept.body, headers=CIMultiDict(kept.headers))

    async def _drawn_once(self, asked: Asked, version: Version, versions: Versions) -> _Kept | Drawn:
        """The page, drawn once for all who wait for it under this version."""
        if asked.drawing is None or asked.drawing[0] != version:
            task = asyncio.create_task(self._drawn(asked, version, versions))
            asked.drawing = (version, task)
        return await asyncio.shield(asked.drawing[1])

    async def _drawn(self, asked: Asked, version: Version, versions: Versions) -> _Kept | Drawn:
        try:
            drawn = await asked.draw()
            # No version comes twice: what was read between two looks at the same one was read under it.
            if not drawn.is_of_index or await versions.of(asked.window) != version:
                return drawn
            headers = JSON | dict(drawn.headers) | _SHARED | {"ETag": asked.tag(version)}
            return self._keep(asked, _Kept(version, drawn.body, CIMultiDict(headers)))
        finally:
            if asked.drawing is not None and asked.drawing[0] == version:
                asked.drawing = None

    def _keep(self, asked: Asked, kept: _Kept) -> _Kept:
        before, asked.kept = asked.size, kept
        if asked.is_known:
            self._grow(asked.size - before)
        return kept

    def _forget(self, target: str) -> None:
        asked = self._known.pop(target, None)
        if asked is not None:
            asked.is_known = False
            self._size -= asked.size

    def _grow(self, size: int) -> None:
        self._size += size
        while self._size > self._limit and self._known:
            self._forget(next(iter(self._known)))


def revalidated(request: web.Request, response: web.Response) -> web.Response:
    """A public answer with a validator made of its bytes, or a 304 for a reader that has them."""
    if response.status != web.HTTPOk.status_code or "Cache-Control" in response.headers:
        return response
    assert isinstance(response.body, bytes)
    tag = f'"{hashlib.blake2b(response.body, digest_size=12).hexdigest()}"'
    if _has(request, tag):
        return _not_modified(tag)
    response.headers.update(_SHARED | {"ETag": tag})
    return response


def _unkept(request: web.Request, drawn: Drawn) -> web.Response:
    return revalidated(request, web.Response(body=drawn.body, headers=JSON | dict(drawn.headers)))


def _is_named(request: web.Request, asked: Asked, version: Version) -> bool:
    return "If-None-Match" in request.headers and _has(request, asked.tag(version))


def _has(request: web.Request, tag: str) -> bool:
    """True if the reader has what bears this tag (RFC 9110, section 13.1.2: compared weakly)."""
    return not is_behind(request) and any(f'"{each.value}"' == tag for each in request.if_none_match or ())


def _not_modified(tag: str) -> web.Response:
    return web.Response(status=web.HTTPNotModified.status_code, headers=_SHARED | {"ETag": tag})


PAGES: Final = web.AppKey("pages", PageCache)
