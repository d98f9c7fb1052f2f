"""The short way of usual reads: those of a moment get their kept pages without aiohttp.

A request in the usual form for a page that is kept is taken before aiohttp parses it. All that ask for a
window at the same moment wait for one version of it, in a callback and not in a task for each. As soon as
anything about a request or its page is not usual, it goes on in aiohttp's way, which has every answer; then
nothing was done for it, and nothing charged. So only two answers are written here: a kept page, and that the
reader has it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from multidict import CIMultiDict

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.turnstile import Handfuls
from gateway.edge.context import Edge
from gateway.edge.http.responses import JSON
from gateway.edge.http.usual_heads import HEAD_BYTES, usual_fields
from gateway.edge.problems import COMMON_HEADERS
from gateway.edge.reads.board_reader import log_fault
from gateway.edge.reads.own_view import tell_apart
from gateway.edge.reads.page_cache import (
    CachedPage,
    PageCache,
    RenderedPage,
    VersionedPage,
    shared_headers,
    tag_of,
)
from gateway.edge.reads.read_budget import ReadBudgets
from gateway.index.board_index import BoardIndex
from gateway.index.versions import Version
from gateway.ledger.reads import READER
from gateway.runtime.metering import METER, CostMeter
from gateway.runtime.telemetry import request_seconds
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IndexUnavailable

if TYPE_CHECKING:
    from gateway.edge.connections import Connection

_BEGIN: Final = b"GET /v1/boards/"
_REQUEST_LINE: Final = re.compile(r"GET (/v1/boards/[!-~]+) HTTP/1\.1\r\n")
_TAG: Final = re.compile(r'(?:W/)?("[!#-~]*")')
_PAGE: Final = b"HTTP/1.1 200 OK\r\n"
_UNCHANGED: Final = b"HTTP/1.1 304 Not Modified\r\n"


@dataclass(slots=True, eq=False)
class UsualRead:
    """A read that waits for the version of its page, and what its turn has cost (ns).

    `tag` is of the page that the reader has, "" if it names none.
    """

    connection: Connection
    data: bytes
    path: str
    page: CachedPage
    names: ClientName
    origin: str
    tag: str
    began_s: float
    cost_ns: int = 0
    is_open: bool = True


def is_read(data: bytes) -> bool:
    """Return whether a write may be the read of a board, by its first bytes."""
    return data.startswith(_BEGIN)


class UsualReads:
    """The reads that wait for the next turn of the event loop, and those that wait for a version."""

    def __init__(self, edge: Edge, pages: PageCache, budgets: ReadBudgets) -> None:
        self._edge = edge
        self._pages = pages
        self._budgets = budgets
        self._hosts = edge.settings.allowed_hosts
        self._waiting = Handfuls(self._begin)
        self._rendering: set[asyncio.Task[None]] = set()

    def take(self, connection: Connection, data: bytes) -> None:
        """Take the bytes of one whole request until they are answered or given back.

        The connection gets `answer` or `go_on`, unless it is lost before its turn.
        """
        self._waiting.put((connection, data))

    def _begin(self, handful: Sequence[tuple[Connection, bytes]]) -> None:
        began_s, began_ns = time.perf_counter(), time.thread_time_ns()
        groups: dict[tuple[str, str], list[UsualRead]] = defaultdict(list)
        others: list[tuple[Connection, bytes]] = []
        for connection, data in handful:
            read = self._read(connection, data, began_s)
            if read is None:
                others.append((connection, data))
            else:
                groups[read.page.board.name, read.page.window].append(read)
        cost_ns = (time.thread_time_ns() - began_ns) // len(handful)
        for group in groups.values():
            self._ask(group, cost_ns)
        for connection, data in others:
            if connection.transport is not None:
                connection.go_on(data)

    def _read(self, connection: Connection, data: bytes, began_s: float) -> UsualRead | None:
        """Return the read, None if it is not usual, be it in its form or in what is to be answered."""
        try:
            return self._usual(connection, data, began_s)
        except Exception:  # noqa: BLE001 - the plain way finds the same, and reports it
            return None

    def _usual(self, connection: Connection, data: bytes, began_s: float) -> UsualRead | None:
        if len(data) > HEAD_BYTES or not data.isascii():
            return None
        text = data[:-2].decode("ascii")
        line = _REQUEST_LINE.match(text)
        fields = usual_fields(text, line.end()) if line else None
        if line is None or fields is None or "content-length" in fields:
            return None
        page = self._page(line[1], fields)
        if page is None:
            return None
        forwarded = fields.get("x-forwarded-for")
        names = self._edge.addresses.names(connection.peer, () if forwarded is None else (forwarded,))
        if self._budgets.wait_s(names) > 0:
            return None
        tag = _TAG.fullmatch(fields["if-none-match"]) if "if-none-match" in fields else None
        if "if-none-match" in fields and tag is None:
            return None
        origin = fields.get("origin", "")
        return UsualRead(connection, data, line[1], page, names, origin, tag[1] if tag else "", began_s)

    def _page(self, target: str, fields: Mapping[str, str]) -> CachedPage | None:
        """Return the kept page of a target, None if there is anything to say besides what it shows."""
        edge = self._edge
        if fields.get("host", "").lower() not in self._hosts:
            return None
        page = self._pages.at_hand(edge, target)
        if page is None or page.latest is None:
            return None
        name = page.board.name
        if edge.lag.behind_s(name) or not edge.outdated.is_known_current(name):
            return None
        return page if edge.index.of(page.board).residency.is_noted else None

    def _ask(self, group: Sequence[UsualRead], cost_ns: int) -> None:
        """Wait for the version of the window that a group of reads shows."""
        for read in group:
            read.cost_ns = cost_ns
        page = group[0].page
        index = self._edge.index.of(page.board)
        try:
            asked = index.versions.of(page.window)
        except IndexUnavailable as error:
            _give_back_without_index(group, error)
        else:
            asked.add_done_callback(lambda done: self._answer_all(group, index, done))

    def _answer_all(
        self, group: Sequence[UsualRead], index: BoardIndex, asked: asyncio.Future[Version]
    ) -> None:
        if asked.cancelled():
            _give_back(group)
            return
        try:
            self._answer_under(group, index, asked.result())
        except IndexUnavailable as error:
            _give_back_without_index(group, error)
        except Exception as error:  # noqa: BLE001 - the plain way answers whatever is open still
            report(FaultPlace.REQUEST, error, route=group[0].page.declared.route)
            _give_back(group)

    def _answer_under(self, group: Sequence[UsualRead], index: BoardIndex, version: Version) -> None:
        """Answer the reads of a window, which has this version now."""
        date = _date()
        for read in group:
            begun_ns = time.thread_time_ns()
            if read.tag and read.tag == read.page.tag(version):
                head = self._head(read, _UNCHANGED, shared_headers(read.tag))
                self._send(read, head + date, 3, begun_ns)
            elif page := self._pages.kept(read.page, version, index.versions.moves):
                self._send(read, self._page_with(read, page, date), 2, begun_ns)
            else:
                task = asyncio.get_running_loop().create_task(self._answer_rendered(read, index, version))
                self._rendering.add(task)
                task.add_done_callback(self._rendering.discard)

    async def _answer_rendered(self, read: UsualRead, index: BoardIndex, version: Version) -> None:
        """Answer a read whose page has to be rendered anew, with all who wait for it."""
        meter = CostMeter(lambda cost_us: self._budgets.charge(read.names, cost_us))
        METER.set(meter)  # for this task alone, and for that of the page if it is the first to wait for it
        READER.set(read.names.address)
        try:
            page = await self._pages.rendered_once(read.page, version, index.versions)
        except Exception:  # noqa: BLE001 - the plain way finds the same, and refuses or reports it
            self._pages.forget(read.path)  # the next one would fail twice as well
            _give_back([read])
            return
        finally:
            meter.settle()
        begun_ns = time.thread_time_ns()
        if isinstance(page, VersionedPage):
            self._send(read, self._page_with(read, page, _date()), 2, begun_ns)
        else:
            self._send_unkept(read, page, begun_ns)

    def _send_unkept(self, read: UsualRead, page: RenderedPage, begun_ns: int) -> None:
        """Answer with a page that is not kept, or that its reader has it."""
        shared = shared_headers(tag_of(page.body))
        if read.tag == shared["ETag"]:
            self._send(read, self._head(read, _UNCHANGED, shared) + _date(), 3, begun_ns)
            return
        headers = {**JSON, **page.headers, **shared, "Content-Length": str(len(page.body))}
        self._send(read, self._head(read, _PAGE, headers) + _date() + page.body, 2, begun_ns)

    def _send(self, read: UsualRead, answer: bytes, status_class: int, begun_ns: int) -> None:
        """Answer a read, and have its reader pay for it. One that ends its connection is left to aiohttp."""
        if self._edge.shutdown.has_begun:
            _give_back([read])
        if not read.is_open:
            return
        read.is_open = False
        read.connection.answer(answer, is_last=False)
        cost_ns = read.cost_ns + time.thread_time_ns() - begun_ns
        declared = read.page.declared
        self._budgets.charge(read.names, declared.us + cost_ns / 1000)
        request_seconds(declared.route, status_class).observe(time.perf_counter() - read.began_s)

    def _page_with(self, read: UsualRead, page: VersionedPage, date: bytes) -> bytes:
        """Return the answer with a page."""
        head = page.head
        if not head:
            head = self._head(read, _PAGE, {**page.headers, "Content-Length": str(len(page.body))})
            if not self._edge.origins.of_path(read.path):  # else it differs by who asks
                page.head = head
        return b"".join((head, date, page.body))

    def _head(self, read: UsualRead, line: bytes, headers: Mapping[str, str]) -> bytes:
        """Return the head of an answer up to its date, with what the plain way adds to these headers."""
        fields = CIMultiDict(headers)
        tell_apart(fields, has_token=False)
        fields.update(COMMON_HEADERS)
        self._edge.origins.add_fields(fields, read.path, read.origin)
        return line + "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode("latin-1")


def _date() -> bytes:
    return f"Date: {formatdate(usegmt=True)}\r\n\r\n".encode("ascii")


def _give_back_without_index(group: Sequence[UsualRead], error: IndexUnavailable) -> None:
    """Let reads go on in aiohttp's way, which asks the index no more: each has waited for it once."""
    log_fault(error)
    _give_back(group, is_index_away=True)


def _give_back(group: Sequence[UsualRead], *, is_index_away: bool = False) -> None:
    """Let the reads that are still open go on in aiohttp's way."""
    for read in group:
        if read.is_open:
            read.is_open = False
            if read.connection.transport is not None:
                read.connection.go_on(read.data, is_index_away=is_index_away)
