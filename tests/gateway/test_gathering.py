"""Calls that are made together: who gets which answer, and whose failure is whose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.ledger.reads import ReadKind
from gateway.runtime.gathering import Gathering
from gateway.steward.index.gathered_reads import GatheredReads
from policies.errors import LedgerUnavailable


class Post:
    """Makes calls together, and notes which."""

    def __init__(self) -> None:
        self.journeys: list[list[int]] = []
        self.error: Exception | None = None
        self.has_begun = asyncio.Event()

    async def make_all(self, calls: Sequence[int]) -> list[int | BaseException]:
        self.journeys.append(list(calls))
        self.has_begun.set()
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return [ZeroDivisionError() if call == 0 else 100 // call for call in calls]


async def test_calls_that_begin_together_are_one_journey():
    """Each caller gets its own answer; a call that begins later travels later."""
    post = Post()
    gathering = Gathering(post.make_all)
    assert [100, 50, 20] == await asyncio.gather(*map(gathering.make, (1, 2, 5)))
    assert 25 == await gathering.make(4)
    assert [[1, 2, 5], [4]] == post.journeys


async def test_a_call_that_fails_is_its_callers_failure():
    """The others have their answers."""
    gathering = Gathering(Post().make_all)
    answers = await asyncio.gather(*map(gathering.make, (1, 0, 5)), return_exceptions=True)
    assert [100, 20] == [answers[0], answers[2]]
    assert isinstance(answers[1], ZeroDivisionError)


async def test_a_journey_that_fails_is_everybodys_failure():
    """Nobody waits for ever, and the next journey is a new one."""
    post = Post()
    post.error = LedgerUnavailable()
    gathering = Gathering(post.make_all)
    answers = await asyncio.gather(*map(gathering.make, (1, 5)), return_exceptions=True)
    assert [post.error] * 2 == answers
    post.error = None
    assert 100 == await gathering.make(1)


async def test_a_caller_that_leaves_takes_nobody_along():
    """Its call is not made if it has not begun, and nobody misses its answer if it has."""
    post = Post()
    gathering = Gathering(post.make_all)
    callers = [asyncio.create_task(gathering.make(call)) for call in (1, 2, 5)]
    await asyncio.sleep(0)
    callers[1].cancel()
    assert [100, 20] == await asyncio.gather(callers[0], callers[2])
    assert [[1, 5]] == post.journeys


class Ledger:
    """A ledger that runs operations, and counts its snapshots."""

    def __init__(self) -> None:
        self.snapshots = 0

    async def read(self, work: Any, kind: ReadKind) -> Any:
        assert kind is ReadKind.COMPARISONS  # no verdict waits behind it
        self.snapshots += 1
        return await work(None)


def read_of(number: int) -> Any:
    async def work(_: object) -> int:
        return 100 // number

    return work


async def test_a_read_that_fails_leaves_the_others_their_answers():
    """They share a snapshot, and if one of them cannot be done, each has one of its own."""
    ledger = Ledger()
    reads = GatheredReads(ledger)
    assert [100, 50] == await asyncio.gather(*(reads.read(read_of(number)) for number in (1, 2)))
    assert 1 == ledger.snapshots
    works = [reads.read(read_of(number)) for number in (1, 0, 5)]
    answers = await asyncio.gather(*works, return_exceptions=True)
    assert [100, 20] == [answers[0], answers[2]]
    assert isinstance(answers[1], ZeroDivisionError)


class Torn(Ledger):
    """A ledger with pages that cannot be read: what fails there is no bug of ours."""

    async def read(self, work: Any, kind: ReadKind) -> Any:
        try:
            return await super().read(work, kind)
        except ZeroDivisionError:
            raise LedgerUnavailable from None


@pytest.mark.parametrize("numbers", [(0, 2, 5), (1, 0, 5), (1, 2, 0), (0, 0, 5), (1, 0, 0)])
async def test_a_read_of_a_damaged_page_leaves_the_others_their_answers(numbers: Sequence[int]):
    """A statement that takes too long, or a page that is damaged, is no ledger that is away."""
    reads = GatheredReads(Torn())
    answers = await asyncio.gather(
        *(reads.read(read_of(number)) for number in numbers), return_exceptions=True
    )
    assert [100 // number if number else LedgerUnavailable for number in numbers] == [
        answer if isinstance(answer, int) else type(answer) for answer in answers
    ]


@pytest.mark.parametrize(("callers", "asked"), [(1, 1), (5, 3)])
async def test_a_ledger_that_is_away_is_not_asked_for_each_read(callers: int, asked: int):
    """If neither the first nor the last can be read alone, nobody asks it for those between."""

    class Away(Ledger):
        async def read(self, work: Any, kind: ReadKind) -> Any:
            self.snapshots += 1
            raise LedgerUnavailable

    ledger = Away()
    reads = GatheredReads(ledger)
    answers = await asyncio.gather(*(reads.read(read_of(1)) for _ in range(callers)), return_exceptions=True)
    assert [LedgerUnavailable] * callers == [type(answer) for answer in answers]
    assert asked == ledger.snapshots


async def test_a_caller_that_leaves_on_the_way_takes_nobody_along():
    """The others have their answers, although its own has nobody to go to."""
    post = Post()
    gathering = Gathering(post.make_all)
    callers = [asyncio.create_task(gathering.make(call)) for call in (1, 2, 5)]
    async with asyncio.timeout(10):
        await post.has_begun.wait()
        callers[0].cancel()
        assert [50, 20] == await asyncio.gather(*callers[1:])
