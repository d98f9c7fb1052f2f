"""Trending now: who played most and who improved most within the last hour and the last day, in slots of time.

An improvement is by how much a submission, when it first counts, is better than the best earlier one of the player that
counts. What the first submission of a player is worth says nothing of improvement, so it is none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.derived.sketch import Frequent, Sketch
from gateway.ledger.derived import trends
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.derived.trends import TrendSlot
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Transaction
from gateway.runtime.clock import Clock
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import State

MINUTE_MS: Final = 60_000


class TrendKind(StrEnum):
    """What is counted."""

    PLAYED = "played"
    IMPROVED = "improved"


class Span(StrEnum):
    """How far back it is looked. A value of `SLOT_MS` is the length of its slots."""

    HOUR = "hour"
    DAY = "day"

    @property
    def slot_ms(self) -> int:
        """How long a slot is: by so much more than the span may be looked back."""
        return 5 * MINUTE_MS if self is Span.HOUR else 60 * MINUTE_MS

    @property
    def length_ms(self) -> int:
        """How long the span is."""
        return 60 * MINUTE_MS if self is Span.HOUR else 24 * 60 * MINUTE_MS


KEPT_MS: Final = 2 * Span.DAY.length_ms
"""How long slots are kept: what a slow steward comes late with must still find its own."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Who leads, since when (ms), of how much in all, and by how much a number can be off at most."""

    since_ms: int
    total: int
    error: int
    leaders: tuple[Frequent, ...]


class Trends:
    """A sketch for each board, kind and slot, kept in the ledger beside the position, so that no event counts twice."""

    name = "trends"

    def __init__(self, boards: Mapping[str, Board], *, clock: Clock) -> None:
        self._boards = boards
        self._clock = clock

    async def begin(self, tx: Transaction, _newest: int) -> int:
        """From the first event on; those of long ago pass quickly."""
        await trends.prune(tx, before_ms=2**62)
        return 0

    async def prepare(self, events: Sequence[LoggedEvent]) -> None:
        """Nothing: all of it is in the ledger."""

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """Adds to the sketches of the slots, and lets old ones go."""
        since_ms = self._clock() - KEPT_MS
        weights: dict[TrendSlot, Counter[str]] = defaultdict(Counter)
        for each in events:
            if each.at_ms < since_ms or each.board not in self._boards:
                continue
            kind, weight = await self._weight(tx, each)
            if weight:
                for span in Span:
                    begin_ms = each.at_ms - each.at_ms % span.slot_ms
                    weights[TrendSlot(each.board, kind.value, span.slot_ms, begin_ms)][each.player] += weight
        for slot, added in weights.items():
            stored = await trends.sketch_of(tx, slot)
            sketch = Sketch.merged([stored] if stored else [])
            sketch.add_all(added)
            await trends.put_sketch(tx, slot, sketch.stored())
        await trends.prune(tx, before_ms=since_ms)

    async def _weight(self, tx: Transaction, event: LoggedEvent) -> tuple[TrendKind, int]:
        if event.from_state is State.RECEIVED:
            return TrendKind.PLAYED, 1
        is_first = event.difference > 0 and event.from_state is not State.REVOKED
        order = self._boards[event.board].policy.order
        earlier = (
            await trends.best_before(tx, event.board, event.player, event.received_seq, order)
            if is_first
            else None
        )
        if earlier is None:
            return TrendKind.IMPROVED, 0
        sign = -1 if order is SortOrder.ASCENDING else 1
        return TrendKind.IMPROVED, max(0, sign * (event.score - earlier))


async def trend_of(
    ledger: Ledger, board: str, kind: TrendKind, span: Span, *, now_ms: int, count: int
) -> Trend:
    """The leaders of a span, from its slots. The first slot is taken whole."""
    since_ms = now_ms - span.length_ms
    since_ms -= since_ms % span.slot_ms
    stored = await ledger.read(trends.sketches_since(board, kind.value, span.slot_ms, since_ms=since_ms))
    sketch = Sketch.merged(stored)
    return Trend(since_ms, sketch.total, sketch.error, tuple(sketch.first(count)))
