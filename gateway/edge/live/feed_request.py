"""What a listener asks for in its query: windows, players or friends, kinds of event, mode, and where to resume."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge.admission.seats import Seats
from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import board_of, client_names
from gateway.edge.players.friends import friends_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.filters import PLAYERS_LIMIT
from gateway.edge.wire import fields
from gateway.index.changes import is_stream_id
from gateway.index.feed.events import SELECTABLE_KINDS, EventKind, FeedMode, Interest
from gateway.index.feed.live_feed import Subscription
from gateway.runtime.telemetry import LISTENERS
from policies.loader import Board

WINDOWS_LIMIT: Final = 16
"""Most windows that a listener names."""

QUERY: Final = ("window", "players", "friends", "events", "mode", "after")
"""What the query of a feed may hold."""

LATER_S: Final = 5
"""When a listener that found no seat should try again."""

_PLAYER: Final[TypeAdapter[str]] = TypeAdapter(fields.PlayerId)
_SCHEMES: Final = ("http", "https")
_NAMED_WINDOW: Final = re.compile(r"([a-z]{1,16}):[0-9A-Za-z_-]{1,64}")


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What a listener wants of which board, and after which id; None: from now on."""

    board: Board
    interest: Interest
    after: str | None


async def feed_request_of(request: web.Request, bearer: Bearer | None) -> FeedRequest:
    """What the request asks for. Raises `schema-violation`, `malformed-request`, `not-found` and `token-invalid`."""
    edge, board = request.app[EDGE], board_of(request)
    windows, kinds, mode = _windows(request, board), _kinds(request), _mode(request)
    players = watched = _players(request)
    if wants_friends(request):
        if players is not None:
            raise _violation("friends and players do not go together")
        players, watched = await _friends(edge, bearer)
    if "events" in request.query and watched is None and kinds != {EventKind.STANDING}:
        raise _violation("events: rank and overtaken are about players: name them, or ask for friends")
    interest = Interest(windows, players, watched or frozenset(), kinds, mode)
    return FeedRequest(board, interest, _after(request))


def wants_friends(request: web.Request) -> bool:
    """True if the feed is that of the bearer's friends."""
    text = request.query.get("friends", "false")
    if text not in ("true", "false"):
        raise _violation("friends: expected true or false")
    return text == "true"


SEATS: Final = web.AppKey("seats", Seats)
"""How many feeds each client has open: else one could take all seats, and behind a proxy all its connections."""


@contextmanager
def hold_seat(request: web.Request) -> Iterator[None]:
    """Keeps a seat. Raises `quota-exceeded` for a client that has as many feeds as it may.

    Raises `temporary-reduced-capacity` if this process has as many listeners as it may.
    """
    edge, seats = request.app[EDGE], request.app[SEATS]
    names, later = client_names(edge, request), {"Retry-After": str(LATER_S)}
    if not seats.enter(names):
        detail = "your address, or its network, has too many feeds open"
        raise Problem(ProblemType.QUOTA_EXCEEDED, detail, headers=later)
    try:
        with edge.live.seat() as has_seat:
            if not has_seat:
                raise Problem(ProblemType.REDUCED_CAPACITY, "there are too many listeners", headers=later)
            yield
    finally:
        seats.leave(names)


@asynccontextmanager
async def open_feed(edge: Edge, asked: FeedRequest, transport: str) -> AsyncIterator[Subscription]:
    """The feed, counted while it is open."""
    with LISTENERS.labels(transport).track_inprogress():
        async with edge.live.listen(asked.board.name, asked.interest, asked.after) as feed:
            yield feed


def refuse_other_sites(request: web.Request) -> None:
    """Raises `csrf` for a page of another site: browsers let any page open a WebSocket, and name it in `Origin`."""
    origin = request.headers.get("Origin")
    own = request.app[EDGE].settings.allowed_hosts
    if origin is not None and origin.lower() not in {f"{each}://{host}" for each in _SCHEMES for host in own}:
        raise Problem(ProblemType.CSRF, "Origin: expected a page of this deployment")


async def _friends(edge: Edge, bearer: Bearer | None) -> tuple[frozenset[str], frozenset[str]]:
    """Whose standings a feed of friends tells of, and whose ranks: the bearer's alone."""
    assert bearer is not None, "who asks for friends was asked for a token"
    found = await friends_of(edge, bearer.subject)
    own = frozenset({bearer.subject})
    return own | frozenset(found.friends), own


def _windows(request: web.Request, board: Board) -> frozenset[str]:
    """Kinds and names of windows; none of them: all."""
    names = _list(request, "window") or []
    if len(names) > WINDOWS_LIMIT:
        raise _violation(f"window: expected at most {WINDOWS_LIMIT}")
    kinds = [kind.value for kind in board.policy.windows]
    for name in names:
        named = _NAMED_WINDOW.fullmatch(name)
        if name not in kinds and not (named and named[1] in kinds):
            raise Problem(ProblemType.NOT_FOUND, f"the board keeps the windows {', '.join(kinds)}")
    return frozenset(names)


def _players(request: web.Request) -> frozenset[str] | None:
    found = _list(request, "players")
    if found is None:
        return None
    try:
        players = frozenset(_PLAYER.validate_python(each) for each in found)
    except ValidationError:
        raise _violation("players: expected player ids with commas between them") from None
    if len(players) > PLAYERS_LIMIT:
        raise _violation(f"players: expected at most {PLAYERS_LIMIT}")
    return players


def _kinds(request: web.Request) -> frozenset[EventKind]:
    found = _list(request, "events")
    if found is None:
        return SELECTABLE_KINDS
    if not set(found) <= SELECTABLE_KINDS:
        raise _violation(f"events: expected some of {', '.join(sorted(SELECTABLE_KINDS))}")
    return frozenset(EventKind(each) for each in found)


def _mode(request: web.Request) -> FeedMode:
    text = request.query.get("mode", FeedMode.ALL.value)
    if text not in set(FeedMode):
        raise _violation(f"mode: expected {' or '.join(FeedMode)}")
    return FeedMode(text)


def _after(request: web.Request) -> str | None:
    """The id to resume from. A browser that reconnects sends the header, with the query it began with."""
    for where, text in (
        ("Last-Event-ID", request.headers.get("Last-Event-ID")),
        ("after", request.query.get("after")),
    ):
        if text is not None:
            if not is_stream_id(text):
                raise Problem(
                    ProblemType.MALFORMED_REQUEST, f"{where}: expected the id of an event of this feed"
                )
            return text
    return None


def _list(request: web.Request, name: str) -> list[str] | None:
    """What stands between the commas of a parameter; None if it is absent."""
    text = request.query.get(name)
    return None if text is None else text.split(",")


def _violation(detail: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, detail)
