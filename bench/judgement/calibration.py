"""Thresholds at a rate of false positives.

Each signal becomes its rarity among honest runs. A layer is as suspicious as its rarest signal, and all
layers together as the rarest of all (L. H. C. Tippett, "The Methods of Statistics", 1931: the least of
several p-values). The threshold is set on the runs of one half of the honest accounts, and reports count the
other half. Accounts are halved, not runs, because the runs of one player are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def rarity(values: Values, honest: Values) -> Values:
    """Return the share of honest runs that are as suspicious as each value.

    It is 0 beyond all of them, and 1 for no signal, which is -inf.
    """
    # Shares are counted, not read from a fitted tail: one honest player with unusual hands would distort the
    # fit.
    below = np.searchsorted(np.sort(honest), values, side="left")
    return 1.0 - below / honest.size


def rarest(columns: Sequence[Values], is_known: NDArray[np.bool_]) -> Values:
    """Return the rarity of each run's rarest signal among the known runs; 1 if it has none."""
    rare = np.ones(is_known.size)
    for column in columns:
        rare = np.minimum(rare, rarity(column, column[is_known]))
    return rare


def threshold(honest: Values, rate: float) -> float:
    """Return the rarity below which runs are detected: at most the share `rate` of these honest runs."""
    return float(np.sort(honest)[int(rate * honest.size)])
