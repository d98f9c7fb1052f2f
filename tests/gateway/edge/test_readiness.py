"""Readiness is public: asking for it is no way to load the ledger, and being busy is not being away."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.deployment.reference_clock import ReferenceClock
from gateway.edge.context import Edge
from gateway.edge.health import probes
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


TROUBLE: dict[str, tuple[tuple[str, str, Any], tuple[int, str], dict[str, Any]]] = {
    "nothing": (("presence", "missing", list), (200, "ready"), {}),
    "a part": (("presence", "missing", lambda: ["steward"]), (200, "degraded"), {"missing": ["steward"]}),
    "a duty": (("presence", "failing", lambda: ["seal"]), (200, "degraded"), {"failing": ["seal"]}),
    "a store": (("recordings", "is_refusing", True), (200, "degraded"), {"missing": ["recordings"]}),
    "room": (("disk", "is_low", True), (200, "degraded"), {"disk": False}),
    "the index": (("probes", "answers", (True, False)), (200, "degraded"), {"index": False}),
    "the ledger": (("probes", "answers", (False, True)), (503, "unready"), {"ledger": False}),
    "our clock, ahead": (
        ("", "reference", SimpleNamespace(offset_ms=2_001, error_ms=5)),
        (200, "degraded"),
        {"clock": False, "clock_offset_s": 2.001, "clock_error_s": 0.005},
    ),
    "our clock, behind": (
        ("", "reference", SimpleNamespace(offset_ms=-2_001, error_ms=5)),
        (200, "degraded"),
        {"clock": False, "clock_offset_s": -2.001, "clock_error_s": 0.005},
    ),
    "its error": (
        ("", "reference", SimpleNamespace(offset_ms=2_000, error_ms=2_001)),
        (200, "degraded"),
        {"clock": False, "clock_offset_s": 2.0, "clock_error_s": 2.001},
    ),
    "files of policies": (("catalogue", "is_stale", True), (200, "ready"), {"policies": False}),
    "its time": (("shutdown", "has_begun", True), (503, "ending"), {}),
}
"""What fails: where, what is told of it, and with which status and state."""

WELL = {
    "ledger": True,
    "index": True,
    "policies": True,
    "disk": True,
    "clock": True,
    "clock_offset_s": 0.0,
    "clock_error_s": 0.0,
    "missing": [],
    "failing": [],
}


async def test_each_trouble_of_a_deployment_is_told_by_its_own_member(harness: Harness):
    """An edge that takes submissions is ready, or degraded and says by what; one that cannot take them is sent nobody."""
    edge, told = harness.edge, {}
    for name, ((part, member, found), _, _) in TROUBLE.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(edge.presence, "missing", list)
            stand_in(patch, getattr(edge, part) if part else edge, member, found)
            ready = await harness.ready()
            body = ready.body
            told[name] = ((ready.status, body.pop("status")), body)
    assert {name: (state, WELL | members) for name, (_, state, members) in TROUBLE.items()} == told


def stand_in(patch: pytest.MonkeyPatch, part: Any, member: str, found: Any) -> None:
    """Have a part of the edge say what it is told to."""
    if isinstance(found, tuple):

        async def answers() -> tuple[bool, bool]:
            return found

        patch.setattr(part, member, answers)
    elif isinstance(part, Edge):
        kind = type(part)
        patch.setattr(kind, member, found)
    elif isinstance(getattr(type(part), member, None), property):
        patch.setattr(type(part), member, property(lambda _: found))
    else:
        patch.setattr(part, member, found)


async def test_what_hangs_is_not_there(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Whoever asks is answered in time, though ledger or index do not; so is a ledger that takes probes and nothing else."""
    edge = harness.edge

    async def hang(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    async def members() -> tuple[int, bool, bool]:
        ready = await harness.ready()
        return ready.status, ready.body["ledger"], ready.body["index"]

    monkeypatch.setattr(probes, "PROBE_TIMEOUT_S", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr(probes, "probe", hang)
        assert (200, True, False) == await members()
    with monkeypatch.context() as patch:
        patch.setattr(type(edge.ledger), "is_refusing", property(lambda _: True))
        patch.setattr(probes, "PROBE_TIMEOUT_S", 30.0)
        assert (503, False, True) == await members()
    monkeypatch.setattr(edge.ledger, "write", hang)
    assert (503, False) == (await members())[:2]
