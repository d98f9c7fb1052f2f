"""The aiohttp application: its routes, and the one middleware that turns errors into responses."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.admission.seats import Seats
from gateway.edge.admission.shedding import VISIT, overload_problem
from gateway.edge.auth.signed_request import CHALLENGE
from gateway.edge.console.refusal_pages import is_of_console, refusal_page
from gateway.edge.console.site import add_console
from gateway.edge.context import EDGE, Edge
from gateway.edge.docs import pages
from gateway.edge.explained_refusals import explained
from gateway.edge.http.expectation import check_expectation
from gateway.edge.http.request import strict_query
from gateway.edge.live.feed_request import SEATS
from gateway.edge.live.queue_feed import QUEUE_WATCH, QueueWatch
from gateway.edge.preflights import add_preflights
from gateway.edge.problems import (
    COMMON_HEADERS,
    LOGGED,
    Problem,
    ProblemType,
    problem_response,
    remove_server_header,
)
from gateway.edge.reads.own_view import told_apart
from gateway.edge.reads.page_cache import PAGES, PageCache
from gateway.edge.reads.read_budget import BUDGET, ReadBudgets, budgeted
from gateway.edge.reads.rule_gate import refusing_outdated
from gateway.edge.reads.staleness import with_staleness
from gateway.edge.routes import ROUTES
from gateway.runtime.telemetry import Event, count_submission, logger, request_seconds
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IndexUnavailable, LedgerOverloaded, LedgerUnavailable

if TYPE_CHECKING:
    from gateway.edge.connections import Connection

_SEGMENT: Final = r"[A-Za-z0-9_~-][A-Za-z0-9_.~:-]*+"
_PLAIN_PATH: Final = re.compile(rf"/(?:{_SEGMENT}(?>(?:/{_SEGMENT})*)/?)?")
"""The form of all served paths. Ids need no escapes, so no route has a path with `%`, `..`, `//` or `;`."""

_NO_PATH: Final = "no such path; see /docs"
_NO_INDEX: Final = "the index does not answer, and this cannot be read from the ledger"

_HTTP_PROBLEMS: Final = {
    400: (ProblemType.MALFORMED_REQUEST, "this path does not take requests of that form; see /docs"),
    404: (ProblemType.NOT_FOUND, _NO_PATH),
    405: (ProblemType.METHOD_NOT_ALLOWED, "this path does not take that method; see /docs"),
    413: (ProblemType.PAYLOAD_TOO_LARGE, "this path takes smaller bodies; see /docs"),
    415: (ProblemType.UNSUPPORTED_MEDIA_TYPE, "this path does not take that media type; see /docs"),
}
"""The problem and the detail for a refusal of aiohttp's, whose own text may quote the request."""

_NEEDS_CHALLENGE: Final = frozenset(
    kind for kind in ProblemType if kind.status == web.HTTPUnauthorized.status_code
)

_RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_SUBMISSION_ROUTES: Final = frozenset(
    f"/v1/boards/{{board}}/{resource}" for resource in ("scores", "entries", "increments")
)

_log = logger()


def build_app(edge: Edge) -> web.Application:
    """Return the application of a running edge."""
    app = web.Application(middlewares=[answer_problems], client_max_size=0)
    app[EDGE] = edge
    app.on_response_prepare.extend([remove_server_header, edge.origins.tell])
    app[PAGES] = PageCache()
    app[QUEUE_WATCH] = QueueWatch(edge)
    app[SEATS] = Seats(edge.settings.live_per_address, edge.settings.live_per_network)
    app[BUDGET] = ReadBudgets(edge.settings.read_budget_ms / 1000)
    for route in ROUTES:
        handler = route.handler
        if route.method == "GET":
            handler = told_apart(route.path, strict_query(handler, route.query))
            handler = with_staleness(route.path, handler)
            handler = refusing_outdated(route.path, handler, edge.outdated)
            handler = budgeted(route.path, handler)
        app.router.add_route(route.method, route.path, handler, expect_handler=check_expectation)
        if route.method == "GET" and not route.is_stream:
            app.router.add_route("HEAD", route.path, handler, expect_handler=check_expectation)
    add_preflights(app, ROUTES, edge.origins)
    pages.add_pages(app, edge)
    add_console(app)
    return app


def refuse_expectations(handler: _RequestHandler) -> _RequestHandler:
    """Wrap the application's handler so that an unknown `Expect` is answered with a problem.

    aiohttp reads that field before any middleware runs, and on unknown paths too.
    """

    async def refusing_handler(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPExpectationFailed:
            assert isinstance(request, web.Request)
            response = _refuse(
                request, Problem(ProblemType.EXPECTATION_FAILED, "Expect: expected 100-continue")
            )
            response.force_close()
            return response

    return refusing_handler


@web.middleware
async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse misdirected requests, time the others, and turn every error into its problem response."""
    started = time.perf_counter()
    response = await _answer(request, handler)
    if not response.prepared:
        response.headers.update(COMMON_HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        if request.app[EDGE].shutdown.has_begun or not request.content.is_eof():
            response.force_close()  # a request after an unread body would have to wait for the body's end
    request_seconds(_route_name(request), response.status // 100).observe(time.perf_counter() - started)
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        with _visiting(request):
            check_target(request)
            return await handler(request)
    except Problem as problem:
        return _refuse(request, await explained(request, problem))
    except ConnectionError:
        raise  # the client has left: nobody is there to answer, and the edge is not at fault
    except web.HTTPException as error:
        if error.status < 400:  # noqa: PLR2004 - redirects are raised too
            raise
        return _refuse(request, problem_of(error))
    except LedgerUnavailable as error:
        return _refuse(request, _without_ledger(error))
    except IndexUnavailable as error:
        _log.warning(Event.INDEX_DOWN, error=str(error))
        return _refuse(request, Problem(ProblemType.DEPENDENCY_UNAVAILABLE, _NO_INDEX))
    except Exception as error:  # noqa: BLE001 - the server goes on; each of these is a bug
        event_id = report(FaultPlace.REQUEST, error, route=_route_name(request))
        instance = f"urn:scoregate:event:{event_id}"
        return _refuse(request, Problem(ProblemType.INTERNAL, LOGGED, instance=instance))


def _without_ledger(error: LedgerUnavailable) -> Problem:
    if isinstance(error, LedgerOverloaded):
        return overload_problem()
    _log.error(Event.LEDGER_DOWN, error=str(error))
    return Problem(ProblemType.REDUCED_CAPACITY, "the ledger does not answer")


@contextmanager
def _visiting(request: web.Request) -> Iterator[None]:
    """Count a write as under way during the block.

    Raises `temporary-reduced-capacity` if the write could not be answered in time.
    """
    if request.method in _SAFE:
        yield
        return
    waited_s = cast("Connection", request.protocol).take_wait_s()
    visit = request[VISIT] = request.app[EDGE].entrance.visit(waited_s)
    if not request.can_read_body:
        visit.begin()
    try:
        yield
    finally:
        visit.leave()


def check_target(request: web.Request) -> None:
    """Refuse foreign hosts, unusual paths, and early data that could be a replay (RFC 8470).

    A target that is not a path (`http://host/...`, `host:port`, `*`) is for a proxy, which an edge is not.
    """
    target = request.raw_path
    if request.host.lower() not in request.app[EDGE].settings.allowed_hosts:
        raise Problem(ProblemType.MISDIRECTED, f"{request.host[:64]!a} is not in SCOREGATE_HOSTS")
    if not target.startswith("/"):
        raise Problem(ProblemType.MISDIRECTED, "the target is not a path")
    if not _PLAIN_PATH.fullmatch(target.partition("?")[0]):
        raise Problem(ProblemType.NOT_FOUND, _NO_PATH)
    if "%00" in target:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "the query has the character NUL")  # no database takes it
    if request.method not in _SAFE and request.headers.get("Early-Data") == "1":
        raise Problem(ProblemType.TOO_EARLY, "send it again once the handshake is done")


def _refuse(request: web.Request, problem: Problem) -> web.Response:
    board = request.match_info.get("board", "")
    is_submission = request.method == "POST" and _route_name(request) in _SUBMISSION_ROUTES
    if is_submission and board in request.app[EDGE].catalogue:
        count_submission(board, problem.kind.slug)
    if is_of_console(request):
        return refusal_page(request, problem)
    if problem.kind in _NEEDS_CHALLENGE:
        problem.headers = CHALLENGE | problem.headers
    return problem_response(problem)


def problem_of(error: web.HTTPException) -> Problem:
    """Return our problem for a refusal of aiohttp's."""
    kind, detail = _HTTP_PROBLEMS.get(error.status, _HTTP_PROBLEMS[400])
    if allow := error.headers.get("Allow"):
        return Problem(kind, f"expected {', '.join(allow.split(','))}", headers={"Allow": allow})
    return Problem(kind, detail)


def _route_name(request: web.Request) -> str:
    """Return the route's pattern, which is one of a closed set, unlike a path."""
    resource: Any = request.match_info.route.resource
    return resource.canonical if resource is not None else "none"
