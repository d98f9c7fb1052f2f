"""Composite ties: how finely a score and a slot of time fit into one exact number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from policies.choices import Operator, WindowKind
from policies.judging import Bounds

COMPOSITE_BEGIN_MS = 1_577_836_800_000
"""2020-01-01, where the slots of time of an all-time board begin."""

_HOUR_MS = 3_600_000
COMPOSITE_SPANS_MS: Mapping[WindowKind, int] = MappingProxyType(
    {
        WindowKind.ALLTIME: 4_102_444_800_000 - COMPOSITE_BEGIN_MS,  # to 2100-01-01
        WindowKind.DAILY: 25 * _HOUR_MS,
        WindowKind.WEEKLY: (7 * 24 + 1) * _HOUR_MS,
        WindowKind.MONTHLY: (31 * 24 + 1) * _HOUR_MS,
        WindowKind.SEASON: (366 * 24 + 1) * _HOUR_MS,
    }
)
"""The time (ms) that a window's slots cover: the longest window of its kind, with an hour for a change of
clocks."""

COMPOSITE_BITS = 53
"""Bits of an integer that a ZSET score, an IEEE double, represents exactly."""


def slot_lengths_ms(score: Bounds, windows: Iterable[WindowKind]) -> Mapping[WindowKind, int]:
    """Return how long (ms) the slots of each window are beside such scores; empty if there is no room."""
    slots = _slots_beside(score)
    return MappingProxyType({kind: -(-COMPOSITE_SPANS_MS[kind] // slots) for kind in windows if slots})


def refuse_coarse_slots(
    operator: Operator, score: Bounds, windows: Iterable[WindowKind], resolution_ms: int
) -> None:
    """Raise ValueError if a window's slots are longer than `resolution_ms`, or there is no room for any."""
    if operator in {Operator.SUM, Operator.COUNT}:
        raise ValueError("`tie_break: composite` needs bounded scores, which sums and counts are not")
    slots = _slots_beside(score)
    if not slots:
        raise ValueError(
            "`tie_break: composite` needs bounds less than 2^53 apart, to leave room for the time"
        )
    coarse = [
        f"{slot_ms} ms in {kind.value}"
        for kind, slot_ms in slot_lengths_ms(score, windows).items()
        if slot_ms > resolution_ms
    ]
    if coarse:
        raise ValueError(
            f"scores from {score.minimum} to {score.maximum} leave {slots} of 2^{COMPOSITE_BITS} values for "
            f"the time: slots of {', '.join(coarse)}, longer than the `tie_resolution_ms` of {resolution_ms}"
        )


def _slots_beside(score: Bounds) -> int:
    return int(2**COMPOSITE_BITS // (score.maximum - score.minimum + 1))
