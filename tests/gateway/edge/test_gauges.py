"""What an edge's gauges say of the ledger: how much waits and for how long, and the last of it while it cannot be asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.edge.health import gauges
from gateway.edge.health.gauges import measure_from_threads, measure_ledger
from policies.errors import LedgerUnavailable
from tests.support.harness import Harness
from tests.support.metrics import metric

GAUGES = (
    ("scoregate_verify_backlog", {"queue": "main"}),
    ("scoregate_verify_backlog", {"queue": "urgent"}),
    ("scoregate_verify_backlog_age_seconds", {"queue": "main"}),
    ("scoregate_verify_backlog_age_seconds", {"queue": "urgent"}),
    ("scoregate_unsealed_events", {}),
    ("scoregate_unsealed_age_seconds", {}),
)


def told() -> list[float]:
    """Each gauge, in whole units."""
    return [metric(name, **labels) // 1 for name, labels in GAUGES]


async def test_what_waits_is_told_with_its_age_until_it_is_dealt_with(harness: Harness):
    """In seconds since the oldest came; where nothing waits nothing is old."""
    await measure_ledger(harness.edge)
    assert [0.0] * 6 == told()
    run, claim = await harness.played()
    assert "pending" == (await harness.submit(run, claim)).body["state"]
    harness.clock.shift(90)
    await measure_ledger(harness.edge)
    main, urgent, main_age, urgent_age, events, age = told()
    assert {(0, 0), (1, 90)} == {(main, main_age), (urgent, urgent_age)}
    assert (1, 90) == (events, age)


async def test_while_the_ledger_cannot_be_asked_gauges_keep_what_they_said(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Whether it refuses or hangs: a scrape fails by neither, waits for no more than its time, and leaves nothing going on."""
    run, claim = await harness.played()
    await harness.submit(run, claim)
    await measure_ledger(harness.edge)
    before, asked, given_up = told(), asyncio.Event(), asyncio.Event()

    async def refuse(*_: Any) -> Any:
        raise LedgerUnavailable

    async def hang(*_: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    monkeypatch.setattr(harness.edge.ledger, "read", refuse)
    await measure_ledger(harness.edge)
    monkeypatch.setattr(harness.edge.ledger, "read", hang)
    monkeypatch.setattr(gauges, "TIMEOUT_S", 0.01)
    await measure_ledger(harness.edge)
    assert (True, True, before) == (asked.is_set(), given_up.is_set(), told())
    given_up.clear()
    await asyncio.to_thread(measure_from_threads(harness.edge))
    async with asyncio.timeout(10):
        await given_up.wait()
    assert before == told()
