"""One player's standings on many boards in one round trip: of boards that are whole, in ranges or not, and never of an error."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.across_boards import StandingsReader
from gateway.index.board_index import BoardIndex
from gateway.shared_records import RankRequest
from policies.choices import RankKind
from policies.errors import IndexUnavailable
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

FIELDS: Any = {"tie_fields": [{"stat": "kills"}], "tie_break": "fields"}
LAYOUTS: dict[str, Any] = {
    "plain": {},
    "ranged": {"ranges": [2, 5]},
    "wide": {"ranges": [1, 2, 3]},
    "tied": FIELDS,
}


async def test_a_player_stands_as_on_each_board(client: Redis):
    """In ranges of any number, with ties of each kind, before Redis knows the script and after; nothing of a board that is not whole."""
    rankings = {name: a_ranking(board=name, ranks=list(RankKind), **how) for name, how in LAYOUTS.items()}
    for name, ranking in rankings.items():
        index = BoardIndex(client, ranking)
        for seq, score in enumerate((9, 7, 7, 3, 1), start=1):
            await index.restore(f"p{seq}", [a_standing(f"p{seq}", score, seq, seq, ranking)], [])
        await client.set(keys.sentinel(name), "1")
    await client.delete(keys.sentinel("wide"))
    for kind, rank in ((RankKind.UNIQUE, 4), (RankKind.SPARSE, 4), (RankKind.DENSE, 3)):
        requests = [RankRequest(ranking, "alltime", kind) for ranking in rankings.values()]
        found = await StandingsReader(client).standings("p4", requests)
        assert dict.fromkeys(("plain", "ranged", "tied"), (5, rank, 3, 4, "s4")) == found
    assert dict.fromkeys(("plain", "ranged", "tied")) == await StandingsReader(client).standings(
        "eve", requests
    )
    assert {} == await StandingsReader(client).standings("p4", [])


@pytest.mark.parametrize("forged", ["1 junk:p4 s4", None])
async def test_what_nobody_of_ours_wrote_is_an_index_that_cannot_be_read(client: Redis, forged: str | None):
    """A member that tells no time, or a key of another type: no board of the page is answered."""
    ranking = a_ranking(board="b")
    await client.set(keys.sentinel("b"), "1")
    if forged:
        await client.zadd(keys.window("b", "alltime"), {"junk:p4": 5})
        await client.hset(keys.members("b", "alltime"), "p4", forged)
    else:
        await client.set(keys.members("b", "alltime"), "x")
    with pytest.raises(IndexUnavailable):
        await StandingsReader(client).standings("p4", [RankRequest(ranking, "alltime", RankKind.UNIQUE)])
