"""Trends: who played most and who improved most within the last hour and the last day, in slots of time.

An improvement is the margin by which a submission, when it first counts, beats the player's best earlier one
that counts. A player's first submission is no improvement: it beats nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.derived.frequency_sketch import FrequencySketch, FrequentItem
from gateway.ledger.derived import trends
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.derived.trends import BEGINNING, TrendSlot
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Transaction
from gateway.runtime.clock import Clock
from policies.fields import SortOrder
from policies.vocabulary import State

MINUTE_MS: Final = 60_000


class TrendKind(StrEnum):
    """The measure of a trend."""

    PLAYED = "played"
    IMPROVED = "improved"


class Span(StrEnum):
    """The period that a trend looks back on."""

    HOUR = "hour"
    DAY = "day"

    @property
    def slot_ms(self) -> int:
        """Return the length of a slot. A trend may look back this much further than its span."""
        return 5 * MINUTE_MS if self is Span.HOUR else 60 * MINUTE_MS

    @property
    def length_ms(self) -> int:
        """Return the length of the span."""
        return 60 * MINUTE_MS if self is Span.HOUR else 24 * 60 * MINUTE_MS


KEPT_MS: Final = 2 * Span.DAY.length_ms
"""The lifetime of slots, so long that a slow steward still finds the slots of its late events."""


PRUNED_AT_ONCE: Final = 1_000
"""Slots that are looked at, in turn, after each slice of the log: more than a slice can add."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The leaders since a moment (Unix ms), the total of all players, and how far off a number can be."""

    since_ms: int
    total: int
    error: int
    leaders: tuple[FrequentItem, ...]


class Trends:
    """The consumer that keeps a sketch for each board, kind and slot.

    Sketches and position are committed together, so no event counts twice.
    """

    name = "trends"

    def __init__(self, catalogue: Catalogue, *, clock: Clock) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._pruned = BEGINNING

    async def begin(self, tx: Transaction, _newest: int) -> int:
        """Begin at the first event; old ones pass quickly."""
        await trends.forget(tx)
        return 0

    async def prepare(self, events: Sequence[LoggedEvent]) -> None:
        """Do nothing: all of it is in the ledger."""

    async def apply(self, tx: Transaction, events: Sequence[LoggedEvent]) -> None:
        """Add to the sketches of the slots, and delete old ones."""
        since_ms = self._clock() - KEPT_MS
        weights: dict[TrendSlot, Counter[str]] = defaultdict(Counter)
        for event in events:
            policy = self._catalogue.policy_of(event.board)
            if event.at_ms < since_ms or policy is None:
                continue
            kind, weight = await self._weight(tx, event, policy.order)
            if weight:
                for span in Span:
                    begin_ms = event.at_ms - event.at_ms % span.slot_ms
                    weights[TrendSlot(event.board, kind.value, span.slot_ms, begin_ms)][event.player] += (
                        weight
                    )
        stored = await trends.sketches_of(tx, weights)
        await trends.put_sketches(
            tx, {slot: _with(stored.get(slot), added) for slot, added in weights.items()}
        )
        self._pruned = await trends.prune_next(tx, self._pruned, before_ms=since_ms, count=PRUNED_AT_ONCE)

    async def _weight(self, tx: Transaction, event: LoggedEvent, order: SortOrder) -> tuple[TrendKind, int]:
        if event.from_state is State.RECEIVED:
            return TrendKind.PLAYED, 1
        if event.difference <= 0 or await self._has_counted(tx, event):
            return TrendKind.IMPROVED, 0
        earlier = await trends.best_before(tx, event.board, event.player, event.received_seq, order)
        if earlier is None:
            return TrendKind.IMPROVED, 0
        sign = -1 if order is SortOrder.ASCENDING else 1
        return TrendKind.IMPROVED, max(0, sign * (event.score - earlier))

    @staticmethod
    async def _has_counted(tx: Transaction, event: LoggedEvent) -> bool:
        """Return whether the submission counted before it was promoted by this event."""
        return event.from_state is not State.PENDING and await trends.was_promoted(
            tx, event.submission_id, event.seq
        )


def _with(stored: bytes | None, added: Mapping[str, int]) -> bytes:
    """Return a slot's sketch with more weights."""
    sketch = FrequencySketch.merged([stored] if stored else [])
    sketch.add_all(added)
    return sketch.stored()


async def trend_of(
    ledger: Ledger, board: str, kind: TrendKind, span: Span, *, now_ms: int, count: int
) -> Trend:
    """Return the leaders of a span, from its slots. The first slot counts whole."""
    since_ms = now_ms - span.length_ms
    since_ms -= since_ms % span.slot_ms
    stored = await ledger.read(trends.sketches_since(board, kind.value, span.slot_ms, since_ms=since_ms))
    sketch = FrequencySketch.merged(stored)
    return Trend(since_ms, sketch.total, sketch.error, tuple(sketch.first(count)))
