"""Compares a whole board's index with the ledger, once, and names each difference."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from gateway.ledger import queries
from gateway.steward.index.comparison import aspects_of, aspects_when_cold
from gateway.steward.index.comparison.difference import Aspect, BoardView, Difference, confirm
from policies.errors import IndexUnavailable, LedgerUnavailable, ScoregateError

SLICE: Final = 1_000
LIMIT: Final = 10_000
"""Differences that one round names; a board with more is better rebuilt."""

IN_FLIGHT_S: Final = 3.0
"""Time for a settlement to reach the index. The steward waits less before it shows a settlement itself."""

ROUNDS: Final = 3
"""Rounds of a check that repairs. A difference can hide another, which shows in the next round."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The differences of a board, whether they are all, and how many the last round still found.

    `failure` is what kept the last round from comparing or repairing a part of the board.
    """

    differences: tuple[Difference, ...]
    is_complete: bool
    left: int
    failure: ScoregateError | None = None


async def check(
    view: BoardView, *, is_repaired: bool, in_flight_s: float, searches: bool = True
) -> IndexReport:
    """Return the differences that last for `in_flight_s`.

    `searches` also looks through all keys of the server for leftovers of the board. A part that cannot be
    read keeps no other from being repaired, which may make it readable. Raises IndexUnavailable and
    LedgerUnavailable if Redis or the ledger is away.
    """
    check_round = partial(_round, view, is_repaired=is_repaired, in_flight_s=in_flight_s, searches=searches)
    report = await check_round()
    named = dict.fromkeys(report.differences)
    for _ in range(ROUNDS - 1):
        if not is_repaired or not report.left:
            break
        report = await check_round()
        named |= dict.fromkeys(report.differences)
    return replace(report, differences=tuple(named))


async def _round(view: BoardView, *, is_repaired: bool, in_flight_s: float, searches: bool) -> IndexReport:
    is_cold = (await view.index.residency.state()).is_cold
    aspects = aspects_when_cold(view) if is_cold else aspects_of(view, searches=searches)
    failures = _Failures(view)
    candidates = [(aspect, await _candidates(aspect, failures)) for aspect in aspects]
    # One wait for all aspects: whatever was in flight to the index has arrived by then.
    if any(differences for _, differences in candidates):
        await asyncio.sleep(in_flight_s)
    named: list[Difference] = []
    for aspect, differences in candidates:
        for at in range(0, len(differences), SLICE):
            async with failures.passed_over():
                confirmed = await confirm(aspect, differences[at : at + SLICE])
                named += confirmed
                if is_repaired:
                    await aspect.repair(confirmed)
    is_complete = not failures.first and all(len(differences) < LIMIT for _, differences in candidates)
    return IndexReport(tuple(named), is_complete, len(named), failures.first)


class _Failures:
    """The failures of a round in parts of a board, which it passes over."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self.first: ScoregateError | None = None

    @asynccontextmanager
    async def passed_over(self) -> AsyncIterator[None]:
        """Note a failure inside, and go on behind it. Raises if nothing else could be compared either."""
        try:
            yield
        except (IndexUnavailable, LedgerUnavailable) as error:
            for index in dict.fromkeys((self._view.index, *self._view.index.shards)):
                await index.residency.state()
            await self._view.ledger.read(queries.newest_seq())
            self.first = self.first or error


async def _candidates(aspect: Aspect, failures: _Failures) -> Sequence[Difference]:
    """Return the differences at first sight, each once, at most LIMIT."""
    differences: dict[Any, Difference] = {}
    for walk in aspect.walks():
        async with failures.passed_over(), aclosing(walk(SLICE)) as slices:
            async for subjects in slices:
                compared = await aspect.compare(subjects)
                differences |= {difference.subject: difference for difference in compared}
                if len(differences) >= LIMIT:
                    return list(differences.values())[:LIMIT]
    return list(differences.values())
