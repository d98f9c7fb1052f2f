"""The sets of each lane's boards: which come first, and which of them a time is set for."""

from __future__ import annotations

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.residents import LEAST_OF_LANE, Residents
from gateway.runtime.lanes import LANES, lane_of

LANE = lane_of("track.n0")
NAMES = [name for number in range(20_000) if lane_of(name := f"track.n{number}") == LANE][:6]


async def test_boards_that_wait_longest_come_first_also_where_they_share_a_lane(client: Redis):
    """Some of one lane at least, in the order of their times, however many lanes there are; none that is due later."""
    residents = Residents(client)
    for at_ms, name in enumerate(NAMES):
        await residents.add(keys.residents, [name], at_ms)
    first = await residents.first(keys.residents, range(LANES), count=16)
    assert NAMES[:LEAST_OF_LANE] == first
    assert NAMES[:2] == await residents.first(keys.residents, range(LANES), count=16, upto_ms=1)
    assert NAMES == await residents.first(keys.residents, [LANE], count=16)


async def test_boards_of_several_lanes_come_in_the_order_of_their_times(client: Redis):
    """Whichever lane comes first: with room for one it is the board that waits longest of all."""
    residents = Residents(client)
    names = [
        next(name for name in map("track.n{}".format, range(20_000)) if lane_of(name) == lane)
        for lane in (0, 1, 2)
    ]
    for name, at_ms in zip(names, (30, 10, 20), strict=True):
        await residents.add(keys.residents, [name], at_ms)
    in_order = [names[1], names[2], names[0]]
    for count in (1, 2, 3):
        assert in_order[:count] == await residents.first(keys.residents, range(3), count=count)


async def test_a_board_that_is_in_its_set_keeps_its_time(client: Redis):
    """Whoever finds it again does not send it to the end of those that wait."""
    residents, (early, late, *_) = Residents(client), NAMES
    await residents.add(keys.idle, [late], 5)
    await residents.add(keys.idle, [early, late], 3)
    await residents.add(keys.idle, [early, late], 9)
    assert {early: 3.0, late: 5.0} == dict(await client.zrange(keys.idle(LANE), 0, -1, withscores=True))


async def test_only_boards_that_are_in_their_set_are_put_off(client: Redis):
    """One that was struck meanwhile stays out, or it would come due for ever."""
    residents, (kept, struck, *_) = Residents(client), NAMES
    await residents.add(keys.idle, [kept, struck], 1)
    await residents.strike(keys.idle, [struck])
    await residents.put_off(keys.idle, [kept, struck], 9)
    assert [(kept, 9.0)] == await client.zrange(keys.idle(LANE), 0, -1, withscores=True)
