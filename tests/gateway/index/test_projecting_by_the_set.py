"""Changes that are shown in one call: as if one after another, on every kind of board."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import SHOWN_TOGETHER, BoardIndex
from gateway.index.moves import BEGINNING
from gateway.index.shards import board_index
from gateway.runtime.lanes import lane_of
from gateway.shared_records import Change, Standing, StoredBaseline
from policies.errors import IndexUnavailable
from policies.ranking import Ranking
from policies.vocabulary import State
from tests.gateway.index.test_order_and_projection import a_change, dump
from tests.support.policies import a_ranking
from tests.support.standings import a_standing
from tests.support.thorough import seeds

KINDS = ["unique", "sparse", "dense"]
BOARDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups": {"ranks": KINDS},
    "ranges": {"ranges": [20, 60]},
    "head": {"exact_ranks": 10},
    "shards": {"shards": 2},
}
TODAY = "daily:20991231"
PLAYERS = [f"p{number}" for number in range(14)]
SETS_OF_LANE = {of(lane_of("b")) for of in (keys.residents, keys.wanted, keys.tails)}


def some_changes(ranking: Ranking, seed: int) -> list[Change]:
    """Changes of few players, with names, baselines, places that are given up, and some that come again."""
    by_chance = random.Random(seed)

    def standing(player: str, seq: int, window: str) -> Standing:
        score = None if by_chance.random() < 0.2 else by_chance.randrange(100)
        made = a_standing(player, score, seq, seq, ranking)
        return replace(made, window=window, name=by_chance.choice(["", player, player.title()]))

    changes = []
    for seq in range(1, 60):
        player = by_chance.choice(PLAYERS)
        windows = by_chance.choice([(), ("alltime",), ("alltime", TODAY)])
        standings = tuple(standing(player, seq, window) for window in windows)
        baselines = tuple(StoredBaseline("b", who, seq, 2.0, 0.0, seq) for who in (player, ""))
        changes.append(Change(seq, f"s{seq}", "b", player, State.PROMOTED, standings, baselines))
    again = by_chance.sample(changes, 10)
    by_chance.shuffle(again)
    return changes[:40] + again + changes[40:]


async def contents(client: Redis) -> dict[str, Any]:
    """All that Redis has, without the times of the calls; of a stream what its entries say."""
    found = await dump(client)
    for key, value in found.items():
        kind = await client.type(key)
        if kind == "stream":
            found[key] = [fields for _, fields in await client.xrange(key)]
        elif key in SETS_OF_LANE:
            found[key] = await client.zrange(key, 0, -1)
        elif key.endswith(":members") and "*" in value:
            found[key] = value | {"*": value["*"].split(" ")[-1]}
    return found


async def shown(client: Redis, name: str, changes: Sequence[Change], at_once: int) -> dict[str, Any]:
    """What Redis has after these changes came, so many of them in a call."""
    await client.flushall()
    index = board_index(client, a_ranking(**BOARDS[name]))
    for at in range(0, len(changes), at_once):
        await index.project_all(changes[at : at + at_once])
    return await contents(client)


@pytest.mark.parametrize("seed", seeds(8, ordinarily=2))
@pytest.mark.parametrize("name", BOARDS)
async def test_changes_of_a_call_are_shown_as_if_one_after_another(client: Redis, name: str, seed: int):
    """Windows, groups, heads, names, baselines, the pending set and the stream with its ranks; several of a player too."""
    changes = some_changes(a_ranking(**BOARDS[name]), seed)
    expected = await shown(client, name, changes, 1)
    assert any(":changes" in key for key in expected)
    by_the_set = await shown(client, name, changes, SHOWN_TOGETHER)
    if name == "shards":
        expected, by_the_set = _of_shards(expected), _of_shards(by_the_set)
    assert expected == by_the_set


def _of_shards(found: dict[str, Any]) -> dict[str, Any]:
    """The contents without the board's stream, which has the changes of a call by shard, with the ranks of then."""
    return {key: value for key, value in found.items() if key != keys.changes("b") and "relayed" not in key}


async def test_a_call_shows_so_many_changes(client: Redis):
    """Each call holds Redis up, so that a job of 64 is some calls."""
    index = BoardIndex(client, a_ranking())
    changes = [a_change(seq, a_standing(f"p{seq}", seq, seq, seq)) for seq in range(1, 65)]
    await index.project(changes[0])
    before = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    await index.project_all(changes)
    assert 64 // SHOWN_TOGETHER == (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] - before
    assert 64 == await client.zcard(keys.window("b", "alltime"))


async def test_windows_end_with_whatever_came_into_them(client: Redis):
    """The first change of a call gives its place up, so that the ZSET of the window is only there after the second."""
    index = BoardIndex(client, a_ranking(ranks=KINDS))
    standings = [a_standing("ada", None, 1, 1, index.ranking), a_standing("bea", 5, 2, 2, index.ranking)]
    await index.project_all([a_change(each.seq, replace(each, window=TODAY)) for each in standings])
    for key in (keys.window("b", TODAY), keys.members("b", TODAY), keys.groups("b", TODAY)):
        assert 0 < await client.pttl(key)


async def test_a_damaged_window_keeps_no_other_change_from_the_board(client: Redis):
    """What Redis cannot show fails; the others of its call are shown, and every page is outdated."""
    index = BoardIndex(client, a_ranking())
    before = (await index.versions.of("alltime")).name
    await client.set(keys.members("b", TODAY), "of somebody else")
    damaged = replace(a_standing("bea", 6, 2, 2), window=TODAY)
    changes = [
        a_change(1, a_standing("ada", 5, 1, 1)),
        a_change(2, damaged),
        a_change(3, a_standing("cy", 7, 3, 3)),
    ]
    with pytest.raises(IndexUnavailable):
        await index.project_all(changes)
    assert {"ada", "cy"} == {entry.player for entry in (await index.page("alltime", 0, 9)).entries}
    after = (await index.versions.of("alltime")).name
    assert index.versions.moves.shift("alltime", before, after, BEGINNING, BEGINNING) is None
