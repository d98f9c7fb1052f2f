"""Reads of the ledger wait by kind, so long and in such numbers and no more, on each database."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

import gateway.edge
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import READ_LIMITS, READER, ReadKind, ReadLimits, ReadQueue
from gateway.ledger.transaction import Query, Transaction
from policies.errors import LedgerOverloaded, LedgerUnavailable
from tests.support.metrics import metric
from tests.support.stores import Store, open_in

ENDLESS = Query(
    text("WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) AS many FROM n")
)
LONG_S = 60.0


class Endless:
    """A read that has no end of its own. `began` is set when one of its kind begins."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.began = asyncio.Event()

    async def __call__(self, tx: Transaction) -> None:
        self.loop.call_soon_threadsafe(self.began.set)
        await tx.rows(ENDLESS)


@asynccontextmanager
async def sharing(store: Store, limits: ReadLimits) -> AsyncIterator[Ledger]:
    """A ledger whose heavy reads have these limits."""
    async with open_in(store, read_limits={**READ_LIMITS, ReadKind.HEAVY: limits}) as ledger:
        yield ledger


def refused() -> float:
    return metric("scoregate_ledger_reads_refused_total", kind=ReadKind.HEAVY.value)


async def test_F01_a_kind_that_is_full_refuses_at_once_and_holds_no_other_up(store: Store):
    """While one heavy read is under way and one waits, a third is refused; every other kind answers."""
    async with sharing(store, ReadLimits(at_once=1, waiting=1, patience_s=LONG_S, limit_s=LONG_S)) as ledger:
        before, endless = refused(), Endless()
        under_way = asyncio.create_task(ledger.read(endless, ReadKind.HEAVY))
        await endless.began.wait()
        waiting = asyncio.create_task(ledger.read(queries.newest_seq(), ReadKind.HEAVY))
        await asyncio.sleep(0)  # it stands in the queue now

        with pytest.raises(LedgerOverloaded, match="heavy: too many wait"):
            await ledger.read(queries.newest_seq(), ReadKind.HEAVY)
        assert (1, 1) == (refused() - before, metric("scoregate_ledger_reads_waiting", kind="heavy"))
        others = [kind for kind in ReadKind if kind is not ReadKind.HEAVY]
        assert [0] * len(others) == [await ledger.read(queries.newest_seq(), kind) for kind in others]
        assert not waiting.done()

        under_way.cancel()  # its caller has left, and what it asked for ends with it, long before its limit
        async with asyncio.timeout(LONG_S / 3):
            assert 0 == await waiting
        assert 0 == metric("scoregate_ledger_reads_waiting", kind="heavy")
        with suppress(asyncio.CancelledError):
            await under_way


async def test_F01_who_waits_too_long_is_refused(store: Store):
    """The wait has an end, whatever is under way; what was given up makes room for the next."""
    async with sharing(store, ReadLimits(at_once=1, waiting=1, patience_s=0.05, limit_s=LONG_S)) as ledger:
        endless = Endless()
        under_way = asyncio.create_task(ledger.read(endless, ReadKind.HEAVY))
        await endless.began.wait()
        for _ in range(3):
            with pytest.raises(LedgerOverloaded, match=r"none was free for 0.05 s"):
                await ledger.read(queries.newest_seq(), ReadKind.HEAVY)
        under_way.cancel()
        with suppress(asyncio.CancelledError):
            await under_way


async def test_F01_a_read_that_takes_too_long_is_ended_and_its_place_is_free_again(store: Store):
    """The statement itself ends, on either database; the next read of the kind is answered."""
    async with sharing(store, ReadLimits(at_once=1, waiting=1, patience_s=LONG_S, limit_s=0.2)) as ledger:
        for _ in range(2):
            with pytest.raises(LedgerUnavailable):
                await ledger.read(Endless(), ReadKind.HEAVY)
        async with sharing(store, READ_LIMITS[ReadKind.HEAVY]) as other:
            assert 0 == await other.read(queries.newest_seq(), ReadKind.HEAVY)


async def test_F01_a_read_that_fails_gives_its_place_back(store: Store):
    """Whatever an operation raises, and as often as it does."""

    async def fail(_tx: Transaction) -> None:
        raise ValueError("no such")

    async with sharing(store, ReadLimits(at_once=1, waiting=0, patience_s=LONG_S, limit_s=LONG_S)) as ledger:
        for _ in range(3):
            with pytest.raises(ValueError, match="no such"):
                await ledger.read(fail, ReadKind.HEAVY)


def queue_for(waiting: int, kind: ReadKind = ReadKind.HEAVY) -> ReadQueue:
    return ReadQueue(kind, ReadLimits(at_once=1, waiting=waiting, patience_s=LONG_S, limit_s=LONG_S))


async def test_F01_who_gives_up_as_its_turn_comes_gives_it_to_the_next():
    """The place that it was just given is not lost: else each such moment would leave one connection less."""
    queue = queue_for(1)
    await queue.enter()
    waiting = asyncio.create_task(queue.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    queue.leave()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(LONG_S):
        await queue.enter()
    assert 0 == queue._free


async def test_F01_reads_of_a_kind_go_in_the_order_in_which_they_came():
    """Else whoever came first would wait the longest, until it is refused."""
    queue = queue_for(2)
    await queue.enter()
    first, second = [asyncio.create_task(queue.enter()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.leave()
    async with asyncio.timeout(LONG_S):
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
    assert {first} == done
    queue.leave()
    await second


async def entering(queue: ReadQueue, reader: str, order: list[str] | None = None) -> asyncio.Task[None]:
    """A read that has come to its place in the queue, or is refused."""

    async def enter() -> None:
        READER.set(reader)
        await queue.enter()
        if order is not None:
            order.append(reader)

    task = asyncio.create_task(enter())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_F01_who_has_most_waiting_makes_room_for_others():
    """One alone has all of the room; the newest reads of whoever has most are pushed out, until others have as many."""
    queue = queue_for(6)
    tasks = [await entering(queue, "many") for _ in range(8)]  # one has the place, six wait
    assert [False] * 6 + [True] == [is_refused(task) for task in tasks[1:]]
    tasks += [await entering(queue, "few") for _ in range(4)]
    assert [False, False, False, True] == [is_refused(task) for task in tasks[8:]]
    assert [False] * 3 + [True] * 4 == [is_refused(task) for task in tasks[1:8]]
    assert (6, 0) == (queue._count, queue._free)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (0, 0, 0) == (len(queue._waiting), queue._count, queue._free)


def is_refused(task: asyncio.Task[None]) -> bool:
    return task.done() and isinstance(task.exception(), LedgerOverloaded)


async def test_F01_readers_take_turns():
    """Who comes with one read waits for one of another's, and not for all that were there before."""
    queue, order = queue_for(8), list[str]()
    tasks = [
        await entering(queue, reader, order) for reader in ("many", "many", "many", "many", "few", "few")
    ]
    for _ in range(5):
        queue.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert ["many", "many", "few", "many", "few", "many"] == order


@pytest.mark.parametrize("kind", [ReadKind.REQUESTS, ReadKind.DUTIES])
async def test_F01_what_the_deployment_needs_is_nobodys_in_particular(kind: ReadKind):
    """A submission behind a proxy, or a steward, has all of the room, whoever caused the read."""
    queue = queue_for(2, kind)
    tasks = [await entering(queue, reader) for reader in ("many", "many", "many", "few")]
    assert [False, False, False, True] == [is_refused(task) for task in tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_F01_reads_of_nobody_known_push_nobody_out_and_are_not_pushed_out():
    """As those of a task that is nobody's."""
    queue = queue_for(4)
    tasks = [await entering(queue, reader) for reader in ("", "", "", "", "many", "", "few")]
    assert [False] * 5 + [True] * 2 == [is_refused(task) for task in tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_F01_every_read_of_the_edge_names_its_kind():
    """None falls into the queue of the duties, which waits for long."""
    unnamed = []
    for path in sorted(Path(gateway.edge.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            whose = ast.unparse(call.func.value)
            is_named = len(call.args) > 1 or any(each.arg == "kind" for each in call.keywords)
            if call.func.attr == "read" and whose.endswith("ledger") and not is_named:
                unnamed.append(f"{path.name}:{call.lineno}")
    assert [] == unnamed
