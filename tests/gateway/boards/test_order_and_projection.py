"""The index against plain SQL: the same order, exact numbers, and one result whatever way the changes come."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.boards import keys
from gateway.boards.connection import connect
from gateway.boards.index import BoardIndex, Pend
from gateway.records import Change, Standing, StoredBaseline
from policies.errors import IndexUnavailable
from policies.model import Order
from policies.vocabulary import State
from tests.support.policies import EXACT_LIMIT
from tests.support.valkey import ValkeyServer

REAL = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FOREVER = 2**53 - 1

near_ties = st.tuples(
    st.one_of(
        st.integers(0, 3), st.sampled_from([10**9, 10**15, EXACT_LIMIT, EXACT_LIMIT - 1, -EXACT_LIMIT, -1])
    ),
    st.sampled_from([0, 1, 1_763_640_000_000, 1_763_640_000_001, 2**48 - 1]),
)


def a_standing(player: str, score: int | None, at_ms: int = 1, seq: int = 1, **other: Any) -> Standing:
    facts = {"achieved_seq": seq, "submission_id": f"s{seq}", "expires_at_ms": FOREVER, "seq": seq} | other
    return Standing("b", facts.pop("window", "alltime"), player, player.title(), score, at_ms, **facts)


def a_change(seq: int, *standings: Standing, baselines: Sequence[StoredBaseline] = ()) -> Change:
    player = standings[0].player if standings else "ada"
    return Change(seq, f"s{seq}", "b", player, State.PROMOTED, standings, tuple(baselines))


def by_sql(rows: Sequence[tuple[str, int, int, int]], order: Order) -> list[str]:
    """The players in the order that SQL gives."""
    direction = "ASC" if order is Order.ASCENDING else "DESC"
    with sqlite3.connect(":memory:") as oracle:
        oracle.execute("CREATE TABLE standings (player, score INTEGER, achieved_at_ms INTEGER, seq INTEGER)")
        oracle.executemany("INSERT INTO standings VALUES (?, ?, ?, ?)", rows)
        ordered = oracle.execute(
            f"SELECT player FROM standings ORDER BY score {direction}, achieved_at_ms, seq"
        )
        return [player for (player,) in ordered]


def run_on(valkey: ValkeyServer, order: Order, work: Any) -> Any:
    """The result of `work(index, client)` on an emptied Redis."""

    async def play() -> Any:
        client = connect(valkey.url, timeout_ms=5_000)
        await client.flushall()
        try:
            return await work(BoardIndex(client, "b", order), client)
        finally:
            await client.aclose()

    return asyncio.run(play())


@REAL
@given(
    given_rows=st.lists(near_ties, min_size=1, max_size=25),
    order=st.sampled_from(Order),
    shuffle=st.randoms(),
)
def test_ranks_are_those_of_sql_to_the_last_tie(
    valkey: ValkeyServer, given_rows: Any, order: Order, shuffle: Any
):
    """Index order is ORDER BY score, achieved_at_ms, seq, exactly, for any standings and in any order of arrival."""
    rows = [(f"p{at}", score, at_ms, at + 1) for at, (score, at_ms) in enumerate(given_rows)]
    arriving = rows[:]
    shuffle.shuffle(arriving)

    async def work(index: BoardIndex, _client: Redis) -> list[tuple[str, int, int]]:
        for player, score, at_ms, seq in arriving:
            await index.project(a_change(seq, a_standing(player, score, at_ms, seq)))
        page = await index.page("alltime", 0, 100)
        assert list(range(1, len(rows) + 1)) == [entry.rank for entry in page.entries]
        return [(entry.player, entry.score, entry.achieved_at_ms) for entry in page.entries]

    shown = run_on(valkey, order, work)
    facts = {player: (player, score, at_ms) for player, score, at_ms, _ in rows}
    assert [facts[player] for player in by_sql(rows, order)] == shown


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

    shown, learnt = run_on(valkey, Order.DESCENDING, work)
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


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("score", [EXACT_LIMIT, -EXACT_LIMIT, EXACT_LIMIT - 1, 0, 10**15, 10**15 + 1, 10**9])
async def test_the_largest_scores_are_exact(client: Redis, order: Order, score: int):
    """2^53-1 comes back as itself from pages, from around a player, and in the feed."""
    index = BoardIndex(client, "b", order)
    await index.project(a_change(1, a_standing("ada", score)))
    assert [score] == [entry.score for entry in (await index.page("alltime", 0, 1)).entries]
    around = await index.around("alltime", "ada", 0)
    assert around is not None
    assert score == around.entries[0].score
    [(_, fields)] = await client.xrange(keys.changes("b"))
    assert score == keys.order_value(int(fields["order"]), order)


async def test_a_player_whose_last_score_is_revoked_leaves_the_board(client: Redis):
    """Nothing that counts is no entry; an older change that comes late brings nobody back."""
    index = BoardIndex(client, "b", Order.DESCENDING)
    await index.project(a_change(1, a_standing("ada", 7)))
    await index.project(a_change(3, a_standing("ada", None, 0, 3)))
    await index.project(a_change(2, a_standing("ada", 9, 2, 2)))
    assert (0, ()) == ((page := await index.page("alltime", 0, 10)).total, page.entries)
    assert await index.around("alltime", "ada", 3) is None


async def test_windows_expire_and_alltime_does_not(client: Redis):
    """A dated window gets its end with its first entry; the all-time board stays."""
    index = BoardIndex(client, "b", Order.DESCENDING)
    daily = a_standing("ada", 7, window="daily:20301120", expires_at_ms=1_921_449_600_000)
    await index.project(a_change(1, a_standing("ada", 7), daily))
    assert 1_921_449_600_000 == await client.pexpiretime(keys.window("b", "daily:20301120"))
    assert 1_921_449_600_000 == await client.pexpiretime(keys.members("b", "daily:20301120"))
    assert -1 == await client.pexpiretime(keys.window("b", "alltime"))


async def test_around_is_cut_off_at_both_ends(client: Redis):
    """Neighbours are those there are: fewer at the top and at the bottom, and the player alone for radius 0."""
    index = BoardIndex(client, "b", Order.DESCENDING)
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
    index = BoardIndex(client, "b", Order.DESCENDING)
    await client.zadd(keys.open_runs("b", "ada"), {"s1": 9e15, "s2": 9e15, "s3": 9e15})
    assert 1 == await index.pend_all([Pend("s1", "ada", 1), Pend("s3", "ada", 2, is_pending=False)])
    assert 0 == await index.pend_all([Pend("s1", "ada", 1)])
    await index.project(a_change(1, a_standing("ada", 7)))
    await index.project(a_change(2, a_standing("ada", 8, 2, 2)))
    assert 0 == await index.pend_all([Pend("s1", "ada", 1), Pend("s2", "ada", 1)])
    assert [] == await client.zrange(keys.pending("b"), 0, -1)
    assert [] == await client.zrange(keys.open_runs("b", "ada"), 0, -1)


async def test_what_we_never_wrote_is_no_failure_of_ours(client: Redis):
    """Junk in a board makes it unavailable until the reconciler has taken it out, and breaks nothing else."""
    index = BoardIndex(client, "b", Order.DESCENDING)
    await index.project(a_change(1, a_standing("ada", 7)))
    await client.zadd(keys.window("b", "alltime"), {"junk": -100})
    with pytest.raises(IndexUnavailable):
        await index.page("alltime", 0, 10)
    await client.set(keys.names("b"), "of another type")
    with pytest.raises(IndexUnavailable):
        await index.around("alltime", "ada", 0)
