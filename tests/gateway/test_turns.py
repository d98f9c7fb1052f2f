"""Many things at once, and no more than so many; and work that ends with what it is for."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from gateway.runtime.background import in_background
from gateway.runtime.concurrency import in_turns


async def test_never_more_than_so_many_are_under_way_and_all_have_their_turn():
    """Answers are in the order of the questions, whichever came first."""
    under_way, most = 0, 0

    async def work(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(9 - number):
            await asyncio.sleep(0)
        under_way -= 1
        return number

    assert list(range(9)) == await in_turns([work(number) for number in range(9)], at_once=3)
    assert 3 == most


async def test_one_that_fails_keeps_no_other_from_its_turn():
    """All are tried; what is raised then is the failure of the first of those that failed, by their order."""
    tried = []

    async def work(number: int) -> None:
        tried.append(number)
        for _ in range(9 - number):
            await asyncio.sleep(0)
        if number in {2, 5}:
            raise ValueError(number)

    with pytest.raises(ValueError, match=r"^2$"):
        await in_turns([work(number) for number in range(9)], at_once=2)
    assert list(range(9)) == sorted(tried)


async def test_what_goes_on_beside_a_block_has_ended_when_the_block_has(monkeypatch: pytest.MonkeyPatch):
    """Also where a library swallows the first cancellation, as one may that is about to connect."""
    monkeypatch.setattr("gateway.runtime.background.CANCEL_AGAIN_S", 0.001)
    swallowed, is_over = [], False

    async def work() -> None:
        nonlocal is_over
        try:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    swallowed.append(1)
                    if len(swallowed) > 2:
                        raise
        finally:
            is_over = True

    async with in_background(work(), name="stubborn"):
        await asyncio.sleep(0)
        assert not is_over
    assert (3, True) == (len(swallowed), is_over)
    assert "stubborn" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_who_is_cancelled_before_its_turn_does_not_complain_of_it():
    """A part that ends in the middle of a round leaves no warning on its standard error, which is a log."""

    async def work() -> None:
        await asyncio.Event().wait()

    waiting = [work() for _ in range(3)]
    turns = asyncio.create_task(in_turns(waiting, at_once=1))
    await asyncio.sleep(0)
    turns.cancel()
    await asyncio.wait([turns])
    assert turns.cancelled()
    assert [inspect.CORO_CLOSED] * 3 == [inspect.getcoroutinestate(one) for one in waiting]
