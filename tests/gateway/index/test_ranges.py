"""A board in ranges of scores: every answer is that of one sorted list, and each standing is in the ZSET of its range."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex, Cut
from gateway.index.changes import ChangeStream
from gateway.index.connection import connect
from gateway.index.generation import Generation
from gateway.index.groups.friends import Circles, FriendList
from gateway.index.groups.segments import SegmentBoards
from gateway.index.ranges import RangedWindow, zset_at
from gateway.index.windows.exact_distribution import ExactDistributions
from gateway.index.windows.subsets import PlayerLookup
from gateway.shared_records import Membership, Standing
from policies.choices import RankKind, TieBreak
from policies.fields import SortOrder
from policies.ranking import BoardPlace, Ranking
from tests.gateway.index.test_order_and_projection import REAL, Row, a_change, by_sql, every_rank, run_on
from tests.support.policies import EXACT_LIMIT, a_ranking
from tests.support.standings import a_standing
from tests.support.valkey import ValkeyServer

TIE_BREAKS: dict[str, Any] = {
    "first": {},
    "fields": {"tie_fields": [{"stat": "kills"}, {"stat": "deaths", "order": "ascending"}]},
    "composite": {"tie_resolution_ms": 60_000, "score": {"minimum": -1_000_000, "maximum": 1_000_000}},
}
SCORES = st.one_of(st.integers(-3, 3), st.sampled_from([-999_999, 999_999, 1_000_000]))
BORDERS = st.sets(st.one_of(st.integers(-3, 4), st.sampled_from([-999_999, 999_999, 1_000_000])), max_size=6)


def place_of(standing: Standing) -> BoardPlace:
    return BoardPlace(standing.order, standing.member)


@st.composite
def boards(draw: Any) -> tuple[Ranking, list[Row]]:
    """A board of any order and tie-break in some ranges, and standings of which some replace others of their player."""
    tie_break = draw(st.sampled_from(TieBreak))
    ranking = a_ranking(
        tie_break=tie_break,
        order=draw(st.sampled_from(SortOrder)),
        ranks=list(RankKind),
        ranges=sorted(draw(BORDERS)),
        **TIE_BREAKS[tie_break.value],
    )
    begin = 2**41 if tie_break is TieBreak.COMPOSITE else 0
    scores = draw(st.lists(st.tuples(SCORES, st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=25))
    return ranking, [
        Row(f"p{at if again > 3 else 0}", score, begin + at % 3, at + 1, kills, at % 2)
        for at, (score, kills, again) in enumerate(scores)
    ]


def standings_of(ranking: Ranking, rows: list[Row]) -> list[Standing]:
    return [
        a_standing(
            row.player, row.score, row.at_ms, row.seq, ranking, {"kills": row.kills, "deaths": row.deaths}
        )
        for row in rows
    ]


async def scores_by_range(client: Redis, ranking: Ranking) -> list[set[int]]:
    """The scores that stand in each range, the best range first."""
    found = []
    for number in range(len(ranking.policy.ranges) + 1):
        held = await client.zrange(f"{keys.window('b', 'alltime')}:range:{number}", 0, -1, withscores=True)
        found.append({ranking.score_at("alltime", int(order)) for _, order in held})
    return found


def due_by_range(ranking: Ranking, scores: set[int]) -> list[set[int]]:
    """The same by the definition: a score that is named as a border is in the upper range of the two."""
    ends = [-EXACT_LIMIT, *ranking.policy.ranges, EXACT_LIMIT + 1]
    found = [{score for score in scores if low <= score < high} for low, high in pairwise(ends)]
    return found if ranking.policy.order is SortOrder.ASCENDING else found[::-1]


@REAL
@given(board=boards(), shuffle=st.randoms())
def test_every_rank_is_that_of_sql_over_the_borders(valkey: ValkeyServer, board: Any, shuffle: Any):
    """ROW_NUMBER, RANK and DENSE_RANK whatever the ranges are, with changes in any order and moves between ranges."""
    ranking, rows = board
    last = {row.player: row for row in rows}
    arriving = standings_of(ranking, rows)
    shuffle.shuffle(arriving)

    async def work(index: BoardIndex, client: Redis) -> None:
        for each in [*arriving, *arriving[:3]]:
            await index.project(a_change(each.seq, each))
        assert by_sql([*last.values()], ranking) == await every_rank(index)
        if ranking.policy.ranges:
            scores = {row.score for row in last.values()}
            assert due_by_range(ranking, scores) == await scores_by_range(client, ranking)

    run_on(valkey, ranking, work)


class Asked(NamedTuple):
    """A page, neighbours and a cursor, somewhere on a board."""

    at: int
    size: int
    is_behind: bool
    is_included: bool


@REAL
@given(
    board=boards(),
    asked=st.builds(Asked, st.integers(0, 24), st.integers(1, 8), st.booleans(), st.booleans()),
    who=st.integers(0, 24),
)
def test_pages_and_cursors_cross_borders(valkey: ValkeyServer, board: Any, asked: Asked, who: int):
    """Any page, neighbourhood, cursor, total and distribution is that of one sorted list."""
    ranking, rows = board
    stood = standings_of(ranking, list({row.player: row for row in rows}.values()))
    ordered = sorted(stood, key=place_of)
    names = [each.player for each in ordered]
    at = who % len(ordered)
    place = place_of(ordered[at])
    next_to = (
        names[at + (not asked.is_included) :][: asked.size]
        if asked.is_behind
        else names[: at + asked.is_included][-asked.size :]
    )

    async def work(index: BoardIndex, _client: Redis) -> None:
        for each in stood:
            await index.project(a_change(each.seq, each))
        page = await index.page("alltime", asked.at, asked.size)
        assert names[asked.at : asked.at + asked.size] == [entry.player for entry in page.entries]
        assert len(names) == page.total == (await index.versions.of("alltime")).total
        around = await index.around("alltime", names[at], asked.size)
        assert around is not None
        near = names[max(0, at - asked.size) : at + asked.size + 1]
        assert near == [entry.player for entry in around.entries]
        found = await index.seek("alltime", Cut(place, asked.is_behind, asked.is_included), asked.size)
        assert next_to == [entry.player for entry in found.entries]
        assert [at] == await index.positions("alltime", [place])
        distribution = await ExactDistributions(index).of("alltime", [ordered[at].score], [])
        better = [
            each
            for each in stood
            if ranking.order_from("alltime", each.score) < ranking.order_from("alltime", ordered[at].score)
        ]
        assert (len(names), (len(better),), ordered[0].score) == (
            distribution.total,
            distribution.better,
            distribution.best,
        )

    run_on(valkey, ranking, work)


async def test_a_move_to_another_range_is_one_step_and_tells_both_ranks(valkey: ValkeyServer):
    """Somebody who climbs over a border stands in one range, and the feed has both ranks on the whole board."""
    client = connect(valkey.url, timeout_ms=5_000)
    ranking = a_ranking(ranges=[10, 20])
    index = BoardIndex(client, ranking)
    for seq, (player, score) in enumerate((("ada", 5), ("bob", 10), ("cy", 25), ("ada", 20)), start=1):
        await index.project(a_change(seq, a_standing(player, score, seq, seq, ranking)))
    assert [{25, 20}, {10}, set()] == await scores_by_range(client, ranking)
    told = (await client.xrevrange(keys.changes("b"), count=1))[0][1]
    assert ("ada", "2", "3") == (told["player"], told["rank"], told["was_rank"])
    stream = ChangeStream(client, ranking)
    rows = await client.xrange(keys.changes("b"))
    before = await stream.places_before(stream.changes_in(rows)[2], ["ada", "bob"])
    assert {"ada": 2, "bob": 1} == {who: place.rank for who, place in before.items() if place}
    await index.project(a_change(5, a_standing("cy", None, 5, 5, ranking)))
    assert [{20}, {10}, set()] == await scores_by_range(client, ranking)
    await client.aclose()


async def test_a_window_in_ranges_expires_as_a_whole(valkey: ValkeyServer):
    """Each range lives as long as its window: to the end of the last page that it is in."""
    client = connect(valkey.url, timeout_ms=5_000)
    ranking = a_ranking(ranges=[10], windows=["daily"])
    index = BoardIndex(client, ranking)
    for seq, score in enumerate((5, 15), start=1):
        standing = a_standing(
            f"p{seq}", score, seq, seq, ranking, window="daily:20991120", expires_at_ms=4_100_000_000_000
        )
        await index.project(a_change(seq, standing))
    zsets = [f"lb:{{249}}:b:daily:20991120:range:{number}" for number in (0, 1)]
    assert [4_100_000_000_000] * 2 == [await client.pexpiretime(each) for each in zsets]
    await client.aclose()


async def test_friends_groups_and_listed_players_stand_as_on_one_list(valkey: ValkeyServer):
    """What is made of a window, wherever in it somebody stands: ranks among some, and among all."""
    client = connect(valkey.url, timeout_ms=5_000)
    ranking = a_ranking(ranges=[4, 8, 12], segments=["club"])
    index = BoardIndex(client, ranking)
    index.segments = groups = SegmentBoards(index, ["club"])
    for at in range(16):
        await index.project(a_change(at + 1, a_standing(f"p{at}", 16 - at, at, at + 1, ranking)))
    expected = [("p3", 1, 4), ("p9", 2, 10), ("p14", 3, 15)]
    for at in (3, 9, 14):
        await groups.keep(Membership(f"p{at}", 1, {"club": "owls"}), ["alltime"])
    listed = await PlayerLookup(index).entries("alltime", ["p9", "p3", "nobody", "p14"])
    friends = await Circles(index).page("alltime", FriendList("p9", 1, ("p14", "p3")), 0, 9)
    for page in (listed, friends, await groups.page("alltime", "club", "owls", 0, 9)):
        assert expected == [(e.entry.player, e.entry.rank, e.global_rank) for e in page.entries]
    await client.aclose()


async def test_what_is_settled_during_a_rebuild_changes_its_range(valkey: ValkeyServer):
    """A standing that is put again is in the range of its new score alone, with the groups that go with it."""
    client = connect(valkey.url, timeout_ms=5_000)
    ranking = a_ranking(ranges=[10], ranks=list(RankKind))
    built = Generation(client, ranking)
    await built.begin()
    await built.put_standings([a_standing(who, 5, 1, 1, ranking) for who in ("ada", "bob")])
    await built.replace_standings(
        [a_standing("ada", 15, 2, 2, ranking), a_standing("bob", None, 3, 3, ranking)]
    )
    await built.swap(["alltime"])
    await built.finish()
    assert [{15}, set()] == await scores_by_range(client, ranking)
    assert ["-15 "] == await client.zrange(keys.groups("b", "alltime"), 0, -1)
    await client.aclose()


async def test_a_script_is_refused_what_ranges_cannot_answer(valkey: ValkeyServer):
    """A command that nobody wrote for ranges is an error, never an empty answer."""
    client = connect(valkey.url, timeout_ms=5_000)
    index = BoardIndex(client, a_ranking(ranges=[1]))
    with pytest.raises(Exception, match="ranks are counted from the best"):
        await index.page("alltime", -3, 1)
    await client.aclose()


def test_an_entry_at_a_border_is_in_the_range_that_begins_there():
    """As the index's scripts place it."""
    window = RangedWindow.of("w", ("first", "second", "third"), (5, 9))
    placed = [zset_at(window, order) for order in (4.0, 5.0, 8.0, 9.0)]
    assert ["first", "second", "second", "third"] == placed
