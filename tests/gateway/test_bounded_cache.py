"""What is kept of boards that are used, and what an operator sees of it."""

from __future__ import annotations

from gateway.runtime.bounded_cache import BoundedCache
from gateway.runtime.telemetry import REGISTRY


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_the_size_of_a_cache_and_what_it_let_go_of_are_in_the_metrics():
    """As many as its limit, one that was dropped for room, and one for which nobody had asked for long."""
    now_s = [0.0]
    cache: BoundedCache[str] = BoundedCache("probe", limit=2, idle_s=60, clock=lambda: now_s[0])
    for name in ("a", "b", "c"):
        cache.put(name, name)
    assert 2 == sample("scoregate_cached_boards", cache="probe")
    assert 1 == sample("scoregate_cached_boards_dropped_total", cache="probe", why="full")
    now_s[0] = 61.0
    cache.put("d", "d")
    cache.let_go_of_idle()
    assert 1 == sample("scoregate_cached_boards", cache="probe")
    assert 1 == sample("scoregate_cached_boards_dropped_total", cache="probe", why="idle")
