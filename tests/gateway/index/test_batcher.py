"""The batcher: one call for many, each with its own answer, whatever becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.index.batcher import Batcher
from policies.errors import IndexUnavailable


class Calls:
    """Doubles numbers, remembering the groups; holds each call up until `go` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.groups: list[list[int]] = []
        self.go = asyncio.Event()
        self.error = error

    async def send(self, group: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(group))
        await self.go.wait()
        if self.error:
            raise self.error
        return [2 * each for each in group]


async def test_one_tick_is_one_call_and_what_comes_meanwhile_the_next():
    """Items of one moment go together; while that call is under way the next group gathers, up to its limit."""
    calls = Calls()
    batcher: Batcher[int, int] = Batcher(calls.send, limit=3)
    first = [batcher.ask(each) for each in (1, 2)]
    await asyncio.sleep(0)
    later = [batcher.ask(each) for each in (3, 4, 5, 6)]
    calls.go.set()
    assert [2, 4, 6, 8, 10, 12] == await asyncio.gather(*first, *later)
    assert [[1, 2], [3, 4, 5], [6]] == calls.groups


async def test_what_came_together_goes_together_within_the_limit():
    """A call that has room for some of them leaves all for the next; more than the limit at once are a call of their own."""
    calls = Calls()
    calls.go.set()
    batcher: Batcher[int, int] = Batcher(calls.send, limit=3)
    asked = [batcher.ask_all(each) for each in ([1, 2], [3, 4], [5], [6, 7, 8, 9])]
    assert [[2, 4], [6, 8], [10], [12, 14, 16, 18]] == await asyncio.gather(*asked)
    assert [[1, 2], [3, 4, 5], [6, 7, 8, 9]] == calls.groups


async def test_who_stops_waiting_does_not_disturb_the_others():
    """A cancelled asker loses its own answer alone, before or during the call."""
    calls = Calls()
    batcher: Batcher[int, int] = Batcher(calls.send)
    asked = [batcher.ask(each) for each in range(4)]
    asked[1].cancel()
    await asyncio.sleep(0)
    asked[2].cancel()
    calls.go.set()
    assert [0, 6] == await asyncio.gather(asked[0], asked[3])
    await batcher.drained()


@pytest.mark.parametrize("error", [IndexUnavailable(), ValueError("a bug")])
async def test_a_failed_call_fails_its_group_and_no_other(error: Exception):
    """Nobody waits for ever: each of the group gets the error, whatever it is, and the next group goes out."""
    calls = Calls(error)
    batcher: Batcher[int, int] = Batcher(calls.send)
    calls.go.set()
    answers = await asyncio.gather(*(batcher.ask(each) for each in range(3)), return_exceptions=True)
    assert [error] * 3 == answers
    calls.error = None
    assert 14 == await batcher.ask(7)


async def test_too_few_answers_fail_the_group():
    """An answer is never given to the wrong asker."""

    async def short(group: Sequence[int]) -> Sequence[int]:
        return list(group)[1:]

    batcher: Batcher[int, int] = Batcher(short)
    answers = await asyncio.gather(*(batcher.ask(each) for each in range(3)), return_exceptions=True)
    assert [ValueError] * 3 == [type(answer) for answer in answers]


async def test_what_waits_is_bounded():
    """Past the bound the asker is told at once; whoever is answered makes room."""
    calls = Calls()
    batcher: Batcher[int, int] = Batcher(calls.send, limit=1, waiting=2)
    asked = [batcher.ask(each) for each in range(2)]
    with pytest.raises(IndexUnavailable):
        batcher.ask(2)
    calls.go.set()
    assert [0, 2] == await asyncio.gather(*asked)
    assert 4 == await batcher.ask(2)
