"""Limits what a caller's reads may cost, by buckets of CPU time for addresses, networks and players.

A read costs what its route declares for Redis and the ledger, and what its handler is measured to take, also
in tasks and threads of its own. A caller with an empty bucket is refused before any work begins.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.admission.address import ClientName
from gateway.edge.auth.moderator_credentials import token_in
from gateway.edge.context import EDGE
from gateway.edge.http.request import bearer_of_token, client_names
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.reads import READER
from gateway.runtime.metering import METER, CostMeter, metered
from policies.errors import LedgerUnavailable

SAVED_S: Final = 30
"""Seconds' worth of its share that a caller may use at once."""

CALLERS: Final = 65_536
"""Callers that are remembered. Beyond that, those longest away are forgotten."""

FREE: Final = frozenset({"/livez", "/readyz"})
"""Routes that only the deployment's own machines call."""

DECLARED_US: Final = {
    "/v1/boards/{board}/entries": 100,
    "/v1/boards/{board}/entries/{player}": 150,
    "/v1/boards/{board}/entries/{player}/around": 150,
    "/v1/boards/{board}/percentiles": 300,
    "/v1/boards/{board}/distribution": 600,
    "/v1/boards/{board}/details": 1_000,
    "/v1/boards/{board}/trending": 2_000,
    "/v1/boards/{board}/statistics": 500,
    "/v1/families/{family}/boards": 1_000,
    "/v1/boards/{board}/live": 2_000,
    "/v1/boards/{board}/live/websocket": 2_000,
    "/openapi.json": 2_000,
}
"""Microseconds of Redis, the ledger or sending for a read of each route, estimated in the caller's favour."""

NETWORK_TIMES: Final = 1.5
"""The share of the network around an address, in shares of an address: a site has 65,536 of them in IPv6."""

OTHERWISE_US: Final = 300
"""The same for all other routes."""

BY_QUERY_US: Final = {"friends": 3_000, "players": 2_000, "segment": 300, "as_of": 200_000, "after": 5_000}
"""The work that a parameter adds."""

ACROSS_BOARDS_US: Final = 200
"""The work for each board of a page or list, of which many may be read from the ledger."""

FILTERED_US: Final = 10_000
"""The work of walking over boards that have the value of one filter."""

OWN_VIEW_US: Final = 1_000
"""The work of a shadow-banned player's own view of a window: a read of the ledger, and some of the index."""

PAGE_US: Final = 2_000
"""The work of the ledger for a page of a player's runs, with their events."""

OWN_RUN_US: Final = 0.15
"""The work for each run that an own view reads: 15 ms for a hundred thousand, the most."""

_OF_LIVE: Final = frozenset({"after"})

_ASKING: Final = web.RequestKey("player_asking", str)


class ReadBudget:
    """The buckets of all callers. Each fills by `share` seconds of work a second, up to SAVED_S of that."""

    def __init__(self, share: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._paid_until: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, caller: str) -> float:
        """Return how long a caller has to wait before a read; 0 for not at all."""
        if caller not in self._paid_until:
            return 0.0
        # Also a refused caller is in use: if it were forgotten, its bucket would be full again.
        self._paid_until.move_to_end(caller)
        return max(0.0, self._paid_until[caller] - SAVED_S - self._clock())

    def charge(self, caller: str, cost_us: float) -> None:
        """Take the cost of a read from the bucket of one caller."""
        now_s = self._clock()
        until_s = max(now_s, self._paid_until.pop(caller, 0.0)) + cost_us / 1e6 / self._share
        self._paid_until[caller] = until_s
        if len(self._paid_until) > CALLERS:
            self._paid_until.popitem(last=False)

    def __len__(self) -> int:
        return len(self._paid_until)


class ReadBudgets:
    """The buckets of addresses, players and networks around addresses.

    A read is charged to all of its caller's.
    """

    def __init__(self, share: float) -> None:
        self._of_one, self._of_networks = ReadBudget(share), ReadBudget(share * NETWORK_TIMES)

    def wait_s(self, names: ClientName, player: str = "") -> float:
        """Return how long a client has to wait before a read; 0 for not at all."""
        waits_s = [self._of_one.wait_s(names.address), self._of_networks.wait_s(names.network)]
        return max(*waits_s, self._of_one.wait_s(f"player {player}") if player else 0.0)

    def charge(self, names: ClientName, cost_us: float, player: str = "") -> None:
        """Take the cost of a read from each bucket."""
        self._of_one.charge(names.address, cost_us)
        self._of_networks.charge(names.network, cost_us)
        if player:
            self._of_one.charge(f"player {player}", cost_us)


def player_asking(request: web.Request) -> str:
    """Return the player whose token, not over, a read has; empty without one, which the handler refuses."""
    player: str = request.get(_ASKING, "")
    return player


async def _note_player_asking(request: web.Request) -> None:
    """Note whose token a read has. One that is not known to be over is good while the ledger is away."""
    if "Authorization" in request.headers:
        with suppress(Problem):
            bearer = bearer_of_token(request, token_in(request))
            with suppress(LedgerUnavailable):
                if await request.app[EDGE].ended_tokens.has_ended(bearer):
                    return
            request[_ASKING] = bearer.subject


class DeclaredCost(NamedTuple):
    """A route, and what a read of one of its targets costs Redis and the ledger (µs)."""

    route: str
    us: int


UNDECLARED: Final = DeclaredCost("none", 0)

DECLARED: Final = web.RequestKey("declared", DeclaredCost)
"""What a read was declared to cost."""

BUDGET: Final = web.AppKey("read_budget", ReadBudgets)


def budgeted(path: str, handler: Handler) -> Handler:
    """Wrap the handler of a GET route so that its caller pays.

    It raises `quota-exceeded` for an empty bucket.
    """
    if path in FREE:
        return handler

    async def paid(request: web.Request) -> web.StreamResponse:
        budget, names = request.app[BUDGET], client_names(request.app[EDGE], request)
        if budget.wait_s(names) == 0:
            await _note_player_asking(request)
        player = player_asking(request)
        if (wait_s := budget.wait_s(names, player)) > 0:
            raise _used_up(wait_s)
        declared = request[DECLARED] = DeclaredCost(path, declared_us(path, request))
        budget.charge(names, declared.us, player)
        meter = CostMeter(lambda cost_us: budget.charge(names, cost_us, player))
        METER.set(meter)  # for this request alone, as all that aiohttp's task of it has in its context
        READER.set(names.address)
        try:
            return await metered(handler(request), meter)
        finally:
            meter.settle()

    return paid


def charge_own_view(request: web.Request, *, folds: int, runs: int) -> None:
    """Have who sent a request pay for views of their own, which took so many folds of so many runs."""
    names, cost_us = client_names(request.app[EDGE], request), folds * OWN_VIEW_US + runs * OWN_RUN_US
    request.app[BUDGET].charge(names, cost_us, player_asking(request))


def charge_page(request: web.Request) -> None:
    """Have who sent a request pay for another page of what it reads from the ledger."""
    names = client_names(request.app[EDGE], request)
    request.app[BUDGET].charge(names, PAGE_US, player_asking(request))


def declared_us(path: str, request: web.Request) -> int:
    """Return the declared cost of a read for Redis and the ledger, in microseconds."""
    cost = DECLARED_US.get(path, OTHERWISE_US) + ACROSS_BOARDS_US * _boards_read(path, request)
    is_live = "/live" in path
    for name, added in BY_QUERY_US.items():
        if name in request.query and (is_live or name not in _OF_LIVE):
            cost += added
    if is_live and "after" not in request.query and "Last-Event-ID" in request.headers:
        cost += BY_QUERY_US["after"]
    if path == "/v1/families/{family}/boards" and any("." in name for name in request.query):
        cost += FILTERED_US
    return cost


def _boards_read(path: str, request: web.Request) -> int:
    """Return on how many boards a read looks for a player, 0 for a read of one board."""
    if path == "/v1/families/{family}/players/{player}/standings":
        limit = request.query.get("limit", "25")
        return int(limit) if limit.isascii() and limit.isdigit() and len(limit) < len("1000") else 0
    if path == "/v1/players/{player}/entries":
        return request.query.get("boards", "").count(",") + 1
    return 0


def _used_up(wait_s: float) -> Problem:
    seconds = max(1, math.ceil(wait_s))
    headers = {
        "Retry-After": str(seconds),
        "RateLimit": f'"reads";r=0;t={seconds}',
        "RateLimit-Policy": f'"reads";q={SAVED_S};w={SAVED_S}',
    }
    detail = "reads by you, your address or your network have used up their budget"
    return Problem(ProblemType.QUOTA_EXCEEDED, detail, headers=headers)
