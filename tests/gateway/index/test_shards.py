"""A board over several shards, on a cluster: every answer is that of one sorted list of all its entries."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.index import keys, shards
from gateway.index.board_index import BoardIndex, Cut
from gateway.index.connection import connect
from gateway.index.groups.friends import Circles, FriendList
from gateway.index.shards import ShardedIndex, board_index, shard_of
from gateway.index.windows.subsets import PlayerLookup
from gateway.shared_records import Standing
from policies.choices import RankKind, TieBreak
from policies.ranking import BoardPlace, Ranking
from tests.gateway.index.test_order_and_projection import a_change, near_ties
from tests.support.cluster import ValkeyCluster
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

REAL = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS = (RankKind.UNIQUE, RankKind.SPARSE)
RANKINGS = {
    TieBreak.FIRST: a_ranking(),
    TieBreak.FIELDS: a_ranking(tie_break="fields", tie_fields=[{"stat": "kills"}]),
    TieBreak.COMPOSITE: a_ranking(
        tie_break="composite", tie_resolution_ms=1_000, score={"minimum": 0, "maximum": 3}
    ),
}


def sharded(client: Redis, ranking: Ranking, count: int) -> ShardedIndex:
    return ShardedIndex(client, Ranking(ranking.policy.model_copy(update={"shards": count})))


def place_of(standing: Standing) -> BoardPlace:
    return BoardPlace(standing.order, standing.member)


def modulus(tie_break: TieBreak) -> int:
    """What keeps a score within the board's bounds: a composite board packs the time beside few scores."""
    return 4 if tie_break is TieBreak.COMPOSITE else 2**53


def test_a_player_is_in_the_same_shard_for_ever():
    """The shard is of the id alone: a board that was built by one release is read by the next."""
    assert [3, 0, 0, 1, 4] == [shard_of(player, 5) for player in ("ada", "bob", "cy", "dot", "eve")]
    spread = [shard_of(f"p{at}", 4) for at in range(4_000)]
    assert all(900 < spread.count(shard) < 1100 for shard in range(4))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_board_has_as_many_shards_as_its_policy_says(client: Redis, count: int):
    """From two on each is a part of its own; a board in one piece has its windows under its own name."""
    index = board_index(client, a_ranking(shards=count))
    names = ["b"] if count == 1 else [f"b/{number}" for number in range(count)]
    assert names == [shard.board for shard in index.shards]


def test_shards_are_in_slots_of_their_own(cluster: ValkeyCluster):
    """The hash tag of each is its own, so that they spread over the nodes."""
    board = sharded(connect(cluster.url, timeout_ms=100), a_ranking(), 8)
    tags = [keys.window(each.board, "alltime") for each in board.shards]
    assert "lb:{b/3}:b/3:alltime" == tags[3]
    with cluster.client() as client:
        assert len({client.keyslot(tag) for tag in tags}) == 8
        assert len({client.get_node_from_key(tag).name for tag in tags}) == 3


@REAL
@given(
    rows=st.lists(st.tuples(near_ties, st.integers(0, 2)), min_size=1, max_size=40),
    count=st.integers(1, 5),
    tie_break=st.sampled_from(TieBreak),
    top=st.sampled_from([0, 7, 1_000]),
    data=st.data(),
)
def test_pages_ranks_and_neighbours_are_those_of_one_sorted_list(
    cluster: ValkeyCluster, rows: Any, count: int, tie_break: TieBreak, top: int, data: Any
):
    """Any page, from the top or searched for, any neighbourhood and any place, with unique and sparse ranks."""
    ranking = RANKINGS[tie_break]
    stood = [
        a_standing(f"p{at}", score % modulus(tie_break), at_ms, at + 1, ranking, {"kills": kills})
        for at, ((score, at_ms), kills) in enumerate(rows)
    ]
    groups = {each.player: ranking.group("alltime", place_of(each)) for each in stood}
    ordered = sorted(stood, key=place_of)
    sparse = {who: 1 + sum(ahead < group for ahead in groups.values()) for who, group in groups.items()}
    unique = {each.player: at for at, each in enumerate(ordered, start=1)}
    expected = {RankKind.UNIQUE: unique, RankKind.SPARSE: sparse}
    first, size = data.draw(st.integers(0, len(rows))), data.draw(st.integers(1, 12))
    player, radius = data.draw(st.sampled_from(ordered)).player, data.draw(st.integers(0, 6))
    there = unique[player] - 1

    async def play() -> None:
        client = connect(cluster.url, timeout_ms=5_000)
        await client.flushall()
        board = sharded(client, ranking, count)
        for seq, each in enumerate(stood, start=1):
            await board.project(a_change(seq, each))
        for kind in KINDS:
            page = await board.page("alltime", first, size, kind)
            shown = [(entry.player, entry.rank) for entry in page.entries]
            assert len(rows) == page.total
            assert [
                (each.player, expected[kind][each.player]) for each in ordered[first : first + size]
            ] == shown
            around = await board.around("alltime", player, radius, kind)
            assert around is not None
            near = ordered[max(0, there - radius) : there + radius + 1]
            assert [(each.player, expected[kind][each.player]) for each in near] == [
                (entry.player, entry.rank) for entry in around.entries
            ]
        assert there == await board.position("alltime", place_of(ordered[there]))
        assert await board.around("alltime", "nobody", 1) is None
        await client.aclose()

    with patch.object(shards, "MOST_READ_PER_SHARD", top):
        asyncio.run(play())


@REAL
@given(
    rows=st.lists(near_ties, min_size=1, max_size=30),
    count=st.integers(2, 5),
    size=st.integers(1, 8),
    is_behind=st.booleans(),
    is_included=st.booleans(),
    data=st.data(),
)
def test_a_cursor_goes_on_where_it_was_in_all_shards(
    cluster: ValkeyCluster, rows: Any, count: int, size: int, is_behind: bool, is_included: bool, data: Any
):
    """What is next to a place, ahead or behind, is what one sorted list has there, with its ranks."""
    stood = [a_standing(f"p{at}", score, at_ms, at + 1) for at, (score, at_ms) in enumerate(rows)]
    ordered = sorted(stood, key=place_of)
    at = data.draw(st.integers(0, len(rows) - 1))
    behind = ordered[at + (not is_included) :][:size]
    ahead = ordered[: at + is_included][-size:]
    expected = [(ordered.index(each) + 1, each.player) for each in (behind if is_behind else ahead)]

    async def play() -> list[tuple[int, str]]:
        client = connect(cluster.url, timeout_ms=5_000)
        await client.flushall()
        board = sharded(client, a_ranking(), count)
        for seq, each in enumerate(stood, start=1):
            await board.project(a_change(seq, each))
        page = await board.seek("alltime", Cut(place_of(ordered[at]), is_behind, is_included), size)
        await client.aclose()
        assert len(rows) == page.total
        return [(entry.rank, entry.player) for entry in page.entries]

    assert expected == asyncio.run(play())


async def test_a_page_has_another_version_once_any_shard_changes(cluster: ValkeyCluster):
    """Equal versions are equal pages, whichever shard a change is in; the total is of all."""
    client = connect(cluster.url, timeout_ms=5_000)
    board = sharded(client, a_ranking(), 4)
    seen = [await board.versions.of("alltime")]
    for seq in range(1, 9):
        await board.project(a_change(seq, a_standing(f"p{seq}", 5, seq, seq)))
        seen.append(await board.versions.of("alltime"))
        assert seen[-1] == await board.versions.of("alltime")
    assert list(range(9)) == [each.total for each in seen]
    assert 9 == len({each.name for each in seen})
    await client.aclose()


async def test_a_page_beyond_an_end_says_how_many_are_ahead_of_it(cluster: ValkeyCluster):
    """As on a board in one piece: nobody at the beginning, and all of them at the end."""
    client = connect(cluster.url, timeout_ms=5_000)
    whole, board = BoardIndex(client, a_ranking(board="whole")), sharded(client, a_ranking(), 4)
    for index in (whole, board):
        for seq in range(1, 9):
            await index.project(a_change(seq, a_standing(f"p{seq}", seq, seq, seq, index.ranking)))
        first, last = [(await index.page("alltime", at, 1)).entries[0].place for at in (0, 7)]
        ends = [Cut(first, is_behind=False), Cut(last)]
        pages = [await index.seek("alltime", cut, 3) for cut in ends]
        assert [(8, (), 0), (8, (), 8)] == [(page.total, page.entries, page.ahead) for page in pages]
    await client.aclose()


async def test_listed_players_and_friends_are_found_in_their_shards(cluster: ValkeyCluster):
    """Ranks among some of the players, and among all, as if they were in one place.

    What was forged in the shard of another is nobody's.
    """
    client = connect(cluster.url, timeout_ms=5_000)
    board = sharded(client, a_ranking(), 4)
    for at in range(20):
        await board.project(a_change(at + 1, a_standing(f"p{at}", 20 - at, at, at + 1)))
    strange = board.shards[(shard_of("p9", 4) + 1) % 4]
    await strange.project(a_change(21, a_standing("p9", -5, 21, 21)))
    listed = await PlayerLookup(board).entries("alltime", ["p9", "p3", "nobody", "p14"])
    shown = [(each.entry.player, each.entry.rank, each.global_rank) for each in listed.entries]
    assert [("p3", 1, 4), ("p9", 2, 10), ("p14", 3, 15)] == shown
    friends = FriendList("p9", 1, ("p14", "p3", "p5"))
    page = await Circles(board).page("alltime", friends, 1, 2)
    assert (4, [("p5", 2, 6), ("p9", 3, 10)]) == (
        page.total,
        [(each.entry.player, each.entry.rank, each.global_rank) for each in page.entries],
    )
    around = await Circles(board).around("alltime", friends, "p14", 1)
    assert around is not None
    assert ["p9", "p14"] == [each.entry.player for each in around.entries]
    assert await Circles(board).around("alltime", friends, "p4", 1) is None
    await client.aclose()


async def test_a_score_that_is_revoked_leaves_its_shard(cluster: ValkeyCluster):
    """Changes may come twice and late, as on a board of one shard."""
    client = connect(cluster.url, timeout_ms=5_000)
    board = sharded(client, a_ranking(), 4)
    for change in (a_change(1, a_standing("ada", 7)), a_change(3, a_standing("ada", None, 0, 3))):
        await board.project(change)
    await board.project(a_change(2, a_standing("ada", 9, 2, 2)))
    assert (0, ()) == ((page := await board.page("alltime", 0, 10)).total, page.entries)
    await client.aclose()


async def test_dense_ranks_are_refused(cluster: ValkeyCluster):
    """Distinct scores cannot be added up: the same one may be in several shards."""
    client = connect(cluster.url, timeout_ms=5_000)
    board = sharded(client, a_ranking(), 2)
    await board.project(a_change(1, a_standing("ada", 7)))
    with pytest.raises(ValueError, match="counted over shards"):
        await board.page("alltime", 0, 1, RankKind.DENSE)
    await client.aclose()


def test_the_longest_equal_run_is_searched_by_bytes(cluster: ValkeyCluster):
    """Among entries of one order, members are compared as Redis does: by bytes, not by a locale's rules."""
    members = sorted(["a", "B", "b", "A", "_", "-", "ab", "aB", "0", "z", "Z"])

    async def play() -> list[int]:
        client = connect(cluster.url, timeout_ms=5_000)
        shard = sharded(client, a_ranking(), 1).shards[0]
        await client.zadd(keys.window(shard.board, "alltime"), dict.fromkeys(members, -5))
        asked = [BoardPlace(-5, member) for member in [*members, "", "~"]]
        found = await shard.positions("alltime", asked)
        await client.aclose()
        return found

    assert [*range(len(members)), 0, len(members)] == asyncio.run(play())
