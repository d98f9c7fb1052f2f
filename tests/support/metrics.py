"""What the metrics of this process say, as a scrape would have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.runtime.telemetry import REGISTRY


def metric(name: str, **labels: str) -> float:
    """Return a sample of a metric; 0 while there is none."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


@contextmanager
def counts(by: float, name: str, **labels: str) -> Iterator[None]:
    """Fail unless a metric goes up by so much inside the block."""
    before = metric(name, **labels)
    yield
    assert by == metric(name, **labels) - before, f"{name} {labels}"
