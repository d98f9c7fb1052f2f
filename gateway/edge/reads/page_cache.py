"""Keeps pages of boards while the boards do not change, and lets readers revalidate their own copies.

Every request asks Redis for the version of its window; requests of one moment share that question. A kept
page is sent only while its version is current, so no reader sees a board that is older than the request. The
answer also has what moved on the board since the last one: pages whose entries stayed are carried on.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from typing import Final

import orjson
from aiohttp import web
from multidict import CIMultiDict

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.responses import JSON
from gateway.edge.reads.board_reader import IS_AWAY, note_away
from gateway.edge.reads.carried_pages import PageSpan, body_of, template_of
from gateway.edge.reads.own_view import player_to_overlay
from gateway.edge.reads.read_budget import DECLARED, UNDECLARED, DeclaredCost
from gateway.edge.reads.staleness import is_behind
from gateway.index.board_index import Entry
from gateway.index.moves import UNMOVED, Moves
from gateway.index.versions import Version, Versions
from gateway.runtime.metering import on_account
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.windows import FOREVER_MS

CACHE_BYTES: Final = 32 * 2**20
"""Most bytes of pages that a process keeps."""

_OVERHEAD_BYTES: Final = 3584
"""Memory that a page takes beside its target and its body, with the head of an answer."""

_BOARD_BYTES: Final = 4096
"""Memory of a family's board, beside its metadata and parameters, which its page keeps from being let go."""

CARRIED_S: Final = 60.0
"""The longest that a page is carried on after it was read. Then it is read anew, so that no error lasts."""

_SHARED: Final = {"Cache-Control": "public, max-age=0, must-revalidate"}
_SOFTWARE: Final = installed_version("scoregate")


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page as it is sent.

    It may be kept if all of it is from the index, whose version changes whenever it does: under the `version`
    that it was read with, or else under one that did not change meanwhile. With a `span` it may be carried on
    to later versions.
    """

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    is_from_index: bool = True
    span: PageSpan | None = None
    version: Version | None = None


Render = Callable[[], Awaitable[RenderedPage]]


@dataclass(slots=True)
class VersionedPage:
    """A page under one version. `head` is what `usual_reads` makes of its headers once it sends it."""

    version: Version
    body: bytes
    headers: CIMultiDict[str]
    span: PageSpan | None = None
    template: bytes = b""
    until_s: float = 0.0
    head: bytes = b""


class CachedPage:
    """The page of one target: its window, its renderer, and when (Unix ms) the target changes its meaning.

    A read of it costs what is `declared`. One with an entry that only its reader sees, the reader's `own`, is
    in no cache.
    """

    def __init__(
        self,
        target: str,
        board: Board,
        window: str,
        render: Render,
        until_ms: int = FOREVER_MS,
        *,
        own: Entry | None = None,
        declared: DeclaredCost = UNDECLARED,
    ) -> None:
        self.declared = declared
        self.board = board
        self.window = window
        self.render = render
        self.until_ms = until_ms
        self.latest: VersionedPage | None = None
        self.rendering: tuple[Version, asyncio.Task[VersionedPage | RenderedPage]] | None = None
        self.is_in_cache = own is None
        self._hidden = 0 if own is None else 1
        # Other software or another policy may render it differently under the same version.
        facts = f"{_SOFTWARE}\n{board.digest}\n{window}\n{target}" + (f"\n{own}" if own else "")
        self._stem = hashlib.blake2b(facts.encode(), digest_size=6).hexdigest()
        self._own_bytes = _OVERHEAD_BYTES + len(target) + _size_of(board)

    def tag(self, version: Version) -> str:
        """Return the entity tag of the page under a version."""
        return f'"{self._stem}-{version.name}-{version.total + self._hidden}"'

    @property
    def size_bytes(self) -> int:
        """Return the memory that it takes."""
        return self._own_bytes + (len(self.latest.body) + len(self.latest.template) if self.latest else 0)


def _size_of(board: Board) -> int:
    """Return about how much memory a page takes for its board (bytes), none for one of a file."""
    if board.opened is None:
        return 0
    # A small dictionary takes some times as much as its JSON.
    return _BOARD_BYTES + 4 * len(orjson.dumps(dict(board.opened.metadata))) + len(board.opened.parameters)


class PageCache:
    """The pages that one process keeps. The least recently read is dropped first."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._pages: OrderedDict[str, CachedPage] = OrderedDict()

    async def page_of(self, request: web.Request) -> CachedPage | None:
        """Return the page of the request's target, if the target still means it to who sent the request.

        Raises LedgerUnavailable if a family's board has to be read again, and cannot be.
        """
        target = request.raw_path
        page = self._pages.get(target)
        if page is not None and player_to_overlay(request, page.board):
            return None
        while page is not None and not await _is_current(request, page):
            if page.is_in_cache:
                self.forget(target)
            page = self._pages.get(target)  # another reader may have added a newer one meanwhile
        if page is not None and page.is_in_cache:
            self._pages.move_to_end(target)
        return page

    def at_hand(self, edge: Edge, target: str) -> CachedPage | None:
        """Return the page of a target if it is kept, and is known without waiting to mean the same still."""
        page = self._pages.get(target)
        if page is None or page.until_ms <= edge.clock():
            return None
        if edge.catalogue.at_hand(page.board.name) is not page.board:
            return None
        self._pages.move_to_end(target)
        return page

    def remember(
        self, request: web.Request, board: Board, window: str, render: Render, *, until_ms: int = FOREVER_MS
    ) -> CachedPage:
        """Add the page of the request's target, unless another reader has just added it, and return it."""
        target = request.raw_path
        known = self._pages.get(target)
        is_known = known is not None and known.board is board and known.window == window
        if known is not None and is_known and known.until_ms > request.app[EDGE].clock():
            return known
        self.forget(target)
        page = self._pages[target] = CachedPage(
            target, board, window, render, until_ms, declared=request.get(DECLARED, UNDECLARED)
        )
        self._grow(page.size_bytes)
        return page

    async def answer(self, request: web.Request, page: CachedPage) -> web.Response:
        """Return the page as it is now, or a 304 for a reader that has it. Raises what rendering raises."""
        index = request.app[EDGE].index.of(page.board)
        versions = index.versions
        if IS_AWAY.get():
            return _unkept(request, await page.render())
        try:
            if index.residency.is_limited:  # a board that is read from kept pages alone is in use as well
                await index.residency.note_use()
            version = await versions.of(page.window)
        except IndexUnavailable as error:
            # No kept page is known to be current now, but the ledger may have the entries.
            note_away(error)
            return _unkept(request, await page.render())
        if _is_named(request, page, version):
            return _not_modified(page.tag(version))
        latest = self.kept(page, version, versions.moves)
        if latest is None:
            rendered = await self.rendered_once(page, version, versions)
            if isinstance(rendered, RenderedPage):
                return _unkept(request, rendered)
            latest = rendered
        return web.Response(body=latest.body, headers=CIMultiDict(latest.headers))

    def kept(self, page: CachedPage, version: Version, moves: Moves) -> VersionedPage | None:
        """Return the page under a version, None if it has to be rendered anew for that."""
        latest = page.latest
        if latest is None or latest.version == version:
            return latest
        return self._carried(page, latest, version, moves)

    def _carried(
        self, page: CachedPage, latest: VersionedPage, version: Version, moves: Moves
    ) -> VersionedPage | None:
        """Return the page under a later version, if nothing that it shows has changed but its numbers."""
        span, since = latest.span, latest.version.name
        if span is None or latest.until_s < asyncio.get_running_loop().time():
            return None
        shift = moves.shift(page.window, since, version.name, span.low, span.high)
        carried = span.shifted(shift) if shift else None
        if carried is None or carried.total != version.total:
            return None
        if any(
            b'"player":"%b"' % name.encode() in latest.body for name in moves.renamed(since, version.name)
        ):
            return None
        body, template = latest.body, latest.template
        if shift != UNMOVED:
            template = template or template_of(body)
            body = body_of(template, carried)
        headers = latest.headers.copy()
        headers["ETag"] = page.tag(version)
        return self._keep(page, VersionedPage(version, body, headers, carried, template, latest.until_s))

    async def rendered_once(
        self, page: CachedPage, version: Version, versions: Versions
    ) -> VersionedPage | RenderedPage:
        """Render the page once for all who wait for it under this version."""
        if page.rendering is None or page.rendering[0] != version:
            # The first of them pays for it.
            task = asyncio.create_task(on_account(self._rendered(page, version, versions)))
            page.rendering = (version, task)
        # One reader that hangs up must not take the page from the others.
        return await asyncio.shield(page.rendering[1])

    async def _rendered(
        self, page: CachedPage, version: Version, versions: Versions
    ) -> VersionedPage | RenderedPage:
        try:
            rendered = await page.render()
            if not rendered.is_from_index:
                return rendered
            if rendered.version is None and not await _is_still(page.window, version, versions):
                return rendered
            under = rendered.version or version
            headers = CIMultiDict(JSON | dict(rendered.headers) | _SHARED | {"ETag": page.tag(under)})
            # Pages that were read together must not all be read anew together.
            until_s = asyncio.get_running_loop().time() + CARRIED_S * random.uniform(0.5, 1)  # noqa: S311 - spread, not secret
            return self._keep(
                page, VersionedPage(under, rendered.body, headers, rendered.span, until_s=until_s)
            )
        finally:
            if page.rendering is not None and page.rendering[0] == version:
                page.rendering = None

    def _keep(self, page: CachedPage, latest: VersionedPage) -> VersionedPage:
        before_bytes, page.latest = page.size_bytes, latest
        # A page that was dropped while it was rendered must not count: nobody would ever subtract it.
        if page.is_in_cache:
            self._grow(page.size_bytes - before_bytes)
        return latest

    def forget(self, target: str) -> None:
        """Let go of a target's page."""
        page = self._pages.pop(target, None)
        if page is not None:
            page.is_in_cache = False
            self._size_bytes -= page.size_bytes

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        while self._size_bytes > self._limit_bytes and self._pages:
            self.forget(next(iter(self._pages)))


async def _is_still(window: str, version: Version, versions: Versions) -> bool:
    """Return whether a window has the same version as before; not if the index does not answer."""
    try:
        return await versions.of(window) == version
    except IndexUnavailable as error:
        note_away(error)
        return False


async def _is_current(request: web.Request, page: CachedPage) -> bool:
    """Return whether a page's target means the same still, and its board was neither changed nor deleted."""
    board, edge = page.board, request.app[EDGE]
    return page.until_ms > edge.clock() and await edge.catalogue.board(board.name) is board


def revalidated(request: web.Request, response: web.Response) -> web.Response:
    """Return a public answer with an entity tag made of its bytes, or a 304 for a reader that has them."""
    if response.status != web.HTTPOk.status_code or "Cache-Control" in response.headers:
        return response
    assert isinstance(response.body, bytes)
    tag = tag_of(response.body)
    if _has(request, tag):
        return _not_modified(tag)
    response.headers.update(shared_headers(tag))
    return response


def tag_of(body: bytes) -> str:
    """Return the entity tag of an answer that is not kept under a version."""
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def _unkept(request: web.Request, rendered: RenderedPage) -> web.Response:
    return revalidated(request, web.Response(body=rendered.body, headers=JSON | dict(rendered.headers)))


def _is_named(request: web.Request, page: CachedPage, version: Version) -> bool:
    # Building the tag costs more than this look, and most requests name none.
    return "If-None-Match" in request.headers and _has(request, page.tag(version))


def _has(request: web.Request, tag: str) -> bool:
    """Return whether the reader has the answer with this tag (RFC 9110, section 13.1.2: weak comparison)."""
    return not is_behind(request) and any(f'"{etag.value}"' == tag for etag in request.if_none_match or ())


def _not_modified(tag: str) -> web.Response:
    return web.Response(status=web.HTTPNotModified.status_code, headers=shared_headers(tag))


def shared_headers(tag: str) -> dict[str, str]:
    """Return the headers of a public answer with this tag, all of them that a 304 has."""
    return _SHARED | {"ETag": tag}


PAGES: Final = web.AppKey("pages", PageCache)
