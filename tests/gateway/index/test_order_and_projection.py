"""The index against plain SQL: the same order, exact numbers, and one result whatever way the changes come."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex, CommittedRun, Cut
from gateway.index.connection import connect
from gateway.shared_records import Change, Standing, StoredBaseline
from policies.choices import RankKind, TieBreak, WindowKind
from policies.errors import IndexUnavailable
from policies.fields import SortOrder
from policies.ranking import Ranking
from policies.ties import COMPOSITE_BEGIN_MS
from policies.vocabulary import State
from tests.support.policies import EXACT_LIMIT, a_ranking
from tests.support.standings import RANKING, a_standing
from tests.support.valkey import ValkeyServer

REAL = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

near_ties = st.tuples(
    st.one_of(
        st.integers(0, 3), st.sampled_from([10**9, 10**15, EXACT_LIMIT, EXACT_LIMIT - 1, -EXACT_LIMIT, -1])
    ),
    st.sampled_from([0, 1, 1_763_640_000_000, 1_763_640_000_001, 2**48 - 1]),
)


def a_change(seq: int, *standings: Standing, baselines: Sequence[StoredBaseline] = ()) -> Change:
    player = standings[0].player if standings else "ada"
    return Change(seq, f"s{seq}", "b", player, State.PROMOTED, standings, tuple(baselines))


class Row(NamedTuple):
    """A standing as SQL sees it."""

    player: str
    score: int
    at_ms: int
    seq: int
    kills: int
    deaths: int


ORACLES = {
    "first": ("at_ms, seq", ""),
    "fields": ("kills DESC, deaths, at_ms, seq", ", kills DESC, deaths"),
    "composite": ("at_ms / {resolution}, player", ""),
}
"""By tie-break: what SQL orders equal scores by, and what of it is a tie."""


def by_sql(rows: Sequence[Row], ranking: Ranking) -> list[tuple[str, int, int, int]]:
    """(player, ROW_NUMBER, RANK, DENSE_RANK), in the order that SQL gives."""
    policy = ranking.policy
    direction = "ASC" if policy.order is SortOrder.ASCENDING else "DESC"
    order, ties = ORACLES[policy.tie_break.value]
    resolution = ranking.resolutions_ms.get(WindowKind.ALLTIME, 1)
    rows = [row._replace(at_ms=row.at_ms - COMPOSITE_BEGIN_MS) for row in rows]
    with sqlite3.connect(":memory:") as oracle:
        oracle.execute("CREATE TABLE standings (player, score INTEGER, at_ms INTEGER, seq, kills, deaths)")
        oracle.executemany("INSERT INTO standings VALUES (?, ?, ?, ?, ?, ?)", rows)
        return oracle.execute(
            f"SELECT player, ROW_NUMBER() OVER (ORDER BY score {direction}, {order}), "
            f"RANK() OVER (ORDER BY score {direction}{ties}), DENSE_RANK() OVER (ORDER BY score {direction}{ties}) "
            f"FROM standings ORDER BY 2".format(resolution=resolution)
        ).fetchall()


def run_on(valkey: ValkeyServer, ranking: Ranking, work: Any) -> Any:
    """The result of `work(index, client)` on an emptied Redis."""

    async def play() -> Any:
        client = connect(valkey.url, timeout_ms=5_000)
        await client.flushall()
        try:
            return await work(BoardIndex(client, ranking), client)
        finally:
            await client.aclose()

    return asyncio.run(play())


async def every_rank(index: BoardIndex) -> list[tuple[str, int, int, int]]:
    """(player, unique, sparse, dense rank) of everybody, read as pages and around each."""
    pages = [(await index.page("alltime", 0, 100, kind)).entries for kind in RankKind]
    found = [
        (unique.player, unique.rank, sparse.rank, dense.rank)
        for unique, sparse, dense in zip(*pages, strict=True)
    ]
    for player, *ranks in found:
        around = [await index.around("alltime", player, 0, kind) for kind in RankKind]
        assert ranks == [page.entries[0].rank for page in around if page]
    tail = [(await index.page("alltime", len(found) // 2, 100, kind)).entries for kind in RankKind]
    assert [row[1:] for row in found[len(found) // 2 :]] == [
        tuple(entry.rank for entry in each) for each in zip(*tail, strict=True)
    ]
    return found


FIELDS = [{"stat": "kills"}, {"stat": "deaths", "order": "ascending"}]
TIE_BREAKS = {
    "first": {},
    "fields": {"tie_fields": FIELDS},
    "composite": {"tie_resolution_ms": 60_000, "score": {"minimum": -1_000_000, "maximum": 1_000_000}},
}
rows_with_ties = st.lists(
    st.tuples(near_ties, st.integers(-1, 1), st.integers(0, 1), st.integers(0, 6)), min_size=1, max_size=25
)


@pytest.mark.parametrize("tie_break", TieBreak)
@REAL
@given(given_rows=rows_with_ties, order=st.sampled_from(SortOrder), shuffle=st.randoms())
def test_every_rank_is_that_of_sql_to_the_last_tie(
    valkey: ValkeyServer, tie_break: TieBreak, given_rows: Any, order: SortOrder, shuffle: Any
):
    """ROW_NUMBER, RANK and DENSE_RANK, for any standings, on the way they came and some of them came again as others."""
    policy = {"order": order, "tie_break": tie_break, "ranks": list(RankKind), **TIE_BREAKS[tie_break]}
    ranking = a_ranking(**policy)
    most = ranking.policy.score.maximum
    arriving = [
        Row(f"p{at if again > 2 else 0}", max(-most, min(most, score)), at_ms, at + 1, kills, deaths)
        for at, ((score, at_ms), kills, deaths, again) in enumerate(given_rows)
    ]
    rows = {row.player: row for row in arriving}
    if tie_break is TieBreak.COMPOSITE:
        arriving = [row._replace(at_ms=row.at_ms % 2**40 + COMPOSITE_BEGIN_MS) for row in arriving]
        rows = {row.player: row for row in arriving}
    shuffle.shuffle(arriving)

    async def work(index: BoardIndex, client: Redis) -> None:
        for player, score, at_ms, seq, kills, deaths in arriving:
            stats = {"kills": kills, "deaths": deaths}
            await index.project(a_change(seq, a_standing(player, score, at_ms, seq, ranking, stats)))
        assert by_sql([*rows.values()], ranking) == await every_rank(index)
        shown = {entry.player: entry.score for entry in (await index.page("alltime", 0, 100)).entries}
        assert {row.player: row.score for row in rows.values()} == shown
        distinct = {
            (row.score, *((row.kills, row.deaths) if tie_break == "fields" else ())) for row in rows.values()
        }
        assert len(distinct) == await client.zcard(keys.groups("b", "alltime"))

    run_on(valkey, ranking, work)


@pytest.mark.parametrize("ties", ["first", "fields", "composite"])
async def test_the_time_of_a_score_comes_back(client: Redis, ties: str):
    """When a score was reached is part of the place: to the millisecond, or to the slot of a composite board."""
    at_ms = 1_763_640_123_456
    ranking = a_ranking(tie_break=ties, **TIE_BREAKS[ties])
    index = BoardIndex(client, ranking)
    await index.project(a_change(1, a_standing("ada", 7, at_ms, 1, ranking)))
    [entry] = (await index.page("alltime", 0, 1)).entries
    resolution = ranking.resolutions_ms.get(WindowKind.ALLTIME, 1)
    assert at_ms - resolution < entry.achieved_at_ms <= at_ms


async def test_a_score_and_a_time_of_32_bits_do_not_fit_a_double(client: Redis):
    """Why `score << 32 | seconds` is no tie-break here: from 2,097,152 points on, two times are one ZSET score."""
    seconds = 1_763_640_124
    for points, distinct in ((2_097_151, 2), (2_097_152, 1)):
        packed = {"late": points << 32 | seconds + 1, "soon": points << 32 | seconds}
        await client.delete("packed")
        await client.zadd("packed", packed)
        assert distinct == len(set(await client.zmscore("packed", list(packed))))
    assert ["late", "soon"] == await client.zrange("packed", 0, -1)


versions = st.lists(
    st.tuples(st.sampled_from(["ada", "bea"]), st.one_of(st.none(), st.integers(0, 5))),
    min_size=1,
    max_size=8,
)


@REAL
@given(made=versions, shuffle=st.randoms(), repeats=st.integers(1, 3))
def test_changes_may_come_in_any_order_and_more_than_once(
    valkey: ValkeyServer, made: Any, shuffle: Any, repeats: int
):
    """The highest sequence number of each player wins, and projecting again changes nothing."""
    changes = [
        a_change(
            seq,
            a_standing(player, score, at_ms=seq, seq=seq),
            baselines=[
                StoredBaseline("b", player, seq, seq / 3, 0.1, seq),
                StoredBaseline("b", "", seq, 1.0, 0.0, seq),
            ],
        )
        for seq, (player, score) in enumerate(made, start=1)
    ]
    final = {change.player: change.standings[0] for change in changes}
    expected = {player: each.score for player, each in final.items() if each.score is not None}
    arriving = changes * repeats
    shuffle.shuffle(arriving)

    async def work(index: BoardIndex, client: Redis) -> Any:
        for change in arriving:
            await index.project(change)
        shown = {entry.player: entry.score for entry in (await index.page("alltime", 0, 100)).entries}
        learnt = await client.hgetall(keys.baselines("b"))
        before = await dump(client)
        for change in changes:
            await index.project(change)
        assert before == await dump(client)
        return shown, learnt

    shown, learnt = run_on(valkey, RANKING, work)
    assert expected == shown
    last = {change.player: change.baselines[0] for change in changes}
    assert {player: keys.baseline_value(each) for player, each in last.items()} == {
        player: value for player, value in learnt.items() if player != "*"
    }
    assert learnt["*"].startswith(f"{len(changes)} ")


async def dump(client: Redis) -> dict[str, Any]:
    """Everything but the settled set, whose times are those of the call."""
    found = {}
    for key in sorted([key async for key in client.scan_iter()]):
        kind = await client.type(key)
        if kind == "hash":
            found[key] = await client.hgetall(key)
        elif kind == "zset" and not key.endswith(":settled"):
            found[key] = await client.zrange(key, 0, -1, withscores=True)
        elif kind == "stream":
            found[key] = await client.xlen(key)
    return found


@pytest.mark.parametrize("order", SortOrder)
@pytest.mark.parametrize("score", [EXACT_LIMIT, -EXACT_LIMIT, EXACT_LIMIT - 1, 0, 10**15, 10**15 + 1, 10**9])
async def test_the_largest_scores_are_exact(client: Redis, order: SortOrder, score: int):
    """2^53-1 comes back as itself from pages, from around a player, and in the feed."""
    ranking = a_ranking(order=order)
    index = BoardIndex(client, ranking)
    await index.project(a_change(1, a_standing("ada", score, ranking=ranking)))
    assert [score] == [entry.score for entry in (await index.page("alltime", 0, 1)).entries]
    around = await index.around("alltime", "ada", 0)
    assert around is not None
    assert score == around.entries[0].score
    [(_, fields)] = await client.xrange(keys.changes("b"))
    assert score == ranking.score_at("alltime", int(fields["order"]))


async def test_a_player_whose_last_score_is_revoked_leaves_the_board(client: Redis):
    """Nothing that counts is no entry; an older change that comes late brings nobody back."""
    index = BoardIndex(client, RANKING)
    await index.project(a_change(1, a_standing("ada", 7)))
    await index.project(a_change(3, a_standing("ada", None, 0, 3)))
    await index.project(a_change(2, a_standing("ada", 9, 2, 2)))
    assert (0, ()) == ((page := await index.page("alltime", 0, 10)).total, page.entries)
    assert await index.around("alltime", "ada", 3) is None


async def test_windows_expire_and_alltime_does_not(client: Redis):
    """A dated window gets its end with its first entry; the all-time board stays."""
    index = BoardIndex(client, RANKING)
    daily = a_standing("ada", 7, window="daily:20301120", expires_at_ms=1_921_449_600_000)
    await index.project(a_change(1, a_standing("ada", 7), daily))
    assert 1_921_449_600_000 == await client.pexpiretime(keys.window("b", "daily:20301120"))
    assert 1_921_449_600_000 == await client.pexpiretime(keys.members("b", "daily:20301120"))
    assert -1 == await client.pexpiretime(keys.window("b", "alltime"))


async def test_a_standing_that_no_event_caused_is_shown_by_the_number_it_has(client: Redis):
    """A repair replaces what stands there by the same number, tells of it once, and gives way to any newer change."""
    index = BoardIndex(client, RANKING)
    wrong, right = a_standing("ada", 7, 1, 5), a_standing("ada", 9, 2, 5)
    await index.project(a_change(5, wrong))
    shown = []
    for standing in (right, right, a_standing("ada", 8, 1, 4), a_standing("ada", None, 0, 5)):
        is_shown = await index.show_again("ada", [standing])
        scores = [entry.score for entry in (await index.page("alltime", 0, 9)).entries]
        number = (await client.hget(keys.members("b", "alltime"), "ada")).split()[0]
        shown.append((is_shown, scores, number, await client.xlen(keys.changes("b"))))
    assert [(True, [9], "5", 2), (True, [9], "5", 2), (False, [9], "5", 2), (True, [], "5", 3)] == shown


async def test_ranks_that_a_board_does_not_keep_are_asked_for_in_vain(client: Redis):
    """They would be wrong for everybody: the dense ones are of groups, which it has none of."""
    index = BoardIndex(client, RANKING)
    await index.project(a_change(1, a_standing("ada", 7)))
    [entry] = (await index.page("alltime", 0, 1)).entries
    for asked in (
        lambda: index.page("alltime", 0, 1, RankKind.DENSE),
        lambda: index.around("alltime", "ada", 1, RankKind.DENSE),
        lambda: index.seek("alltime", Cut(entry.place), 1, RankKind.DENSE),
    ):
        with pytest.raises(ValueError, match="keeps no dense ranks"):
            await asked()


async def test_what_was_settled_is_known_for_an_hour_and_names_are_those_of_the_last_change(client: Redis):
    """A note of a submission that comes late finds it settled; who has no name of their own takes away nobody's."""
    index = BoardIndex(client, RANKING)
    seconds, _ = await client.time()
    hours = {"s8": seconds * 1000 - 3_700_000, "s9": seconds * 1000 - 3_000_000}
    await client.zadd(keys.settled("b"), hours)
    shown = []
    for seq, name in enumerate(("Ada", "Ada L.", ""), start=1):
        standing = replace(a_standing("ada", seq, seq, seq), name=name)
        await index.project(a_change(seq, standing))
        shown += [entry.name for entry in (await index.page("alltime", 0, 1)).entries]
    assert ["Ada", "Ada L.", "Ada L."] == shown
    assert {"s9", "s1", "s2", "s3"} == set(await client.zrange(keys.settled("b"), 0, -1))


async def test_around_is_cut_off_at_both_ends(client: Redis):
    """Neighbours are those there are: fewer at the top and at the bottom, and the player alone for radius 0."""
    index = BoardIndex(client, RANKING)
    for seq in range(1, 8):
        await index.project(a_change(seq, a_standing(f"p{seq}", 100 - seq, seq, seq)))
    for player, radius, ranks in (
        ("p1", 2, [1, 2, 3]),
        ("p4", 1, [3, 4, 5]),
        ("p7", 3, [4, 5, 6, 7]),
        ("p4", 0, [4]),
    ):
        page = await index.around("alltime", player, radius)
        assert page is not None
        assert (7, ranks) == (page.total, [entry.rank for entry in page.entries])


async def test_a_submission_is_pending_until_it_is_settled(client: Redis):
    """Settled wins over pending in whichever order they come; what was decided at once never is pending."""
    index = BoardIndex(client, RANKING)
    await client.zadd(keys.open_runs("b", "ada"), {"s1": 9e15, "s2": 9e15, "s3": 9e15})
    assert 1 == await index.close_runs(
        [CommittedRun("s1", "ada", 1), CommittedRun("s3", "ada", 2, is_pending=False)]
    )
    assert 0 == await index.close_runs([CommittedRun("s1", "ada", 1)])
    await index.project(a_change(1, a_standing("ada", 7)))
    await index.project(a_change(2, a_standing("ada", 8, 2, 2)))
    assert 0 == await index.close_runs([CommittedRun("s1", "ada", 1), CommittedRun("s2", "ada", 1)])
    assert [] == await client.zrange(keys.pending("b"), 0, -1)
    assert [] == await client.zrange(keys.open_runs("b", "ada"), 0, -1)


async def test_what_we_never_wrote_is_no_failure_of_ours(client: Redis):
    """Junk in a board makes it unavailable until the reconciler has taken it out, and breaks nothing else."""
    index = BoardIndex(client, RANKING)
    await index.project(a_change(1, a_standing("ada", 7)))
    await client.zadd(keys.window("b", "alltime"), {"junk": -100})
    with pytest.raises(IndexUnavailable):
        await index.page("alltime", 0, 10)
    await client.set(keys.names("b"), "of another type")
    with pytest.raises(IndexUnavailable):
        await index.around("alltime", "ada", 0)
