"""Compares a whole board's index with the ledger, once, and names each difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gateway.steward.index.comparison import aspects_of, aspects_when_cold
from gateway.steward.index.comparison.difference import Aspect, BoardView, Difference, confirm

SLICE: Final = 1_000
LIMIT: Final = 10_000
"""Differences that one round names; a board with more is better rebuilt."""

IN_FLIGHT_S: Final = 3.0
"""Time for a settlement to reach the index. The steward waits less before it shows a settlement itself."""

ROUNDS: Final = 3
"""Rounds of a check that repairs. A difference can hide another, which shows in the next round."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The differences of a board, whether they are all, and how many the last round still found."""

    differences: tuple[Difference, ...]
    is_complete: bool
    left: int


async def check(
    view: BoardView, *, is_repaired: bool, in_flight_s: float, searches: bool = True
) -> IndexReport:
    """Return the differences that last for `in_flight_s`. Raises IndexUnavailable and LedgerUnavailable.

    `searches` also looks through all keys of the server for leftovers of the board.
    """
    check_round = partial(_round, view, in_flight_s=in_flight_s, searches=searches)
    differences, is_complete = await check_round(is_repaired=is_repaired)
    named, left = dict.fromkeys(differences), len(differences)
    for _ in range(ROUNDS - 1):
        if not is_repaired or not left:
            break
        again, is_complete = await check_round(is_repaired=True)
        named, left = named | dict.fromkeys(again), len(again)
    return IndexReport(tuple(named), is_complete, left)


async def _round(
    view: BoardView, *, is_repaired: bool, in_flight_s: float, searches: bool
) -> tuple[list[Difference], bool]:
    is_cold = (await view.index.residency.state()).is_cold
    aspects = aspects_when_cold(view) if is_cold else aspects_of(view, searches=searches)
    candidates = [(aspect, await _candidates(aspect)) for aspect in aspects]
    # One wait for all aspects: whatever was in flight to the index has arrived by then.
    if any(differences for _, differences in candidates):
        await asyncio.sleep(in_flight_s)
    named: list[Difference] = []
    for aspect, differences in candidates:
        for at in range(0, len(differences), SLICE):
            confirmed = await confirm(aspect, differences[at : at + SLICE])
            named += confirmed
            if is_repaired:
                await aspect.repair(confirmed)
    return named, all(len(differences) < LIMIT for _, differences in candidates)


async def _candidates(aspect: Aspect) -> Sequence[Difference]:
    """Return the differences at first sight, each once, at most LIMIT."""
    differences: dict[Any, Difference] = {}
    for walk in aspect.walks():
        async with aclosing(walk(SLICE)) as slices:
            async for subjects in slices:
                compared = await aspect.compare(subjects)
                differences |= {difference.subject: difference for difference in compared}
                if len(differences) >= LIMIT:
                    return list(differences.values())[:LIMIT]
    return list(differences.values())
