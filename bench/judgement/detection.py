"""Counts what each layer detects of each kind of cheat, at each rate of false positives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.judgement.calibration import rarest, threshold
from bench.judgement.courses import CHEATING_RUNS, COURSES
from bench.judgement.population import HONEST, SubmittedRun
from bench.judgement.signals import Signals, layer_of
from validators.backtest import Proportion

RATES: Final = (0.01, 0.001)
ALL: Final = "all"

LEFT_OUT: Final = frozenset({"anomaly (logarithms)", "anomaly (ranks)"})
"""A board has one scale for anomalies, so `all` uses that of the bundled policy alone."""

Flags = NDArray[np.bool_]


class Detection:
    """Thresholds set on half of the honest accounts, and the detections among the others and among cheats."""

    def __init__(self, runs: Sequence[SubmittedRun], signals: Sequence[Signals]) -> None:
        """Take honest and cheating runs in the order of time, and their signals."""
        self.runs = runs
        self._honest = np.array([run.is_honest for run in runs])
        self._calibrating = self._honest & np.array([run.account.is_calibrating for run in runs])
        self._columns: dict[str, NDArray[np.float64]] = {}
        for at, of_run in enumerate(signals):
            for name, value in of_run.items():
                self._columns.setdefault(name, np.full(len(runs), -np.inf))[at] = value

    @property
    def cheats(self) -> list[str]:
        """Return the rows that have runs, in the order of the tables."""
        return [name for name in COURSES if self._rows[name]]

    @property
    def layers(self) -> list[str]:
        """Return the name of every layer that found something, and ALL as the last."""
        return [*dict.fromkeys(sorted(map(layer_of, self._columns))), ALL]

    @cached_property
    def flagged(self) -> dict[tuple[str, float], Flags]:
        """Return the detected runs by layer and rate."""
        flags = {}
        for layer in self.layers:
            rare = rarest([self._columns[name] for name in self._names(layer)], self._calibrating)
            for rate in RATES:
                flags[layer, rate] = rare < threshold(rare[self._calibrating], rate)
        return flags

    def _names(self, layer: str) -> list[str]:
        if layer == ALL:
            return [name for name in self._columns if layer_of(name) not in LEFT_OUT]
        return [name for name in self._columns if layer_of(name) == layer]

    def has_a_say(self, layer: str) -> Proportion:
        """Return the proportion of honest runs with any signal of the layer."""
        signals = [self._columns[name] > -np.inf for name in self._names(layer)]
        return _proportion(np.logical_or.reduce(signals)[self._honest])

    def of_runs(self, layer: str, rate: float, name: str) -> Proportion:
        """Return the proportion of detected runs of a row; for HONEST these are false positives."""
        flags = self.flagged[layer, rate]
        return _proportion(flags[self._rows[name]])

    def of_accounts(self, layer: str, rate: float, name: str) -> Proportion:
        """Return the proportion of a row's accounts with a detected run among their first ten."""
        flags = self.flagged[layer, rate]
        by_account = defaultdict(list)
        for at in self._rows[name]:
            by_account[self.runs[at].account.number].append(bool(flags[at]))
        return _proportion([any(account[:CHEATING_RUNS]) for account in by_account.values()])

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """Return the indexes of the runs that each row counts."""
        rows: dict[str, list[int]] = {name: [] for name in chain([HONEST], COURSES)}
        for at, run in enumerate(self.runs):
            if not self._calibrating[at]:
                rows[run.account.name].append(at)
        return rows


def _proportion(flags: Flags | Sequence[bool]) -> Proportion:
    return Proportion(int(np.sum(flags)), len(flags))
