"""Compares a whole board's index with the ledger, once, and names each difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from gateway.steward.index.comparison import aspects_of, aspects_when_cold
from gateway.steward.index.comparison.difference import Aspect, BoardView, Difference, confirm

SLICE: Final = 1_000
LIMIT: Final = 10_000
"""Differences that one round names; a board with more is better rebuilt."""

IN_FLIGHT_S: Final = 3.0
"""How long a settlement may be under way to the index: longer than the steward waits before it shows it itself."""

ROUNDS: Final = 3
"""How often a repair is looked over: what hid behind one difference shows in the next round."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The differences of a board, whether those are all, and how many were left when the last repair was looked over."""

    differences: tuple[Difference, ...]
    is_complete: bool
    left: int


async def check(view: BoardView, *, is_repaired: bool, in_flight_s: float) -> IndexReport:
    """What differs, and still does after `in_flight_s`. Raises IndexUnavailable and LedgerUnavailable."""
    found, is_complete = await _round(view, is_repaired=is_repaired, in_flight_s=in_flight_s)
    named, left = dict.fromkeys(found), len(found)
    for _ in range(ROUNDS - 1):
        if not is_repaired or not left:
            break
        again, is_complete = await _round(view, is_repaired=True, in_flight_s=in_flight_s)
        named, left = named | dict.fromkeys(again), len(again)
    return IndexReport(tuple(named), is_complete, left)


async def _round(view: BoardView, *, is_repaired: bool, in_flight_s: float) -> tuple[list[Difference], bool]:
    is_cold = (await view.index.residency.state()).is_cold
    aspects = aspects_when_cold(view) if is_cold else aspects_of(view)
    candidates = [(aspect, await _candidates(aspect)) for aspect in aspects]
    if any(found for _, found in candidates):
        await asyncio.sleep(in_flight_s)
    named: list[Difference] = []
    for aspect, found in candidates:
        for at in range(0, len(found), SLICE):
            confirmed = await confirm(aspect, found[at : at + SLICE])
            named += confirmed
            if is_repaired:
                await aspect.repair(confirmed)
    return named, all(len(found) < LIMIT for _, found in candidates)


async def _candidates(aspect: Aspect) -> Sequence[Difference]:
    """What differs at first sight, each once; no more than LIMIT."""
    found: dict[Any, Difference] = {}
    for walk in aspect.walks():
        async with aclosing(walk(SLICE)) as slices:
            async for subjects in slices:
                found |= {each.subject: each for each in await aspect.compare(subjects)}
                if len(found) >= LIMIT:
                    return list(found.values())[:LIMIT]
    return list(found.values())
