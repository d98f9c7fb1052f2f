"""The cost of a simulator, and the limits that follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from policies.replaying import Budget

LEAST_WALL_MS = 1_000
"""A busy machine may withhold the processor for longer than most games' runs need it."""
KEPT_DIGITS, FUEL_LIMIT, LEAST_FUEL = 2, 10**13, 1_000
"""Significant digits of a proposed limit, and the bounds of a policy (policies.replaying.Budget)."""
WALL_LIMIT_MS, MEMORY_LIMIT_MIB = 600_000, 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run: its ticks, its fuel (0 if none is counted), and the seconds of each repetition."""

    ticks: int
    fuel: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """Median and worst of all runs: fuel in units of the engine, time in ms; and the memory needed in MiB."""

    fuel_median: int
    fuel_worst: int
    wall_ms_median: float
    wall_ms_worst: float
    memory_mib: int


def costs_of(costs: Sequence[Cost], memory_mib: int) -> Costs:
    """Return the costs of all runs together; at least one is needed."""
    times = [1000 * seconds for cost in costs for seconds in cost.seconds]
    fuels = [cost.fuel for cost in costs]
    return Costs(round(median(fuels)), max(fuels), median(times), max(times), memory_mib)


def proposed(costs: Sequence[Cost], memory_mib: int, margin: float, maximum_ticks: int | None) -> Budget:
    """Return the limits to set: the worst run's cost, scaled to `maximum_ticks`, times the margin.

    Without `maximum_ticks`, it is scaled to the longest of these runs.
    """
    longest = max(cost.ticks for cost in costs) if maximum_ticks is None else maximum_ticks
    fuel = max(cost.fuel * _stretch(cost, longest) for cost in costs)
    seconds = max(max(cost.seconds) * _stretch(cost, longest) for cost in costs)
    return Budget(
        fuel=min(FUEL_LIMIT, max(LEAST_FUEL, _rounded_up(fuel * margin))) if fuel else Budget().fuel,
        memory_mib=min(MEMORY_LIMIT_MIB, max(1, memory_mib)),
        wall_ms=min(WALL_LIMIT_MS, max(LEAST_WALL_MS, _rounded_up(1000 * seconds * margin))),
    )


def _stretch(cost: Cost, ticks: int) -> float:
    return max(1.0, ticks / cost.ticks) if cost.ticks else 1.0


def _rounded_up(number: float) -> int:
    """Return the number, rounded up to `KEPT_DIGITS` significant digits."""
    whole = math.ceil(number)
    unit = int(10 ** max(0, len(str(whole)) - KEPT_DIGITS))
    return -(-whole // unit) * unit
