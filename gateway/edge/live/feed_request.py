"""Feed requests: the windows, players, kinds of event, mode and position in a listener's query."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge.admission.seats import Seats
from gateway.edge.auth.own_pages import is_own_origin
from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.other_origins import OTHER_ORIGIN
from gateway.edge.http.request import board_of, client_names
from gateway.edge.players.friends import friends_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.filters import PLAYERS_LIMIT
from gateway.edge.wire import fields
from gateway.index.feed.events import SELECTABLE_KINDS, EventKind, FeedMode, Interest
from gateway.index.feed.live_feed import Subscription
from gateway.index.lane_stream import is_stream_id
from gateway.runtime.telemetry import LISTENERS
from policies.loader import Board

WINDOWS_LIMIT: Final = 16
"""The maximum number of windows in a query."""

QUERY: Final = ("window", "players", "friends", "events", "mode", "after")
"""The parameters of a feed's query."""

RETRY_S: Final = 5
"""When a listener that got no seat should try again."""

_PLAYER: Final[TypeAdapter[str]] = TypeAdapter(fields.PlayerId)
_NAMED_WINDOW: Final = re.compile(r"([a-z]{1,16}):[0-9A-Za-z_-]{1,64}")


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """A board, a listener's interest in it, and the id to resume after, None for now.

    `bearer` is whose friends it is about, None for a feed that anybody may have.
    """

    board: Board
    interest: Interest
    after: str | None
    bearer: Bearer | None = None


async def feed_request_of(request: web.Request, bearer: Bearer | None) -> FeedRequest:
    """Return the feed request of an HTTP request.

    Raises `schema-violation`, `malformed-request`, `not-found` and `token-invalid`.
    """
    edge, board = request.app[EDGE], await board_of(request)
    windows, kinds, mode = _windows(request, board), _kinds(request), _mode(request)
    players = watched = _players(request)
    if wants_friends(request):
        if players is not None:
            raise _violation("friends and players cannot be combined")
        players, watched = await _friends(edge, bearer)
    if "events" in request.query and watched is None and kinds != {EventKind.STANDING}:
        raise _violation("events: rank and overtaken are about players: name them, or ask for friends")
    interest = Interest(windows, players, watched or frozenset(), kinds, mode)
    return FeedRequest(board, interest, _after(request), bearer)


def wants_friends(request: web.Request) -> bool:
    """Return whether the request is for the feed of the bearer's friends."""
    text = request.query.get("friends", "false")
    if text not in ("true", "false"):
        raise _violation("friends: expected true or false")
    return text == "true"


SEATS: Final = web.AppKey("seats", Seats)
"""The open feeds of each client, so that none takes all seats, or all connections of its proxy."""


@contextmanager
def hold_seat(request: web.Request) -> Iterator[None]:
    """Hold a listener's seat during the block.

    Raises `quota-exceeded` if the client has too many feeds, `temporary-reduced-capacity` if the process has.
    """
    edge, seats = request.app[EDGE], request.app[SEATS]
    names, headers = client_names(edge, request), {"Retry-After": str(RETRY_S)}
    if not seats.enter(names):
        detail = "your address, or its network, has too many feeds open"
        raise Problem(ProblemType.QUOTA_EXCEEDED, detail, headers=headers)
    try:
        with edge.live.seat() as has_seat:
            if not has_seat:
                raise Problem(ProblemType.REDUCED_CAPACITY, "there are too many listeners", headers=headers)
            yield
    finally:
        seats.leave(names)


@asynccontextmanager
async def open_feed(edge: Edge, feed_request: FeedRequest, transport: str) -> AsyncIterator[Subscription]:
    """Open a feed during the block, and count it for the transport."""
    with LISTENERS.labels(transport).track_inprogress():
        async with edge.live.listen(
            feed_request.board.name, feed_request.interest, feed_request.after
        ) as feed:
            yield feed


def refuse_other_sites(request: web.Request) -> None:
    """Raise `csrf` for a page of another site, unless its origin is allowed.

    Browsers let any page open a WebSocket, and name the page's site in `Origin`.
    """
    origin, origins = request.headers.get("Origin"), request.app[EDGE].origins
    if origin is None or is_own_origin(request, origin) or origins.allows(request.raw_path, origin):
        return
    raise Problem(ProblemType.CSRF, OTHER_ORIGIN)


async def _friends(edge: Edge, bearer: Bearer | None) -> tuple[frozenset[str], frozenset[str]]:
    """Return the players whose standings a feed of friends shows, and those whose ranks: the bearer alone."""
    assert bearer is not None, "a request for friends has a token"
    friends = (await friends_of(edge, bearer.subject)).friends
    bearers = frozenset({bearer.subject})
    return bearers | frozenset(friends), bearers


def _windows(request: web.Request, board: Board) -> frozenset[str]:
    """Return the kinds and names of the windows that are asked for, none for all."""
    names = _list(request, "window") or []
    if len(names) > WINDOWS_LIMIT:
        raise _violation(f"window: expected at most {WINDOWS_LIMIT}")
    kinds = [kind.value for kind in board.policy.windows]
    for name in names:
        match = _NAMED_WINDOW.fullmatch(name)
        if name not in kinds and not (match and match[1] in kinds):
            raise Problem(ProblemType.NOT_FOUND, f"the board keeps the windows {', '.join(kinds)}")
    return frozenset(names)


def _players(request: web.Request) -> frozenset[str] | None:
    ids = _list(request, "players")
    if ids is None:
        return None
    try:
        players = frozenset(_PLAYER.validate_python(player) for player in ids)
    except ValidationError:
        raise _violation("players: expected player ids, separated by commas") from None
    if len(players) > PLAYERS_LIMIT:
        raise _violation(f"players: expected at most {PLAYERS_LIMIT}")
    return players


def _kinds(request: web.Request) -> frozenset[EventKind]:
    names = _list(request, "events")
    if names is None:
        return SELECTABLE_KINDS
    if not set(names) <= SELECTABLE_KINDS:
        raise _violation(f"events: expected some of {', '.join(sorted(SELECTABLE_KINDS))}")
    return frozenset(EventKind(name) for name in names)


def _mode(request: web.Request) -> FeedMode:
    text = request.query.get("mode", FeedMode.ALL.value)
    if text not in set(FeedMode):
        raise _violation(f"mode: expected {' or '.join(FeedMode)}")
    return FeedMode(text)


def _after(request: web.Request) -> str | None:
    """Return the id to resume after."""
    # The header comes first: a browser that reconnects sends it with the query that it began with.
    for name, text in (
        ("Last-Event-ID", request.headers.get("Last-Event-ID")),
        ("after", request.query.get("after")),
    ):
        if text is not None:
            if not is_stream_id(text):
                raise Problem(
                    ProblemType.MALFORMED_REQUEST, f"{name}: expected the id of an event of this feed"
                )
            return text
    return None


def _list(request: web.Request, name: str) -> list[str] | None:
    """Return the parts of a comma-separated parameter, None if it is absent."""
    text = request.query.get(name)
    return None if text is None else text.split(",")


def _violation(detail: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, detail)
