"""Heads of boards with `exact_ranks`, call by call: what each leaves in the head, and how much it does at once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.windows.heads import Heads
from policies import model
from policies.ranking import Ranking
from tests.gateway.index.test_order_and_projection import a_change
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

KINDS = ["unique", "sparse", "dense"]


def ranking_of(exact: int) -> Ranking:
    return Ranking(a_ranking(ranks=KINDS).policy.model_copy(update={"exact_ranks": exact}))


@pytest.fixture(autouse=True)
def _no_ranks_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "RANKS_TO_LOSE", 0)


async def project(index: BoardIndex, seqs: Iterable[int]) -> None:
    """Players of these numbers, each with as many points."""
    for seq in seqs:
        standing = a_standing(f"p{seq}", seq, seq, seq, index.ranking)
        await index.project(a_change(seq, standing))


async def sizes(index: BoardIndex) -> tuple[int, int, int]:
    """Entries of the head, standings below it, and groups of the head."""
    head = await Heads(index).of("alltime")
    return head.entries, head.below, await index.client.zcard(keys.groups("b", "alltime"))


async def test_nobody_is_below_while_there_is_room(client: Redis):
    """Who comes last on a board that keeps them all is in its head, and read from it."""
    index = BoardIndex(client, ranking_of(5))
    await project(index, (5, 4, 3, 2, 1))
    page = await index.page("alltime", 0, 9)
    assert (5, [5, 4, 3, 2, 1]) == (page.total, [entry.score for entry in page.entries])
    assert (5, 0, 5) == await sizes(index)


async def test_a_head_with_room_loses_its_last_entry_to_nobody_ahead(client: Redis):
    """Only who comes to be the last may be behind others that are below: they go there too, and nobody else."""
    index = BoardIndex(client, ranking_of(3))
    await project(index, (9, 8, 7, 2, 1))
    await index.project(a_change(10, a_standing("p9", None, 0, 10, index.ranking)))
    sizes_then = [await sizes(index)]
    for player, score, seq in (("p8", 11, 11), ("p7", 1, 12)):
        await index.project(a_change(seq, a_standing(player, score, seq, seq, index.ranking)))
        sizes_then.append(await sizes(index))
    assert [(2, 2, 2), (2, 2, 2), (1, 3, 1)] == sizes_then


async def test_a_change_takes_so_many_out_of_a_head_and_no_more(client: Redis):
    """A board that is to keep fewer gets there change by change: none holds up the others for long."""
    await project(BoardIndex(client, ranking_of(100)), range(1, 101))
    fewer = BoardIndex(client, ranking_of(10))
    seen = []
    for seq in (101, 102):
        await project(fewer, [seq])
        seen.append(await sizes(fewer))
    assert [(37, 64, 37), (11, 91, 11)] == seen  # a tenth more than it is to keep
    page = await fewer.page("alltime", 0, 99)
    assert (102, list(range(102, 91, -1))) == (page.total, [entry.score for entry in page.entries])


async def test_a_steward_takes_out_what_it_was_asked_to_and_never_part_of_the_head(client: Redis):
    """Slice by slice, with their groups; pages that were read before are let go of, and only then."""
    await project(BoardIndex(client, ranking_of(100)), range(1, 21))
    assert 0 == await Heads(BoardIndex(client, ranking_of(100))).trim("alltime", 4)
    fewer = BoardIndex(client, ranking_of(10))
    told = []
    for count in (4, 100, 100):
        await client.set(keys.version("b"), "read")
        taken = await Heads(fewer).trim("alltime", count)
        told.append((taken, *await sizes(fewer), await client.exists(keys.version("b"))))
    assert [(4, 16, 4, 16, 0), (5, 11, 9, 11, 0), (0, 11, 9, 11, 1)] == told


async def test_a_count_of_what_is_below_that_is_older_than_the_head_is_not_taken(client: Redis):
    """Who came below, or left from there, after the ledger was counted is not in the count; the next look is another."""
    index = BoardIndex(client, ranking_of(3))
    heads = Heads(index)
    await project(index, (9, 8, 7, 1))
    seen = await heads.of("alltime")
    await project(index, [2])  # it goes below, and the head is as large as before
    assert not await heads.recount("alltime", seen, 1)
    seen = await heads.of("alltime")
    assert (3, 2) == (seen.entries, seen.below)
    await client.set(keys.version("b"), "read")
    assert await heads.recount("alltime", seen, 5)
    assert (8, 0) == ((await heads.of("alltime")).total, await client.exists(keys.version("b")))

    seen = await heads.of("alltime")
    await index.project(a_change(10, a_standing("p9", None, 0, 10, index.ranking)))
    assert not await heads.recount("alltime", seen, 2)
    assert (2, 5) == ((await heads.of("alltime")).entries, (await heads.of("alltime")).below)


async def test_who_ties_by_the_worst_that_there_is_stands_above_what_is_below(client: Redis):
    """Such a member begins with a minus, as the mark of those below does; a move of its player changes no count of them."""
    ties = {"tie_break": "fields", "tie_fields": [{"stat": "kills"}]}
    index = BoardIndex(client, Ranking(a_ranking(**ties).policy.model_copy(update={"exact_ranks": 2})))
    best = {"kills": 2**53 - 1}
    for seq, player, score in ((1, "ada", 9), (2, "bob", 8), (3, "cyd", 7), (4, "ada", 10)):
        standing = a_standing(player, score, seq, seq, index.ranking, best)
        assert standing.member.startswith("-")
        await index.project(a_change(seq, standing))
    head = await Heads(index).of("alltime")
    assert (2, 1, 3) == (head.entries, head.below, (await index.page("alltime", 0, 9)).total)


async def test_what_was_read_before_a_rebuild_is_not_taken_for_what_is_there_after_it(client: Redis):
    """A window that is made anew has a version that it never had, though as much happened to it as before."""
    index, versions = BoardIndex(client, ranking_of(3)), []
    for _ in range(2):
        await project(index, (9, 8, 7, 1))
        versions.append(int((await Heads(index).of("alltime")).version))
        await client.delete(*await client.keys("lb:{249}:b:alltime*"))
    assert versions[0] < versions[1]
