"""Readiness is public: asking for it is no way to load the ledger, and being busy is not being away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.edge.context import Edge
from gateway.reference_clock import ReferenceClock
from policies.errors import LedgerOverloaded
from tests.support.harness import Harness


async def test_F09_readiness_is_asked_for_once_a_second(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """However many ask at once or one after the other, the ledger has one write of it."""
    ledger, written = harness.edge.ledger, []
    write = ledger.write

    async def noted(work: Any) -> Any:
        written.append(work)
        return await write(work)

    monkeypatch.setattr(ledger, "write", noted)
    now = [1_000.0]  # a busy machine takes more than a second for so many
    monkeypatch.setattr(harness.edge.probes, "_monotonic_s", lambda: now[0])
    harness.edge.probes.forget()
    together = await asyncio.gather(*(harness.get("/readyz") for _ in range(20)))
    later = await harness.get("/readyz")
    assert {200} == {answer.status for answer in (*together, later)}
    assert 1 == len(written)
    now[0] += 1.0
    assert 200 == (await harness.get("/readyz")).status
    assert 2 == len(written)


async def test_F09_a_full_queue_is_no_reason_to_be_sent_nobody(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A ledger that only has too much to do is there: the others would have it no better."""

    async def full(_work: Any) -> Any:
        raise LedgerOverloaded

    monkeypatch.setattr(harness.edge.ledger, "write", full)
    ready = await harness.ready()
    assert (200, True) == (ready.status, ready.body["ledger"])


async def test_F07_an_edge_that_never_heard_of_the_shared_clock_does_not_say_that_its_time_is_right(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """By its own clock alone it is never off; how far it may be is what counts."""
    never = ReferenceClock([])
    monkeypatch.setattr(Edge, "clock_error_ms", property(lambda _: never.error_ms))
    ready = (await harness.ready()).body
    assert ("degraded", False, 0.0) == (ready["status"], ready["clock"], ready["clock_offset_s"])
