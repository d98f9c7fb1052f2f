"""Connections: deadlines for slow clients, a cap for each address, and the short ways before aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.early_refusals import is_whole_request, is_write, refusal
from gateway.edge.admission.receive_delay import receive_delay_s
from gateway.edge.admission.seats import Seats
from gateway.edge.admission.send_backlog import SendBacklog, SendBuffer
from gateway.edge.context import Edge
from gateway.edge.problems import LOGGED, Problem, ProblemType, problem_response
from gateway.edge.reads.board_reader import IS_AWAY
from gateway.edge.reads.page_cache import PAGES
from gateway.edge.reads.read_budget import BUDGET
from gateway.edge.reads.usual_reads import UsualReads, is_read
from gateway.edge.submissions.submit import NOTHING_BEGUN, Begun
from gateway.edge.submissions.usual_requests import is_submission
from gateway.edge.submissions.usual_submissions import UsualSubmissions
from gateway.runtime.unexpected import FaultPlace, report

LINE_SIZES: Final[Mapping[str, Any]] = {"max_line_size": 8190, "max_field_size": 8190}
"""The longest lines of a request's head, as aiohttp's parser takes them."""

LINGER_S: Final = 1.0
"""How long a refused request's remaining bytes are received and dropped before its connection closes."""


class ConnectionGate:
    """The open connections of an edge, limited for each address and for the network around it."""

    def __init__(self, edge: Edge, app: web.Application, server: web.Server | None = None) -> None:
        self._server = server
        self._addresses = edge.addresses
        settings = edge.settings
        self._seats = Seats(settings.connections_per_address, settings.connections_per_network)
        self.send_backlog = SendBacklog(
            settings.unsent_mib * 1024 * 1024, is_behind_proxies=bool(settings.trusted_proxies)
        )
        self.entrance = edge.entrance
        self.origins = edge.origins
        self.shutdown = edge.shutdown
        self.usual_submissions = UsualSubmissions(edge)
        self.usual_reads = UsualReads(edge, app[PAGES], app[BUDGET])
        self.connections: set[Connection] = set()
        self.head_timeout_s = settings.head_timeout_s
        self.write_timeout_s = settings.write_timeout_s
        self._options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": edge.settings.keepalive_timeout_s,
            "lingering_time": LINGER_S,
            **LINE_SIZES,
        }

    def admit(self) -> Connection:
        """Return the protocol of a connection that is about to open."""
        return Connection(self, self._server, loop=asyncio.get_running_loop(), **self._options)

    def enter(self, peer: str) -> ClientName | None:
        """Count a connection and return its client's names, or None if the client may have no more."""
        names = self._addresses.names(peer, ())
        return names if self._seats.enter(names) else None

    def leave(self, names: ClientName) -> None:
        """Stop counting a connection."""
        self._seats.leave(names)


def unreadable(error: BaseException | None) -> Problem:
    """Return the refusal of bytes that the parser cannot read."""
    if isinstance(error, LineTooLong):
        return Problem(ProblemType.HEADERS_TOO_LARGE, "expected shorter lines before the body")
    return Problem(ProblemType.MALFORMED_REQUEST, "expected a request of HTTP/1.1")


class Connection(web.RequestHandler):
    """One client's connection, which is answered with problem details even if it does not speak HTTP."""

    __slots__ = (
        "_begun",
        "_counted_as",
        "_expected",
        "_gate",
        "_head_deadline",
        "_is_index_away",
        "_is_new",
        "_is_plain",
        "_is_taken",
        "_is_taken_up",
        "_later",
        "_lost",
        "_received_s",
        "_send_buffer",
        "peer",
    )

    def __init__(self, gate: ConnectionGate, server: Any, **options: Any) -> None:
        super().__init__(server, **options)
        self._gate = gate
        self._head_deadline: asyncio.TimerHandle | None = None
        self._received_s = self._loop.time()
        self._is_plain = True
        self._send_buffer: SendBuffer | None = None
        self._is_new = True
        self._expected: float | None = None
        self._counted_as: ClientName | None = None
        self._lost: asyncio.Future[None] | None = None
        self._is_taken = False
        self._later = b""
        self._begun = NOTHING_BEGUN
        self._is_index_away = False
        self._is_taken_up = False
        self.peer = ""

    def lost(self) -> asyncio.Future[None]:
        """Return a future that is done once the connection is lost.

        Sending shows a loss late, and a handler with nothing to send would never notice one.
        """
        if self._lost is None:
            self._lost = self._loop.create_future()
            if self.transport is None:
                self._lost.set_result(None)
        return self._lost

    def connection_made(self, transport: Any) -> None:
        """Admit the connection, or close it at once."""
        peer = transport.get_extra_info("peername") or ("",)
        self.peer = str(peer[0])
        self._counted_as = self._gate.enter(self.peer)
        if self._counted_as is None:
            transport.abort()
        else:
            self._gate.connections.add(self)
            self._send_buffer = SendBuffer(
                self._gate.send_backlog, transport, self._counted_as.address, self._loop
            )
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # any unsent byte pauses the request that writes it
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request, whose whole head has to come before the deadline."""
        self._received_s = self._loop.time()
        if self._is_taken:
            self._keep_for_later(data)
            return
        is_alone = self._is_one_request(data)
        if is_alone and is_write(data) and self._was_refused(data):
            return
        if self._expected is not None and is_submission(data):
            self._take(self._gate.usual_submissions, data)
            return
        if is_alone and is_read(data):
            self._take(self._gate.usual_reads, data)
            return
        if self._is_idle():
            self._begun = NOTHING_BEGUN
        self._parse(data)

    def _take(self, way: UsualSubmissions | UsualReads, data: bytes) -> None:
        self._is_taken = True
        self._forget_head_deadline()
        way.take(self, data)

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_without_request():
            self._expect_head()
        else:
            self._forget_head_deadline()

    def _forget_head_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _keep_for_later(self, data: bytes) -> None:
        """Keep what came after a request that is taken, and read no more of it until that is answered."""
        if data:
            self._later += data
            self._pause_transport_reading()

    def go_on(
        self,
        data: bytes,
        begun: Begun = NOTHING_BEGUN,
        waited_s: float | None = None,
        *,
        is_index_away: bool = False,
    ) -> None:
        """Parse a request that was taken, for which all of this was done; it has waited for so long (s).

        `is_index_away` says that it has waited for the index already, which did not answer.
        """
        self._is_taken = False
        self._begun = begun
        self._is_index_away = is_index_away
        if waited_s is not None:
            self._expected = waited_s
        self._parse(data)
        self._take_later()

    def answer(self, answer: bytes, *, is_last: bool) -> None:
        """Write the answer to a request that was taken, and close the connection if it is the last one."""
        self._is_taken = False
        if self.transport is None:
            return
        self.transport.write(answer)
        if is_last:
            self.force_close()  # the transport sends what it has before it closes
            return
        self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(
                self._next_keepalive_close_time, self._process_keepalive
            )
        self._take_later()

    def _take_later(self) -> None:
        later, self._later = self._later, b""
        if later:
            self._resume_reading_for_buffer()
            self.data_received(later)

    def take_begun(self) -> Begun:
        """Return what was done for the request that is being handled, once."""
        begun, self._begun = self._begun, NOTHING_BEGUN
        return begun

    def _process_keepalive(self) -> None:
        """Close an idle connection. One with a request that was taken looks idle to aiohttp."""
        self._keepalive_handle = None
        if not self._is_taken:
            super()._process_keepalive()

    def _is_one_request(self, data: bytes) -> bool:
        """Return whether data is a whole request, may be answered unparsed, and would be answered alone.

        Once a part of a request has come, the parser may hold it, so everything after that goes through the
        parser.
        """
        if not data:  # aiohttp calls with nothing to go on with the bytes that it holds
            return False
        self._is_plain = self._is_plain and is_whole_request(data)
        if not self._is_plain or self.transport is None:
            return False
        is_ending = self._gate.shutdown.has_begun  # the answer then has to say `Connection: close`
        # An answer written unparsed ignores a pause in writing. A client that reads nothing must not get one,
        # or its unsent bytes would have no bound.
        return self._is_idle() and not self.writing_paused and not is_ending

    def _was_refused(self, data: bytes) -> bool:
        """Refuse an unparsed write if it would be answered too late, and return whether it was refused."""
        assert self.transport is not None
        waited_s = self._gate.entrance.admit_unparsed(self._receive_delay_s)
        if waited_s is not None:
            self.take_wait_s()
            self._expected = waited_s
            return False
        self.transport.write(refusal(self._gate.origins.fields_of_unparsed(data)))
        self._forget_head_deadline()
        self._expect_head()
        return True

    def _receive_delay_s(self) -> float:
        """Return how long the request that was just read had waited in the kernel (s)."""
        # Bytes wait in the kernel only for a new connection or a busy edge; other reads need no system call.
        was_new, self._is_new = self._is_new, False
        if self.transport is None or not (was_new or self._gate.entrance.is_busy):
            return 0.0
        return receive_delay_s(self.transport)

    def take_wait_s(self) -> float | None:
        """Return how long a request that was admitted unparsed had waited (s), None for any other request.

        The entrance expects the request no more.
        """
        waited_s, self._expected = self._expected, None
        if waited_s is not None:
            self._gate.entrance.forget_expected()
        return waited_s

    def pause_writing(self) -> None:
        """Give the client a deadline to take the bytes that wait for it, which hold memory and a seat."""
        super().pause_writing()
        if self._send_buffer is not None:
            self._send_buffer.begin(self._gate.write_timeout_s)

    def resume_writing(self) -> None:
        """Drop the deadline: the client has taken all bytes."""
        super().resume_writing()
        if self._send_buffer is not None:
            self._send_buffer.end()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give back everything that the connection holds."""
        self.take_wait_s()
        if self._send_buffer is not None:
            self._send_buffer.end()
        self._forget_head_deadline()
        self._later = b""
        if self._counted_as is not None:
            self._gate.connections.discard(self)
            self._gate.leave(self._counted_as)
            super().connection_lost(exc)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    def quiet_s(self) -> float:
        """Return how long ago the last byte came (s); 0 while a request is being answered."""
        return self._loop.time() - self._received_s if self._is_without_request() else 0.0

    def _is_without_request(self) -> bool:
        """Return whether no whole head is here: none being answered and none waiting its turn."""
        return not self._request_in_progress and not self._messages and not self._is_taken

    def _is_idle(self) -> bool:
        """Return whether the next request would be alone; not while aiohttp makes a task for another one."""
        return self._is_without_request() and not self._is_taken_up

    def take_up(self) -> None:
        """Note that aiohttp has taken up a request, whose task begins a turn of the event loop later."""
        self._is_taken_up = True

    def _expect_head(self) -> None:
        if self._head_deadline is None:
            self._head_deadline = self._loop.call_later(self._gate.head_timeout_s, self._give_up_on_head)

    def _give_up_on_head(self) -> None:
        self._head_deadline = None
        if self._is_without_request():
            self.force_close()

    async def _handle_request(self, request: web.BaseRequest, *rest: Any) -> tuple[web.StreamResponse, bool]:
        """Answer a request, and say whether its client has left.

        An error that says so would hold aiohttp's frame of the connection, which holds the task that raised
        it: the request of each client that leaves would wait for the collector of cycles.
        """
        is_away, self._is_index_away = self._is_index_away, False
        # For this request alone: aiohttp gives each a task, and so a context, of its own.
        IS_AWAY.set(is_away)
        try:
            return await super()._handle_request(request, *rest)
        except ConnectionError:
            return web.Response(), True
        finally:
            self._is_taken_up = False

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it repeats what was received
    ) -> web.StreamResponse:
        """Answer bytes that never became a request. It is not logged, since a stranger can repeat it at will.

        Raises ConnectionResetError, on which aiohttp closes the connection, if the client has left.
        """
        if isinstance(exc, ConnectionError) or request.writer.output_size:
            raise ConnectionResetError
        problem = unreadable(exc)
        if status >= ProblemType.INTERNAL.status:
            event_id = report(FaultPlace.REQUEST, exc or RuntimeError("the library gave no error"))
            problem = Problem(ProblemType.INTERNAL, LOGGED, instance=f"urn:scoregate:event:{event_id}")
        response = problem_response(problem)
        response.force_close()
        return response
