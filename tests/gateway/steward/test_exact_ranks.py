"""A board with `exact_ranks`, run by the steward: heads, totals and sketches, after loss, rebuild and forgery too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.index import generation as building
from gateway.index import keys
from gateway.index.scripts import Script
from gateway.index.windows.heads import Heads
from gateway.index.windows.sketches import Sketches
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index import exact_ranks
from gateway.steward.index.check import check
from gateway.steward.index.exact_ranks import SketchKeeper
from gateway.wiring import load_policies, open_index, open_ledger
from policies import model
from policies.loader import Policies
from policies.vocabulary import State
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.duty import Duty
from tests.support.stores import Store, on_both_ledgers
from tests.support.valkey import ValkeyServer

EXACT, MOST, PLAYERS = 10, 14, 40
MEMBERS = keys.members("tiny", "alltime")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "RANKS_TO_LOSE", MOST - EXACT)
    monkeypatch.setattr(exact_ranks, "SLICE", 7)


@pytest.fixture
async def duty(tmp_path: Path, valkey: ValkeyServer, store: Store) -> AsyncIterator[Duty]:
    boards.write_board(tmp_path / "policies", exact_ranks=EXACT, windows=["alltime", "daily"])
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=valkey.url,
        redis_timeout_ms=5_000,
        ledger_url=store.url,
    )
    known, redis = load_policies(settings), Redis.from_url(valkey.url)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
        steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(redis), **parts)
        await steward.reconcile()
        yield Duty(settings, known["tiny"], ledger, steward, redis)
    redis.close()


async def crowd(duty: Duty) -> None:
    """Players p0 to p39, the more points the higher their number."""
    ids = [f"run-{at}" for at in range(PLAYERS)]
    await asyncio.gather(*(duty.append(each, player=f"p{at}", score=at) for at, each in enumerate(ids)))
    await duty.promote(*ids)


async def shown(duty: Duty) -> tuple[int, list[str]]:
    page = await duty.index.of(duty.board).page("alltime", 0, 100)
    return page.total, [entry.player for entry in page.entries]


def first(count: int, *, without: int = 0) -> list[str]:
    return [f"p{PLAYERS - 1 - without - at}" for at in range(count)]


async def differences(duty: Duty, *, is_repaired: bool = False) -> list[str]:
    found = await check(duty.view(), is_repaired=is_repaired, in_flight_s=0)
    assert found.failure is None
    return [each.kind.value for each in found.differences]


async def keep(duty: Duty) -> None:
    while await duty.steward.keep_tails():
        pass


@on_both_ledgers
async def test_a_head_that_lost_too_many_is_filled_from_the_ledger(duty: Duty):
    """The index keeps ten ranks and some; who is revoked makes room for who comes next, and the total is of all."""
    await crowd(duty)
    assert (PLAYERS, first(MOST)) == await shown(duty)
    await duty.promote(*(f"run-{PLAYERS - 1 - at}" for at in range(6)), to_state=State.REVOKED)
    assert (PLAYERS - 6, first(MOST - 6, without=6)) == await shown(duty)
    assert [] == await differences(duty)
    await keep(duty)
    assert (PLAYERS - 6, first(12, without=6)) == await shown(duty)
    assert [] == await differences(duty)


async def test_a_rebuild_makes_the_same_heads(duty: Duty):
    """All of the ledger is gone through, and what is not kept is counted."""
    await crowd(duty)
    slots = duty.redis.hgetall(MEMBERS)
    duty.redis.flushall()
    await duty.rebuilder().rebuild()
    assert (PLAYERS, first(MOST)) == await shown(duty)
    again = duty.redis.hgetall(MEMBERS)
    assert slots.pop(b"*").split()[1] == again.pop(b"*").split()[1] == str(PLAYERS - MOST).encode()
    assert slots == again
    assert [] == await differences(duty)


async def test_a_rebuild_keeps_its_lease_while_it_cuts(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Each slice that goes puts off its end: of a large board very many go."""
    await crowd(duty)
    monkeypatch.setattr(building, "TRIMMED_AT_ONCE", 10)
    lives: list[bool] = []
    run = Script.__call__

    async def takes_long(self: Script, asked: Any, arguments: Any) -> Any:
        answer = await run(self, asked, arguments)
        if answer and self._plain is trim._plain:  # so long that the lease would not last for two of them
            lives.append(duty.redis.pttl(keys.lease("tiny")) > building.LEASE_MS // 2)
            duty.redis.pexpire(keys.lease("tiny"), building.LEASE_MS // 3)
        return answer

    trim = Script(duty.index.client, "trim_head")
    monkeypatch.setattr(Script, "__call__", takes_long)
    await duty.rebuilder().rebuild()
    assert [True] * 6 == lives  # three slices of each window
    assert (PLAYERS, first(MOST)) == await shown(duty)


def put_best_below(redis: Redis) -> None:
    """The first entry of the board, away among the others."""
    [member] = redis.zrange(keys.window("tiny", "alltime"), 0, 0)
    redis.zrem(keys.window("tiny", "alltime"), member)
    seq = redis.hget(MEMBERS, "p39").split()[0]
    redis.hset(MEMBERS, "p39", seq + b" -")


FORGERIES = {
    "a wrong count": (lambda redis: redis.hset(MEMBERS, "*", "7 3"), ["wrong-total"]),
    "no count": (lambda redis: redis.hdel(MEMBERS, "*"), ["wrong-total"]),
    "a count that is none": (lambda redis: redis.hset(MEMBERS, "*", "many"), ["wrong-total"]),
    "a leader put below": (put_best_below, ["forged-standing", "wrong-total"]),
    "a slot below of another change": (lambda r: r.hset(MEMBERS, "p3", "999999 -"), ["forged-standing"]),
    "a slot below that is gone": (lambda redis: redis.hdel(MEMBERS, "p3"), ["missing-standing"]),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_forged_heads_are_found_and_put_right(duty: Duty, forgery: str):
    """What is below has to be behind all that is kept, of its last change, and counted."""
    await crowd(duty)
    forge, due = FORGERIES[forgery]
    forge(duty.redis)
    assert set(due[:1]) <= set(await differences(duty, is_repaired=True))
    for _ in range(3):
        await differences(duty, is_repaired=True)
    assert [] == await differences(duty)
    await keep(duty)
    total, entries = await shown(duty)
    assert (PLAYERS, first(len(entries))) == (total, entries)
    assert len(entries) >= EXACT


@on_both_ledgers
async def test_a_sketch_is_made_in_slices_and_anew_when_it_lacks_much(duty: Duty):
    """It holds all scores of its window, as of an event; a few changes do not renew it at once, time does."""
    await crowd(duty)
    await keep(duty)
    board = duty.board.policy
    sketches = Sketches(duty.index.client, "tiny", board.order)

    async def kept() -> Any:
        return await sketches.of("alltime")

    made = await kept()
    assert (PLAYERS, (PLAYERS - 1, 0)) == (made.sketch.count, made.sketch.ends)
    assert 0 < made.seq
    assert 0.5 == made.sketch.share(19)
    assert -1 == duty.redis.pttl(keys.sketch("tiny", "alltime"))
    await duty.promote("run-3", to_state=State.REVOKED)
    with patch.object(exact_ranks, "CHANGED", 0.5):
        duty.clock.shift(exact_ranks.PAUSE_MS / 1000 + 1)
        await keep(duty)
        assert made.seq == (await kept()).seq
        duty.clock.shift(exact_ranks.RENEWED_MS / 1000)
        await keep(duty)
    assert PLAYERS - 1 == (await kept()).sketch.count
    assert made.seq < (await kept()).seq
    duty.redis.hset(keys.sketch("tiny", "alltime"), "sketch", "forged")
    await duty.steward.reconcile()
    await keep(duty)
    assert PLAYERS - 1 == (await kept()).sketch.count
    assert [] == await differences(duty)


async def test_a_change_while_a_sketch_is_made_is_not_forgotten(duty: Duty):
    """The finished sketch lacks it, and is made anew as soon as it may be, though nothing else changes."""
    await crowd(duty)
    assert 2 == await duty.steward.keep_tails(), "a slice of each window"
    await duty.promote("run-0", to_state=State.REVOKED)
    sketches, counts = Sketches(duty.index.client, "tiny", duty.board.policy.order), []
    for _ in range(2):
        await keep(duty)
        made = await sketches.of("alltime")
        counts.append(made and made.sketch.count)
        duty.clock.shift(exact_ranks.PAUSE_MS / 1000 + 1)
    assert [PLAYERS, PLAYERS - 1] == counts


async def test_a_keeper_of_sketches_rests_once_none_is_due(duty: Duty):
    """It tells of any window whose sketch lacks changes and is too young, until that is made; without changes none is."""
    duty.clock.leave_midnight()
    duty.clock.stop()
    await crowd(duty)
    duty.clock.shift(86_400)
    keeper = SketchKeeper(duty.ledger, duty.index.of(duty.board), duty.board.policy, clock=duty.clock)

    async def rests() -> bool:
        while await keeper.step():
            pass
        return not keeper.lacks_changes

    today = [f"today-{at}" for at in range(PLAYERS)]
    await asyncio.gather(*(duty.append(each, player=each, score=at) for at, each in enumerate(today)))
    await duty.promote(*today)
    assert await rests()
    await duty.promote("run-0", "run-1", to_state=State.REVOKED)
    assert not await rests(), "they are of all time, and not of this day"
    duty.clock.shift(exact_ranks.PAUSE_MS / 1000)
    assert await rests()
    duty.clock.shift(exact_ranks.RENEWED_MS / 1000)
    assert 0 == await keeper.step()


async def test_the_sketch_of_a_window_that_ends_while_it_is_made_is_given_up(duty: Duty):
    """Nobody reads it any more, and its keeper rests."""
    duty.clock.leave_midnight()
    duty.clock.stop()
    await crowd(duty)
    keeper = SketchKeeper(duty.ledger, duty.index.of(duty.board), duty.board.policy, clock=duty.clock)
    assert (2, True) == (await keeper.step(), keeper.is_building)
    duty.clock.shift(3 * 86_400)
    assert (1, True) == (await keeper.step(), keeper.is_building), "that of all time is made"
    while await keeper.step():
        pass
    assert not keeper.is_building


async def test_a_head_is_cut_when_the_policy_keeps_less(duty: Duty):
    """A smaller number takes effect by itself, some entries at a time."""
    await crowd(duty)
    duty.index.of(duty.board).most_entries = 12
    with patch.object(exact_ranks, "MOVED", 1):
        assert 2 == await duty.steward.keep_tails() - 2, "one of each window, and a slice of each sketch"
    await keep(duty)
    assert (PLAYERS, first(12)) == await shown(duty)
    head = await Heads(duty.index.of(duty.board)).of("alltime")
    assert (12, PLAYERS - 12) == (head.entries, head.below)
