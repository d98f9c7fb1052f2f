"""What is written of a window that has an end, and of a board that is not whole: nothing that outlives or misleads."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from tests.gateway.index.test_order_and_projection import a_change
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

RANKING = a_ranking(
    ranks=["unique", "dense"], windows=["alltime", "daily"], score={"minimum": 0, "maximum": 100}, ranges=[50]
)
TODAY = "daily:20301120"
END_MS = 1_921_449_600_000


async def test_every_key_of_a_window_goes_with_it(client: Redis):
    """Its parts by score, its members and its groups, whoever came first; those of all time stay."""
    index = BoardIndex(client, RANKING)
    for seq, score in enumerate((20, 80, 20), start=1):
        facts = {"seq": seq, "ranking": RANKING}
        of_today = a_standing(f"p{seq}", score, seq, window=TODAY, expires_at_ms=END_MS, **facts)
        await index.project(a_change(seq, a_standing(f"p{seq}", score, seq, **facts), of_today))
    found = {key: await client.pexpiretime(key) async for key in client.scan_iter("lb:{249}:b:*")}
    of_windows = {key: at_ms for key, at_ms in found.items() if TODAY in key or "alltime" in key}
    assert {key: END_MS if TODAY in key else -1 for key in of_windows} == of_windows
    assert 8 == len(of_windows)


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_change_of_a_window_that_is_over_leaves_nothing(client: Redis, is_cold: bool):
    """It comes too late to be seen by anybody: no entry, no event, and no mark of it; what else it says is shown."""
    index = BoardIndex(client, RANKING)
    if is_cold:
        await client.hset(keys.cold("b"), "*", "1")
    over = a_standing("ada", 20, 1, window="daily:20201120", expires_at_ms=1_000, ranking=RANKING)
    await index.project(a_change(1, over, a_standing("ada", 20, 1, ranking=RANKING)))
    assert ["alltime"] == [fields["window"] for _, fields in await client.xrange(keys.changes("b"))]
    assert [] == [key async for key in client.scan_iter("*20201120*")]
    assert [] == [field for field in await client.hkeys(keys.cold("b")) if "20201120" in field]


async def test_ranks_are_told_while_all_of_a_board_is_there_and_not_else(client: Redis):
    """Of a part of a board they would be wrong: neither that after a change nor that before it is told."""
    index = BoardIndex(client, RANKING)
    index.guard()
    for seq, is_whole in enumerate((True, False, True), start=1):
        if is_whole:
            await client.set(keys.sentinel("b"), "1")
        else:
            await client.delete(keys.sentinel("b"))
        await index.project(a_change(seq, a_standing("ada", seq, seq, seq, RANKING)))
    told = [(each["rank"], each["was_rank"]) for _, each in await client.xrange(keys.changes("b"))]
    assert [("1", "0"), ("0", "0"), ("1", "1")] == told
