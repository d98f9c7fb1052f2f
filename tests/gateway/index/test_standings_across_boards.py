"""One player's standings on many boards in one round trip: of boards that are whole, in ranges or not, and never of an error."""

from __future__ import annotations

from typing import Any, Final

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.across_boards import StandingsReader
from gateway.index.board_index import BoardIndex
from gateway.shared_records import RankRequest
from policies.choices import RankKind
from policies.errors import IndexUnavailable
from policies.ties import COMPOSITE_BEGIN_MS
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
            found = await StandingsReader(client).standings(player, requests)
            assert dict.fromkeys(whole, (5, ranks[player], score, at_ms, f"s{seq}")) == found
    assert dict.fromkeys(whole) == await StandingsReader(client).standings("eve", requests)
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
