"""What one caller's reads may cost: a bucket of CPU time for each address, network and player, kept in the process and bounded.

A read costs what its route declares for Redis and the ledger, and what its handler is measured to take on the event loop.
Where a caller has used up more than their share, they are told so before anything is begun.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from types import coroutine
from typing import Any, Final, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.admission.address import ClientName
from gateway.edge.context import EDGE
from gateway.edge.http.request import bearer_of, client_names
from gateway.edge.problems import Problem, ProblemType

T = TypeVar("T")

SAVED_S: Final = 30
"""How many seconds' worth of its share a caller may use at once."""

CALLERS: Final = 65_536
"""Callers that are remembered; of more, those that were longest away are forgotten."""

CHARGED_NS: Final = 5_000_000
"""What a feed has run for before it is charged anew, long before it ends."""

FREE: Final = frozenset({"/livez", "/readyz"})
"""What is asked by machines of our own."""

DECLARED_US: Final = {
    "/v1/boards/{board}/entries": 100,
    "/v1/boards/{board}/entries/{player}": 150,
    "/v1/boards/{board}/entries/{player}/around": 150,
    "/v1/boards/{board}/percentiles": 300,
    "/v1/boards/{board}/distribution": 600,
    "/v1/boards/{board}/details": 1_000,
    "/v1/boards/{board}/trending": 2_000,
    "/v1/boards/{board}/statistics": 500,
    "/v1/boards/{board}/live": 2_000,
    "/v1/boards/{board}/live/websocket": 2_000,
}
"""What Redis and the ledger do for a read of each route, in microseconds: an estimate, generous to the caller."""

NETWORK_TIMES: Final = 1.5
"""What the network around an address may use, in shares of an address: a site has 65,536 addresses of IPv6 to ask from."""

OTHERWISE_US: Final = 300
"""The same for the others."""

BY_QUERY_US: Final = {"friends": 3_000, "players": 2_000, "segment": 300, "as_of": 200_000, "after": 5_000}
"""What a parameter adds to that."""

_OF_LIVE: Final = frozenset({"after"})


class ReadBudget:
    """The buckets of all callers: each fills by `share` seconds of work a second, up to SAVED_S of that."""

    def __init__(self, share: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._paid_until: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, caller: str) -> float:
        """Return how long a caller has to wait until they may read; 0 for now. Who asks is not forgotten for others."""
        if caller not in self._paid_until:
            return 0.0
        self._paid_until.move_to_end(caller)
        return max(0.0, self._paid_until[caller] - SAVED_S - self._clock())

    def charge(self, caller: str, cost_us: float) -> None:
        """Takes the cost of a read from the bucket of one caller."""
        now_s = self._clock()
        until_s = max(now_s, self._paid_until.pop(caller, 0.0)) + cost_us / 1e6 / self._share
        self._paid_until[caller] = until_s
        if len(self._paid_until) > CALLERS:
            self._paid_until.popitem(last=False)

    def __len__(self) -> int:
        return len(self._paid_until)


class ReadBudgets:
    """The buckets of addresses and players, and those of the networks around addresses: a read is paid for from all."""

    def __init__(self, share: float) -> None:
        self._of_one, self._of_networks = ReadBudget(share), ReadBudget(share * NETWORK_TIMES)

    def wait_s(self, names: ClientName, player: str = "") -> float:
        """How long a client has to wait until they may read; 0 for now."""
        waits_s = [self._of_one.wait_s(names.address), self._of_networks.wait_s(names.network)]
        return max(*waits_s, self._of_one.wait_s(f"player {player}") if player else 0.0)

    def charge(self, names: ClientName, cost_us: float, player: str = "") -> None:
        """Takes the cost of a read from each."""
        self._of_one.charge(names.address, cost_us)
        self._of_networks.charge(names.network, cost_us)
        if player:
            self._of_one.charge(f"player {player}", cost_us)


def player_asking(request: web.Request) -> str:
    """The player whose token comes with a request; empty without a valid one, of which the handler tells."""
    if "Authorization" in request.headers:
        with suppress(Problem):
            return bearer_of(request).subject
    return ""


class Spent:
    """CPU time on the event loop, in nanoseconds, told to `charge` (µs) as it is caused.

    What a busy machine takes away is no cost of the caller.
    """

    def __init__(self, charge: Callable[[float], None] = lambda _: None) -> None:
        self.ns = 0
        self._charged_ns = 0
        self._charge = charge

    def add(self, ns: int) -> None:
        """Counts time, and charges what has come together."""
        self.ns += ns
        if self.ns - self._charged_ns >= CHARGED_NS:
            self.settle()

    def settle(self) -> None:
        """Charges what is not charged yet."""
        self._charge((self.ns - self._charged_ns) / 1000)
        self._charged_ns = self.ns


BUDGET: Final = web.AppKey("read_budget", ReadBudgets)


def budgeted(path: str, handler: Handler) -> Handler:
    """The handler of a GET route, at the cost of the caller. Raises `quota-exceeded` for one whose bucket is empty."""
    if path in FREE:
        return handler

    async def paid(request: web.Request) -> web.StreamResponse:
        budget, names = request.app[BUDGET], client_names(request.app[EDGE], request)
        player = player_asking(request)
        if (wait_s := budget.wait_s(names, player)) > 0:
            raise _used_up(wait_s)
        budget.charge(names, declared_us(path, request), player)
        spent = Spent(lambda cost_us: budget.charge(names, cost_us, player))
        try:
            return await metered(handler(request), spent)
        finally:
            spent.settle()

    return paid


def declared_us(path: str, request: web.Request) -> int:
    """What a read is taken to cost Redis and the ledger, in microseconds."""
    cost = DECLARED_US.get(path, OTHERWISE_US)
    is_live = "/live" in path
    for name, added in BY_QUERY_US.items():
        if name in request.query and (is_live or name not in _OF_LIVE):
            cost += added
    return cost


@coroutine
def metered(work: Awaitable[T], spent: Spent) -> Generator[Any, Any, T]:
    """What `work` gives, with the time that it runs added to `spent`; the time that it waits is not."""
    steps = work.__await__()
    step: Callable[[], Any] = lambda: next(steps)  # noqa: E731 - the next step differs each time
    while True:
        begun_ns = time.thread_time_ns()
        try:
            awaited = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            spent.add(time.thread_time_ns() - begun_ns)
        step = yield from _answered(awaited, steps)


def _answered(awaited: Any, steps: Generator[Any, Any, T]) -> Generator[Any, Any, Callable[[], Any]]:
    """The next step, by what came of what is awaited."""
    try:
        answer = yield awaited
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the work
        thrown = error
        return lambda: steps.throw(thrown)
    return lambda: steps.send(answer)


def _used_up(wait_s: float) -> Problem:
    seconds = max(1, math.ceil(wait_s))
    headers = {
        "Retry-After": str(seconds),
        "RateLimit": f'"reads";r=0;t={seconds}',
        "RateLimit-Policy": f'"reads";q={SAVED_S};w={SAVED_S}',
    }
    detail = "your address, your network or you have used up what reads may cost for now"
    return Problem(ProblemType.QUOTA_EXCEEDED, detail, headers=headers)
