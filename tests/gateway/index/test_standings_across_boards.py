"""One player's standings on many boards in one round trip: of boards that are whole, in ranges or not, and never of an error."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import count
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from gateway.index import across_boards, keys
from gateway.index.across_boards import StandingsReader
from gateway.index.board_index import BoardIndex
from gateway.index.connection import connect
from gateway.shared_records import RankRequest
from policies.choices import RankKind
from policies.errors import IndexUnavailable
from policies.ties import COMPOSITE_BEGIN_MS
from tests.support.cluster import ValkeyCluster
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

FIELDS: Any = {"tie_fields": [{"stat": "kills"}], "tie_break": "fields"}
COMPOSITE: Any = {
    "tie_break": "composite",
    "tie_resolution_ms": 1_000,
    "score": {"minimum": 0, "maximum": 10},
}
LAYOUTS: dict[str, Any] = {
    "plain": {},
    "ranged": {"ranges": [2, 5]},
    "wide": {"ranges": [1, 2, 3]},
    "tied": FIELDS,
    "composite": COMPOSITE,
    "composite-ranged": COMPOSITE | {"ranges": [2, 5]},
}
PLACES: Final = {
    RankKind.UNIQUE: {"p3": 3, "p4": 4},
    RankKind.SPARSE: {"p3": 2, "p4": 4},
    RankKind.DENSE: {"p3": 2, "p4": 3},
}
"""Of the later of two equal scores, and of the one behind them."""


async def test_a_player_stands_as_on_each_board(client: Redis):
    """In ranges of any number, with ties of each kind, two times in one score packed or not, before Redis knows the script and after; nothing of a board that is not whole."""
    rankings = {name: a_ranking(board=name, ranks=list(RankKind), **how) for name, how in LAYOUTS.items()}
    for name, ranking in rankings.items():
        index = BoardIndex(client, ranking)
        for seq, score in enumerate((9, 7, 7, 3, 1), start=1):
            standing = a_standing(f"p{seq}", score, COMPOSITE_BEGIN_MS + seq * 1_000, seq, ranking)
            await index.restore(f"p{seq}", [standing], [])
        await client.set(keys.sentinel(name), "1")
    await client.delete(keys.sentinel("wide"))
    whole = rankings.keys() - {"wide"}
    for kind, ranks in PLACES.items():
        requests = [RankRequest(ranking, "alltime", kind) for ranking in rankings.values()]
        for seq, score in ((3, 7), (4, 3)):
            player, at_ms = f"p{seq}", COMPOSITE_BEGIN_MS + seq * 1_000
            read = await StandingsReader(client).standings(player, requests)
            assert (dict.fromkeys(whole, (5, ranks[player], score, at_ms, f"s{seq}")), []) == read
    assert (dict.fromkeys(whole), []) == await StandingsReader(client).standings("eve", requests)
    assert ({}, []) == await StandingsReader(client).standings("p4", [])


async def play(client: Redis, *boards: str) -> list[RankRequest]:
    """One standing of ada on each board, and the requests for them."""
    rankings = [a_ranking(board=name) for name in boards]
    for ranking in rankings:
        standing = a_standing("ada", 5, ranking=ranking)
        await BoardIndex(client, ranking).restore("ada", [standing], [])
        await client.set(keys.sentinel(ranking.policy.board), "1")
    return [RankRequest(ranking, "alltime", RankKind.UNIQUE) for ranking in rankings]


@pytest.mark.parametrize("forged", [b"1 junk:ada s4", b"1 \xff:ada s4"])
async def test_what_nobody_of_ours_wrote_leaves_its_board_out(client: Redis, forged: bytes):
    """A member that tells no time, or is no text: the boards of the same call are answered."""
    requests = await play(client, "bad", "good")
    await client.zadd(keys.window("bad", "alltime"), {forged.split()[1]: 5})
    await client.hset(keys.members("bad", "alltime"), "ada", forged)
    read = await StandingsReader(client).standings("ada", requests)
    assert {"good": (1, 1, 5, 1, "s1")} == read.by_board
    assert ["the index holds a member that Scoregate never wrote"] == list(map(str, read.faults))


async def test_a_call_that_fails_leaves_its_boards_out(client: Redis, monkeypatch: pytest.MonkeyPatch):
    """A key of another type fails the script: the other calls are answered, and without one the read fails."""
    monkeypatch.setattr(across_boards, "BOARDS_PER_CALL", 1)
    requests = await play(client, "bad", "good")
    await client.delete(keys.members("bad", "alltime"))
    await client.set(keys.members("bad", "alltime"), "x")
    read = await StandingsReader(client).standings("ada", requests)
    assert ({"good": (1, 1, 5, 1, "s1")}, 1) == (read.by_board, len(read.faults))
    assert "WRONGTYPE" in str(read.faults[0])
    with pytest.raises(IndexUnavailable, match="WRONGTYPE"):
        await StandingsReader(client).standings("ada", requests[:1])


@pytest.mark.parametrize("fault", ["migration", "silence"])
async def test_a_cluster_answers_for_the_slots_that_it_can_read(cluster: ValkeyCluster, fault: str):
    """While a slot is between two nodes, or its node is silent, the other boards are read."""
    client = connect(cluster.url, timeout_ms=500)
    try:
        node = cluster.master_of("b")
        names = ["b", next(name for n in count() if cluster.master_of(name := f"b{n}") is not node)]
        requests = await play(client, *names)
        assert names == [*(await StandingsReader(client).standings("ada", requests)).by_board]
        with cluster.moving("b") if fault == "migration" else nullcontext() as move:
            if move:
                move.begin()
                move.take(keys.members("b", "alltime"))
            else:
                node.silence()
            read = await StandingsReader(client).standings("ada", requests)
            assert ({names[1]: (1, 1, 5, 1, "s1")}, 1) == (read.by_board, len(read.faults))
            if move:
                move.take()
                move.end()
                read = await StandingsReader(client).standings("ada", requests)
                assert ({*names}, []) == (read.by_board.keys(), read.faults), "the slot has moved"
    finally:
        cluster.mend()
        await client.aclose()
