"""What readers are charged, and work that takes so much processor time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gateway.edge.reads.page_cache import PageCache
from gateway.edge.reads.read_budget import ReadBudgets


def noted_charges(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every charge from now on (µs), which is charged as well."""
    charges: list[float] = []
    charge = ReadBudgets.charge

    def noted(budgets: ReadBudgets, names: Any, cost_us: float, player: str = "") -> None:
        charges.append(cost_us)
        charge(budgets, names, cost_us, player)

    monkeypatch.setattr(ReadBudgets, "charge", noted)
    return charges


def busy(ms: int) -> int:
    """Take so much processor time."""
    until_ns = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < until_ns:
        pass
    return ms


def draw_dearly(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """Have each page that is drawn take so much more."""
    drawn = PageCache._rendered

    async def dear(cache: PageCache, *what: Any) -> Any:
        busy(ms)
        return await drawn(cache, *what)

    monkeypatch.setattr(PageCache, "_rendered", dear)
