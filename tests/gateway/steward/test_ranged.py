"""A board in ranges: written by settlement, rebuilt, compared, repaired and taken out of Redis like any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index.check import check
from gateway.steward.index.comparison.difference import Kind
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Policies
from policies.vocabulary import State
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.duty import Duty, be_unused
from tests.support.valkey import ValkeyServer

ZSETS = [f"lb:{{201}}:tiny:alltime:range:{number}" for number in range(3)]
NOBODY = "0" * 22 + ":eve"


@pytest.fixture
async def duty(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Duty]:
    ranks = ["unique", "sparse", "dense"]
    policies = tmp_path / "policies"
    boards.write_board(policies, ranges=[2, 5], ranks=ranks, windows=["alltime", "daily"], cold_after_h=1)
    settings = Settings(
        data_dir=tmp_path / "data", policies_dir=policies, redis_url=valkey.url, redis_timeout_ms=5_000
    )
    known, queue = load_policies(settings), Redis.from_url(valkey.url)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
        steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(queue), **parts)
        found = Duty(settings, known["tiny"], ledger, steward, queue)
        await crowd(found)
        yield found
    queue.close()


async def crowd(duty: Duty) -> None:
    """Twenty players, their scores from 0 to 6, of whom one was revoked."""
    ids = [f"crowd-{at}" for at in range(20)]
    await asyncio.gather(*(duty.append(each, player=f"p{at}", score=at % 7) for at, each in enumerate(ids)))
    await duty.promote(*ids)
    await duty.promote("crowd-3", to_state=State.REVOKED)
    await duty.settle_down()


async def shown(duty: Duty) -> list[tuple[int, str, int]]:
    page = await index_of(duty).page("alltime", 0, 100)
    return [(entry.rank, entry.player, entry.score) for entry in page.entries]


def index_of(duty: Duty) -> BoardIndex:
    return duty.index.of(duty.board)


def due() -> list[tuple[int, str, int]]:
    stood = sorted((-(at % 7), at) for at in range(20) if at != 3)
    return [(rank, f"p{at}", at % 7) for rank, (_, at) in enumerate(stood, start=1)]


def sizes(duty: Duty) -> list[int]:
    return [duty.redis.zcard(each) for each in ZSETS]


async def test_settled_runs_stand_in_their_ranges_and_read_as_one_board(duty: Duty):
    """The best range first, nothing under the window's own key, and nothing differs."""
    scores = [score for _, _, score in due()]
    assert due() == await shown(duty)
    assert [
        sum(s >= 5 for s in scores),
        sum(2 <= s < 5 for s in scores),
        sum(s < 2 for s in scores),
    ] == sizes(duty)
    assert not duty.redis.exists("lb:{201}:tiny:alltime")
    assert [] == await duty.differences()


async def test_a_rebuild_makes_the_same_ranges(duty: Duty):
    """What stood there before is gone, be it in a range, in one that is no more, or where a board without any is."""
    before = sizes(duty)
    for key in (ZSETS[0], "lb:{201}:tiny:alltime:range:3", "lb:{201}:tiny:alltime"):
        duty.redis.zadd(key, {NOBODY: -999})
    duty.redis.delete("lb:{201}:tiny:alltime:members", ZSETS[1])
    await duty.rebuilder().rebuild()
    assert (due(), before) == (await shown(duty), sizes(duty))
    await duty.settle_down()
    assert not duty.redis.exists("lb:{201}:tiny:alltime", "lb:{201}:tiny:alltime:range:3")
    assert [] == await duty.differences()


async def test_I26_what_is_forged_in_a_range_is_found_and_taken_out(duty: Duty):
    """An entry of nobody, a range that went, a true entry that was put into another range too, and one moved there."""
    before = sizes(duty)
    (twice, at), (moved, was_at) = duty.redis.zrange(ZSETS[1], 0, 1, withscores=True)
    duty.redis.zadd(ZSETS[0], {twice: at, moved: was_at, NOBODY: -7})
    duty.redis.zrem(ZSETS[1], moved)
    duty.redis.delete(ZSETS[2])
    kinds = [each.kind for each in await duty.differences()]
    assert 3 == kinds.count(Kind.FORGED_MEMBER)
    assert 1 + before[2] == kinds.count(Kind.MISSING_STANDING)
    await duty.settle_down()
    assert (due(), before) == (await shown(duty), sizes(duty))
    assert [] == await duty.differences()


async def test_I26_groups_of_dense_ranks_follow_from_the_entries(duty: Duty):
    """A group that went, and one that no entry is of, are found and put right: dense ranks are counted by them."""
    held = keys.groups("tiny", "alltime")
    before = duty.redis.zrange(held, 0, -1, withscores=True)
    duty.redis.zrem(held, before[2][0])
    duty.redis.zadd(held, {"-6 ffff": -6})
    found = await check(duty.view(), is_repaired=True, in_flight_s=0)
    assert ([Kind.WRONG_GROUP] * 2, 0) == ([each.kind for each in found.differences], found.left)
    assert before == duty.redis.zrange(held, 0, -1, withscores=True)
    assert [] == await duty.differences()


async def test_a_board_in_ranges_goes_cold_and_comes_back(duty: Duty):
    """All ranges leave Redis together when nobody used the board, and come back together."""
    before = sizes(duty)
    be_unused(duty.redis, "tiny")
    assert (1, [0, 0, 0]) == (await duty.steward.see_to_cold(), sizes(duty))
    await index_of(duty).residency.note_use(is_missed=True)
    assert (1, before) == (await duty.steward.see_to_cold(), sizes(duty))
    assert due() == await shown(duty)
