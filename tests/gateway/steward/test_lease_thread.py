"""The thread that keeps a steward's leases: it renews while the duties hold up their loop, but not for ever."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from gateway.ledger.leases import NOBODY, lease_holders
from gateway.ledger.transaction import Operation
from gateway.runtime import background
from gateway.runtime.background import run_on_a_thread
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.steward.lease_thread import HUNG_S, LeasesOnAThread
from gateway.steward.leases import LEASE_NAMES
from gateway.wiring import ledger_of, open_ledger
from policies.errors import LedgerUnavailable

T = TypeVar("T")

PATIENCE_S = 60.0


class WatchedLedger:
    """A ledger that tells another thread of its writes."""

    def __init__(self, settings: Settings) -> None:
        self._ledger = ledger_of(settings)
        self._written: SimpleQueue[None] = SimpleQueue()
        self.refusals = 0

    async def open(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise LedgerUnavailable("not yet")
        await self._ledger.open()

    async def close(self) -> None:
        await self._ledger.close()

    async def read(self, work: Operation[T]) -> T:
        return await self._ledger.read(work)

    async def write(self, work: Operation[T]) -> T:
        result = await self._ledger.write(work)
        self._written.put(None)
        return result

    def hold_up_for(self, writes: int) -> None:
        """Hold up the calling thread until so many more writes are done."""
        self.is_quiet_for(0)
        for _ in range(writes):
            self._written.get(timeout=PATIENCE_S)

    def is_quiet_for(self, seconds: float) -> bool:
        """Hold up the calling thread for so long at most, and return whether nothing was written."""
        with suppress(Empty):
            while True:
                self._written.get_nowait()
        with suppress(Empty):
            self._written.get(timeout=seconds)
            return False
        return True


@asynccontextmanager
async def kept(settings: Settings, own: Any, **facts: float) -> AsyncIterator[LeasesOnAThread]:
    """The leases of a steward that has all of them."""
    async with open_ledger(settings) as ledger:
        held = LeasesOnAThread(ledger, lambda: own, clock=wall_clock, lease_s=1, **facts)
        held.is_kept = True
        keeping = asyncio.create_task(held.keep())
        await asyncio.wait_for(held.pause(PATIENCE_S), PATIENCE_S / 2)
        yield held
        keeping.cancel()
        await asyncio.wait([keeping])
        assert keeping.cancelled()
        await held.give_up()
        assert {NOBODY: tuple(sorted(LEASE_NAMES))} == await ledger.read(lease_holders)


async def test_leases_are_renewed_while_the_duties_hold_up_their_loop(own_settings: Settings):
    """However long: the thread renews again and again, and the steward stays the same one."""
    own = WatchedLedger(own_settings)
    async with kept(own_settings, own) as held:
        before = held.steward
        own.hold_up_for(8)
        assert before == held.steward
        assert "seals" in held.duties_held()
        assert 256 == len(held.lanes_held())
        assert HUNG_S >= 10


def hold_up_until(is_so: Callable[[], bool]) -> None:
    """Hold up the calling thread until something is so."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


async def test_leases_of_duties_that_hang_are_left_to_others(own_settings: Settings):
    """A loop that shows no life for too long would keep everything from being done; once it lives, it goes on."""
    own = WatchedLedger(own_settings)
    async with kept(own_settings, own, hung_s=0.4) as held:
        with capture_logs() as logs:
            hold_up_until(lambda: any("hang" in str(entry.get("error")) for entry in logs))
            assert own.is_quiet_for(1.0)
            hold_up_until(lambda: held.duties_held() == ())
        await asyncio.to_thread(own.hold_up_for, 2)


async def test_a_thread_whose_ledger_is_away_when_it_starts_tries_again(own_settings: Settings):
    """A steward that never got its leases would do nothing, and nobody would know why."""
    own = WatchedLedger(own_settings)
    own.refusals = 1
    with capture_logs() as logs:
        async with kept(own_settings, own) as held:
            assert len(LEASE_NAMES) == len(held.lanes_held()) + len(held.duties_held())
    assert ("ledger_unavailable", "not yet") in {(entry["event"], entry.get("error")) for entry in logs}


async def test_what_fails_on_a_thread_fails_for_who_waits(own_settings: Settings):
    """Or a steward would run on without anybody who keeps its leases."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await run_on_a_thread(fail, name="failing")
    held = LeasesOnAThread(ledger_of(own_settings), partial(int, "no ledger"), clock=wall_clock)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no ledger"):
        await held.keep()


async def test_what_swallows_cancellations_on_a_thread_ends_before_who_waits(monkeypatch: pytest.MonkeyPatch):
    """A client of Redis or a database may swallow one, and whoever waits may be cancelled more than once."""
    monkeypatch.setattr(background, "CANCEL_THREAD_AGAIN_S", 0.05)
    begun, ended = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    async def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        ended.append(threading.current_thread().name)

    running = asyncio.create_task(run_on_a_thread(work, name="working"))
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([running], timeout=PATIENCE_S)
    assert ["working"] == ended
    assert running.cancelled()


async def test_whoever_ends_what_runs_on_a_thread_waits_for_its_end():
    """What is closed next is not in use any more, and what is given back is not taken again."""
    begun, ended = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    async def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            ended.append(threading.current_thread().name)

    running = asyncio.create_task(run_on_a_thread(work, name="working"))
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    running.cancel()
    await asyncio.wait([running], timeout=PATIENCE_S)
    assert ["working"] == ended
    assert running.cancelled()
