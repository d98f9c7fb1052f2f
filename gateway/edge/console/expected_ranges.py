"""Where a finding's value lies beside the expected range, on a line from 0 to 100."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

from gateway.edge.wire.outcomes import ExpectedShown

_MARGIN: Final = 0.12
"""The part of the line beyond the outermost of value and range, on each side."""


@dataclass(frozen=True, slots=True)
class RangeFigure:
    """The places of the expected range and of the value on a line from 0 to 100."""

    low: float
    high: float
    value: float

    @property
    def width(self) -> float:
        """Return the width of the range, which can be seen however narrow it is."""
        return max(1.2, self.high - self.low)


def range_figure(value: float, expected: ExpectedShown) -> RangeFigure | None:
    """Return the figure of a value; None if there is no range to compare it with."""
    ends = [end for end in (expected.at_least, expected.at_most) if end is not None and isfinite(end)]
    if not ends or not isfinite(value):
        return None
    least, most = min(value, *ends), max(value, *ends)
    if expected.at_least is None and least >= 0:
        least = 0.0  # where most units begin
    reach = (most - least) or abs(most) or 1.0
    start, length = least - reach * _MARGIN, reach * (1 + 2 * _MARGIN)

    def place(at: float) -> float:
        return round(100 * (at - start) / length, 2)

    return RangeFigure(
        low=0.0 if expected.at_least is None else place(expected.at_least),
        high=100.0 if expected.at_most is None else place(expected.at_most),
        value=place(value),
    )
