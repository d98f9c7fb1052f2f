"""A burst goes in by the handful, in order, whoever gives up."""

from __future__ import annotations

import asyncio

from gateway.edge.admission.turnstile import Turnstile


async def passed_by_turn(callers: list[asyncio.Future[None]], turns: int) -> list[int]:
    """How many callers have passed after each turn of the loop."""
    seen = []
    for _ in range(turns):
        await asyncio.sleep(0)
        seen.append(sum(each.done() and not each.cancelled() for each in callers))
    return seen


async def test_a_burst_passes_by_the_handful():
    turnstile = Turnstile(per_turn=3)
    callers = [turnstile.pass_through() for _ in range(7)]

    assert [3, 6, 7] == await passed_by_turn(callers, 3)


async def test_the_first_to_come_is_the_first_to_pass():
    turnstile, passed = Turnstile(per_turn=2), []

    async def come(number: int) -> None:
        await turnstile.pass_through()
        passed.append(number)

    await asyncio.gather(*(come(number) for number in range(9)))

    assert list(range(9)) == passed


async def test_who_gives_up_takes_nobodys_place():
    turnstile = Turnstile(per_turn=2)
    callers = [turnstile.pass_through() for _ in range(5)]
    callers[0].cancel()

    assert [2, 4] == await passed_by_turn(callers, 2)


async def test_it_works_again_after_a_quiet_time():
    turnstile = Turnstile(per_turn=2)
    for _ in range(3):
        await asyncio.wait_for(turnstile.pass_through(), 1)
        await asyncio.sleep(0)
