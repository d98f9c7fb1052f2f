"""Explains what an edge would say of a request, by the edge's own parser, routes, handlers and checks.

The handler itself is called, with an edge that has boards, keys and a clock, and of the rest as much as a
player's first run meets: where it asks for more, the request has passed all that can be checked without the
deployment's other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, Protocol, cast

from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser

from gateway.catalogue.catalogue import Catalogue
from gateway.edge.admission.address import ClientName
from gateway.edge.admission.turnstile import Turnstile
from gateway.edge.app import check_target, problem_of
from gateway.edge.auth import signatures
from gateway.edge.auth.server_keys import TrustedServer
from gateway.edge.auth.signature_diagnosis import (
    FITS,
    base_wanted,
    fault_of_genuine,
    fault_of_input,
)
from gateway.edge.auth.signatures import ParsedSignature
from gateway.edge.auth.signed_request import SignedRequest, joined_field, read_signature, signed_parts
from gateway.edge.auth.tokens import Tokens
from gateway.edge.connections import LINE_SIZES, unreadable
from gateway.edge.context import EDGE, Edge
from gateway.edge.explained_refusals import found_mistake, in_words
from gateway.edge.http.request import board_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.route import Caller, Route
from gateway.edge.routes import ROUTES
from gateway.edge.submissions.impossible_run import ImpossibleRun
from gateway.edge.submissions.submit import Begun
from gateway.index.limits.admission import Admission, AdmissionResult
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from policies.replaying import BuildStatus
from validators.submission import History

BUFFER_BYTES: Final = 2**16

_OF_HEAD: Final = frozenset(
    {
        ProblemType.UNSUPPORTED_MEDIA_TYPE,
        ProblemType.CONTENT_ENCODING_NOT_ALLOWED,
        ProblemType.PAYLOAD_TOO_LARGE,
    }
)
"""Refusals of a body by what its head says, which come before the signature is looked at."""

_OF_RIGHTS: Final = frozenset(
    {
        ProblemType.SCOPE_FORBIDDEN,
        ProblemType.BOARD_REPLACED,
        ProblemType.RUN_EXPIRED,
        ProblemType.TOKEN_INVALID,
        ProblemType.ASSET_MISMATCH,
    }
)
"""Refusals of what a genuine signature asks for."""

_ADMITTED: Final = Begun(AdmissionResult(Admission.ADMITTED, wait_ms=0, left=1, history=History()))
"""A submission of a player without a history, within the limits."""

_SIGNERS: Final = frozenset({Caller.RUN, Caller.SERVER})


class RunKeys(Protocol):
    """The keys of runs."""

    def key(self, text: str) -> bytes:
        """Return the key of a ticket's run."""


class RegisteredKeys(Protocol):
    """The registered keys of servers."""

    async def find(self, key_id: str) -> TrustedServer | None:
        """Return the server with this key, or None."""


class Known(NamedTuple):
    """What is known of a deployment: without a catalogue, no board, no ticket and no token."""

    settings: Settings
    clock: Clock
    tickets: RunKeys | None = None
    server_keys: RegisteredKeys | None = None
    tokens: Tokens | None = None
    catalogue: Catalogue | None = None


class Outcome(Enum):
    """What became of a step."""

    PASSED = "ok"
    FAILED = "FAILS"
    UNKNOWN = "?"


class Step(NamedTuple):
    """A step of the edge: what it looks at, what became of it, and what there is to say."""

    title: str
    outcome: Outcome
    lines: tuple[str, ...] = ()


class _BeyondError(Exception):
    """The handler asked for something that is not here: all that is checked before has passed."""


class _Partial(SimpleNamespace):
    """A part of an edge, or an edge, of which little is here."""

    def __getattr__(self, name: str) -> Any:
        raise _BeyondError(name)


@dataclass
class _Case:
    """A request under examination; `verdict` is the refusal of its handler, if it could be called."""

    request: web.Request
    known: Known
    body: bytes | None
    their_base: bytes | None
    route: Route | None = None
    verdict: Problem | None = None
    signed: SignedRequest | None = None
    steps: list[Step] = field(default_factory=list)


_Look = Callable[[_Case], Awaitable[Step | None]]


async def explain(
    raw: bytes, known: Known, their_base: bytes | None = None, *, has_body: bool = True
) -> list[Step]:
    """Return the steps of an edge for a request, up to the one that fails, in the edge's order.

    `their_base` is the base that the signer made, to be compared. Without `has_body` the bytes end with the
    head of the request.
    """
    try:
        request = _read(raw)
    except Problem as problem:
        return [Step("a request of HTTP/1.1", Outcome.FAILED, _lines_of(problem))]
    body = request.content.read_nowait() if has_body and request.content.is_eof() else None
    case = _Case(request, known, body, their_base)
    case.steps.append(
        Step(f"a request of HTTP/1.1: {request.method} {request.raw_path[:200]}", Outcome.PASSED)
    )
    await _route(case)
    if case.route is None:
        return case.steps
    if known.catalogue is not None:
        case.verdict = await _verdict(_read(raw), case)
    for title, look in _STEPS:
        if not await _looked(case, title, look):
            return case.steps
    return case.steps


def _read(raw: bytes) -> web.Request:
    """Return the request that the edge's parser reads in these bytes. Raises its refusal."""
    loop = asyncio.get_running_loop()
    protocol: Any = BaseProtocol(loop)
    parser = HttpRequestParser(protocol, loop, BUFFER_BYTES, **LINE_SIZES, auto_decompress=False)
    try:
        messages, *_ = parser.feed_data(raw)
    except HttpProcessingError as error:
        raise unreadable(error) from None
    if not messages:
        raise Problem(ProblemType.MALFORMED_REQUEST, "the head does not end: an empty line has to follow it")
    peer = SimpleNamespace(
        ssl_context=None,
        peername=("127.0.0.1", 0),
        sockname=None,
        transport=None,
        take_begun=lambda: _ADMITTED,
    )
    message, payload = messages[0]
    return web.Request(message, payload, cast("Any", peer), cast("Any", None), cast("Any", None), loop)


async def _route(case: _Case) -> None:
    """Find the route of a request as an edge does, or add the step that fails."""
    app = web.Application()
    known = case.known
    if known.catalogue is None:  # then the hosts of the deployment are not known either
        known = known._replace(settings=known.settings.model_copy(update={"hosts": (case.request.host,)}))
    app[EDGE] = cast("Edge", _edge(known))
    for route in ROUTES:
        app.router.add_route(route.method, route.path, route.handler)
    match = await app.router.resolve(case.request)
    match.add_app(app)
    case.request._match_info = match  # noqa: SLF001 - as aiohttp sets it, who offers no other way
    try:
        check_target(case.request)
        if error := match.http_exception:
            raise problem_of(error)
    except Problem as problem:
        case.steps.append(Step("the target", Outcome.FAILED, _lines_of(problem)))
        return
    resource: Any = match.route.resource
    by_place = {(route.method, route.path): route for route in ROUTES}
    route = case.route = by_place[match.route.method, resource.canonical]
    title = f"the target: {case.request.host}; {route.summary[0].lower()}{route.summary[1:]}"
    case.steps.append(Step(f"{title} ({route.caller.value})", Outcome.PASSED))


def _edge(known: Known) -> _Partial:
    """Return an edge that has met nobody: no build has another status than most, and nobody is banned."""
    parts = {name: part for name, part in known._asdict().items() if part is not None}
    return _Partial(
        **parts,
        clock_error_ms=0,
        turnstile=Turnstile(),
        addresses=_Partial(names=lambda *_: ClientName("", "")),
        banned=_Partial(open_ban=lambda *_, **__: None),
        builds=_Partial(status_of=lambda *_: BuildStatus.ALLOW),
        of=lambda _: _Partial(submission_limits=_Partial(note_refusal=_noted)),
    )


async def _noted(*_: str) -> bool:
    return False


async def _verdict(request: web.Request, case: _Case) -> Problem | None:
    """Return what the handler of the route refuses the request with, None as far as it can be known."""
    request._match_info = case.request.match_info  # noqa: SLF001 - as above
    assert case.route is not None
    try:
        await case.route.handler(request)
    except _BeyondError:
        return None
    except Problem as problem:
        return problem
    return None


async def _looked(case: _Case, title: str, look: _Look) -> bool:
    """Add the step of a look, and return whether the edge goes on after it."""
    try:
        step = await look(case)
    except Problem as problem:
        step = Step(title, Outcome.FAILED, _lines_of(case.verdict or problem))
    except _BeyondError:
        step = Step(title, Outcome.UNKNOWN, ("it takes the data of the deployment",))
    if step is not None:
        case.steps.append(step if step.title else step._replace(title=title))
    return step is None or step.outcome is not Outcome.FAILED


async def _board(case: _Case) -> Step | None:
    if "board" not in case.request.match_info:
        return None
    await board_of(case.request)
    return Step("", Outcome.PASSED)


async def _head_of_body(case: _Case) -> Step | None:
    if case.verdict is not None and case.verdict.kind in _OF_HEAD:
        raise case.verdict
    return Step("", Outcome.PASSED) if case.known.catalogue else None


async def _fields(case: _Case) -> Step | None:
    if case.route is None or case.route.caller not in _SIGNERS:
        return None
    try:
        case.signed = read_signature(case.request)
    except Problem as problem:
        fault = fault_of_input(joined_field(case.request, "Signature-Input"))
        wanted = _indented("The base to sign:", base_wanted(signed_parts(case.request)))
        return Step("", Outcome.FAILED, (*_lines_of(problem), *([fault] if fault else []), *wanted))
    return Step("", Outcome.PASSED, tuple(_indented("The edge's base:", case.signed.base.decode("ascii"))))


async def _signature(case: _Case) -> Step | None:
    signed = case.signed
    if signed is None:
        return None
    found, is_known = await found_mistake(case.request.app[EDGE], case.request, signed)
    fault = fault_of_genuine(signed.parsed)
    if found is FITS and fault is None:
        return Step("", Outcome.PASSED)
    problem = case.verdict or signatures.invalid_signature()
    lines = [*_lines_of(problem), in_words(signed, found, is_known=is_known)]
    if case.their_base is not None:
        lines += compared(signed.base.decode("ascii"), case.their_base)
    return Step("", Outcome.FAILED, tuple(lines))


async def _time(case: _Case) -> Step | None:
    if case.signed is None:
        return None
    parsed, now_s = case.signed.parsed, case.known.clock() / 1000
    try:
        signatures.check_time(parsed, now_s, case.known.settings.clock_skew_s)
    except Problem as problem:
        return Step("", Outcome.FAILED, (*_lines_of(problem), *_off_by(parsed, int(now_s))))
    return Step("", Outcome.PASSED)


def _off_by(parsed: ParsedSignature, now_s: int) -> Iterator[str]:
    """Yield how far a signature is outside its time, for who reads of a request later than the edge did."""
    if now_s > parsed.expires:
        yield (
            f"`expires` was {now_s - parsed.expires} s before now, {now_s}; "
            "to look at the request as of when it was sent, give that time with --at"
        )
    elif now_s < parsed.created:
        yield f"`created` is {parsed.created - now_s} s after now, {now_s}: sign with the gateway's time"


async def _rights(case: _Case) -> Step | None:
    if case.verdict is not None and case.verdict.kind in _OF_RIGHTS:
        raise case.verdict
    return Step("", Outcome.PASSED) if case.known.catalogue and case.signed else None


async def _digest(case: _Case) -> Step | None:
    if case.signed is None:
        return None
    if case.body is None:
        return Step("", Outcome.UNKNOWN, ("the body is not here, or not as a whole: give it with --body",))
    try:
        case.signed.check_body(case.body)
    except Problem as problem:
        expected = f"write {signatures.content_digest_of(case.body)} for these {len(case.body)} bytes"
        return Step("", Outcome.FAILED, (*_lines_of(case.verdict or problem), expected))
    return Step("", Outcome.PASSED)


async def _rest(case: _Case) -> Step | None:
    if case.verdict is not None:
        raise case.verdict
    lines = ("limits, bans, earlier requests and the player's history: only the edge knows",)
    return Step("", Outcome.UNKNOWN, lines)


_STEPS: Final[tuple[tuple[str, _Look], ...]] = (
    ("the board", _board),
    ("the media type, the coding and the announced size of the body", _head_of_body),
    ("the fields of the signature", _fields),
    ("the signature", _signature),
    ("the time of the signature", _time),
    ("what the key may do", _rights),
    ("the digest of the body", _digest),
    ("the content", _rest),
)
"""The steps in the edge's order, by what they look at."""


def compared(ours: str, theirs: bytes) -> Iterator[str]:
    """Yield the lines in which a signer's base differs from the edge's, and what it has besides."""
    text = theirs.decode("ascii", "backslashreplace")
    if "\r" in text:
        yield "your base has carriage returns: end lines by a line feed alone"
    if text.endswith("\n"):
        yield "your base ends with a line feed (or your editor added it to the file): sign none"
    pairs = list(zip_longest(ours.split("\n"), text.replace("\r", "").rstrip("\n").split("\n"), fillvalue=""))
    if all(our == their for our, their in pairs):
        yield "the lines of your base are the edge's: look at the key, and at how the signature is computed"
    for number, (our, their) in enumerate(pairs, start=1):
        if our != their:
            yield f"line {number}: yours is     {their!a}"
            yield f"line {number}: the edge's is {our!a}"


def _indented(title: str, text: str) -> Iterator[str]:
    yield title
    yield from (f"    {line}" for line in text.split("\n"))


def _lines_of(problem: Problem) -> tuple[str, ...]:
    line = f"{problem.kind.slug} ({problem.kind.status}): {problem.detail or problem.kind.title}"
    return (line, problem.bound) if isinstance(problem, ImpossibleRun) else (line,)
