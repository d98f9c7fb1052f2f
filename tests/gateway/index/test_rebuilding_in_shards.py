"""A rebuild of a board in shards: the leases of all its parts are one, and what one of them lacks none of them has."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.generation import LEASE_MS, BuiltBoard, generation_of
from gateway.index.shards import ShardedIndex, board_index
from gateway.shared_records import StoredBaseline
from policies.errors import RebuildLost, RebuildRefused
from policies.ranking import Ranking
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

RANKING = a_ranking("b", shards=3)
PARTS = ["b", "b/0", "b/1", "b/2"]
STOOD = [a_standing(f"p{at}", at, at, at, RANKING) for at in range(1, 10)]


async def held(client: Redis) -> dict[str, list[str]]:
    """What each part of the board has in Redis of a rebuild: its lease, its sentinel, or keys that are being built."""
    kinds = {"lease": keys.lease, "whole": keys.sentinel}
    found = {part: [kind for kind, key in kinds.items() if await client.exists(key(part))] for part in PARTS}
    for part in PARTS:
        found[part] += ["built"] * bool(await client.keys(f"{keys.stem(part)}built:*"))
    return found


async def test_a_rebuild_of_which_one_part_is_refused_holds_up_no_other(client: Redis):
    """The leases that it had are given back, and the other builder's stays."""
    await client.set(keys.lease("b/1"), "another's", px=LEASE_MS)
    with pytest.raises(RebuildRefused, match="b/1 is already being rebuilt"):
        await generation_of(ShardedIndex(client, RANKING)).begin()
    assert {part: ["lease"] if part == "b/1" else [] for part in PARTS} == await held(client)
    await client.delete(keys.lease("b/1"))
    await generation_of(ShardedIndex(client, RANKING)).begin()


async def test_a_builder_that_died_holds_up_the_next_for_half_a_minute_and_a_forged_lease_not_at_all(
    client: Redis,
):
    """It says how long that is; a lease that never ends is nobody's."""
    board = ShardedIndex(client, RANKING)
    await generation_of(board).begin()
    lives_ms = [await client.pttl(keys.lease(part)) for part in PARTS]
    assert all(20_000 < life_ms <= 30_000 for life_ms in lives_ms), lives_ms
    with pytest.raises(RebuildRefused, match=r"try again in (2\d|30) s"):
        await generation_of(board).begin()
    for part in PARTS:
        await client.set(keys.lease(part), "forged")
    await generation_of(board).begin()
    lives_ms = [await client.pttl(keys.lease(part)) for part in PARTS]
    assert all(0 < life_ms <= 30_000 for life_ms in lives_ms), lives_ms


async def test_every_page_keeps_every_lease(client: Redis):
    """Whatever it is of, and wherever its players are; once one of them is lost, all begins again."""
    building = generation_of(ShardedIndex(client, RANKING))
    await building.begin()
    pages = (
        building.renew,
        lambda: building.put_standings(STOOD[:1]),
        lambda: building.replace_standings(STOOD[:1]),
        lambda: building.put_baselines([]),
        lambda: building.put_pending([("s1", 1)]),
        lambda: building.put_settled([("s1", 1)]),
    )
    for page in pages:
        for part in PARTS:
            await client.pexpire(keys.lease(part), LEASE_MS // 3)
        await page()
        lives_ms = [await client.pttl(keys.lease(part)) for part in PARTS]
        assert all(each > LEASE_MS // 2 for each in lives_ms), lives_ms
    for part in PARTS:
        await client.delete(keys.lease(part))
        with pytest.raises(RebuildLost):
            await building.renew()


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_a_rebuild_ends_in_all_parts(client: Redis, is_given_up: bool):
    """Put in place and whole in each, or nothing of it anywhere; the leases are given back."""
    index = ShardedIndex(client, RANKING)
    building = generation_of(index)
    await building.begin()
    await building.put_standings(STOOD)
    await building.put_pending([("s1", 1)])
    built = [part for part, what in (await held(client)).items() if "built" in what]
    assert PARTS == built
    if is_given_up:
        await building.give_up()
    else:
        await building.swap(["alltime"])
        assert {part: ["lease"] for part in PARTS} == await held(client)
        await building.finish()
    assert {part: [] if is_given_up else ["whole"] for part in PARTS} == await held(client)
    page = await index.page("alltime", 0, 99)
    assert ([] if is_given_up else list(range(9, 0, -1))) == [entry.score for entry in page.entries]
    assert (not is_given_up) == await client.exists(keys.pending("b"))


async def test_no_page_that_was_kept_before_a_rebuild_is_current_after_it(client: Redis):
    """Its version is another one though there are as many entries as before; that of a part is gone with what it named."""
    index = ShardedIndex(client, RANKING)
    for each in STOOD:
        await index.restore(each.player, [each], [])
    before = await index.versions.of("alltime")
    building = generation_of(index)
    await building.begin()
    await building.put_standings([a_standing(each.player, 50, 1, 1, RANKING) for each in STOOD])
    await building.swap(["alltime"])
    assert 0 == await client.exists(*map(keys.version, PARTS))
    after = await index.versions.of("alltime")
    assert (before.total, True) == (after.total, before.name != after.name)


async def test_a_repair_in_a_shard_is_told_to_who_follows_the_board(client: Redis):
    """With ranks of the whole board, and with what stood there before."""
    index = ShardedIndex(client, RANKING)
    for each in STOOD:
        await index.restore(each.player, [each], [])
    await client.delete(keys.changes("b"))
    assert await index.show_again("p1", [a_standing("p1", 50, 60, 1, RANKING)])
    [(_, told)] = await client.xrange(keys.changes("b"))
    assert ("p1", "1", "9") == (told["player"], told["rank"], told["was_rank"])


@pytest.mark.parametrize("ranking", [RANKING, a_ranking("b")])
async def test_a_small_board_is_put_in_place_with_all_it_has(client: Redis, ranking: Ranking):
    """Standings, baselines, runs that wait and runs that were decided, whether the board has shards or not."""
    index = board_index(client, ranking)
    building = generation_of(index)
    await building.begin()
    baseline = StoredBaseline("b", "p1", 1, 2.0, 0.0, 1)
    await building.put_board(BuiltBoard(STOOD, [baseline], [("waits", 1)], [("decided", 2)]))
    await building.swap(["alltime"])
    await building.finish()
    page = await index.page("alltime", 0, 99)
    assert list(range(9, 0, -1)) == [entry.score for entry in page.entries]
    held = {"waits": keys.pending("b"), "decided": keys.settled("b")}
    assert {name: [name] for name in held} == {
        name: await client.zrange(key, 0, -1) for name, key in held.items()
    }
    assert {"p1": keys.baseline_value(baseline)} == await client.hgetall(keys.baselines("b"))
