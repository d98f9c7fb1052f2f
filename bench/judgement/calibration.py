"""Thresholds at a rate of false positives.

Each signal is turned into how rare it is among honest runs; a layer is as suspicious as its rarest signal, and all layers
together as the rarest of all (L. H. C. Tippett, "The Methods of Statistics", 1931: the least of several p-values). The
threshold is set on that, on the runs of one half of the honest accounts; what is reported was counted on the other half.
Accounts are halved, not runs: those of one player are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def rarity(values: Values, honest: Values) -> Values:
    """The share of honest runs that are as suspicious as each value: 0 beyond all of them, 1 for no signal, which is -inf.

    No more is read out of a tail than was seen in it: a distribution fitted to it would be carried far beyond what it
    knows by one honest player whose hands are unlike all others.
    """
    below = np.searchsorted(np.sort(honest), values, side="left")
    return 1.0 - below / honest.size


def rarest(columns: Sequence[Values], is_known: NDArray[np.bool_]) -> Values:
    """How rare the rarest of several signals of each run is among those known; 1 where there are none."""
    rare = np.ones(is_known.size)
    for column in columns:
        rare = np.minimum(rare, rarity(column, column[is_known]))
    return rare


def threshold(honest: Values, rate: float) -> float:
    """What lies below it is detected: at most the share `rate` of these honest runs."""
    return float(np.sort(honest)[int(rate * honest.size)])
