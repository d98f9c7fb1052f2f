"""What many ask of the index at the same moment: each has its own answer, and one board that fails stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex, CommittedRun
from gateway.index.board_indexes import Index
from gateway.index.connection import connect
from gateway.index.feed.consumer_group import GroupMarks
from gateway.shared_records import Change, StoredBaseline
from policies.choices import RankKind
from policies.errors import IndexNotWhole, IndexUnavailable
from tests.gateway.index.test_order_and_projection import a_change
from tests.support.policies import a_ranking
from tests.support.ports import unserved_port
from tests.support.standings import a_standing

RANKING = a_ranking(ranks=["unique", "sparse", "dense"])
TODAY = "daily:20301120"
END_MS = 1_921_449_600_000


async def filled(client: Redis) -> BoardIndex:
    """Seven players, of whom two and two are tied; three of them scored today."""
    index = BoardIndex(client, RANKING)
    for seq, score in enumerate((90, 80, 80, 70, 60, 60, 50), start=1):
        facts = {"seq": seq, "ranking": RANKING}
        standings = [a_standing(f"p{seq}", score, seq, **facts)]
        if seq > 4:
            standings.append(a_standing(f"p{seq}", score, seq, window=TODAY, expires_at_ms=END_MS, **facts))
        await index.project(a_change(seq, *standings))
    return index


async def test_neighbours_that_are_asked_for_together_are_each_ones_own(client: Redis):
    """By window, kind of rank, how many, and player; who stands nowhere has none."""
    index = await filled(client)
    asked = [
        ("alltime", "p3", 1, RankKind.UNIQUE),
        ("alltime", "p3", 0, RankKind.UNIQUE),
        ("alltime", "p3", 1, RankKind.SPARSE),
        ("alltime", "p6", 1, RankKind.DENSE),
        (TODAY, "p6", 1, RankKind.DENSE),
        (TODAY, "p3", 1, RankKind.UNIQUE),
        ("alltime", "p3", 1, RankKind.UNIQUE),
    ]
    pages = await asyncio.gather(*(index.around(*each) for each in asked))
    shown = [page and [(entry.player, entry.rank) for entry in page.entries] for page in pages]
    of_p3 = [("p2", 2), ("p3", 3), ("p4", 4)]
    assert [
        of_p3,
        [("p3", 3)],
        [("p2", 2), ("p3", 2), ("p4", 4)],
        [("p5", 4), ("p6", 4), ("p7", 5)],
        [("p5", 1), ("p6", 1), ("p7", 2)],
        None,
        of_p3,
    ] == shown
    assert [7, 7, 7, 7, 3, None, 7] == [page and page.total for page in pages]


async def test_a_page_that_begins_among_equals_has_the_rank_of_the_first_of_them(client: Redis):
    """In every kind of rank, though the others of the group are on the page before."""
    index = await filled(client)
    ranks = [[entry.rank for entry in (await index.page("alltime", 2, 4, kind)).entries] for kind in RankKind]
    due = {RankKind.UNIQUE: [3, 4, 5, 6], RankKind.SPARSE: [2, 4, 5, 5], RankKind.DENSE: [2, 3, 4, 4]}
    assert [due[kind] for kind in RankKind] == ranks


async def test_versions_that_are_asked_for_together_are_of_one_moment(client: Redis):
    """One name for the board, a number for each window; another name after any change, and never one of before."""
    index = await filled(client)
    names = set()
    for seq in (8, 9):
        before = await asyncio.gather(*(index.versions.of(each) for each in ("alltime", TODAY, "alltime")))
        assert [7 + seq - 8, 3, 7 + seq - 8] == [each.total for each in before]
        assert 1 == len({each.name for each in before})
        assert before[:1] == [await index.versions.of("alltime")]
        names.add(before[0].name)
        await index.project(a_change(seq, a_standing(f"p{seq}", seq, seq, seq, RANKING)))
    names.add((await index.versions.of("alltime")).name)
    await client.delete(keys.version("b"))
    names.add((await index.versions.of("alltime")).name)
    assert 4 == len(names)


def a_board(name: str) -> Any:
    return SimpleNamespace(name=name, ranking=a_ranking(name))


async def test_a_change_that_is_not_shown_keeps_no_other_from_it(client: Redis):
    """What is owed then is all that was to be shown: showing it twice does no more."""
    index = Index(client, lambda client, board: BoardIndex(client, board.ranking))
    owed: list[tuple[Any, Sequence[Change]]] = []
    await client.set(keys.baselines("b"), "of somebody else")
    baseline = StoredBaseline("b", "ada", 1, 2.0, 0.0, 1)
    board, changes = (
        a_board("b"),
        [replace(a_change(1), baselines=(baseline,)), a_change(2, a_standing("bea", 5, 2, 2))],
    )
    with pytest.raises(IndexUnavailable):
        await index.project(board, changes)
    index.on_unprojected = lambda *unprojected: owed.append(unprojected)
    with pytest.raises(IndexUnavailable):
        await index.project(board, changes)
    assert [(board, changes)] == owed
    assert 1 == await client.zcard(keys.window("b", "alltime"))


async def test_a_board_is_read_once_it_is_whole(client: Redis):
    """A part of it is not told as all of it, however its index came to be."""
    index = Index(client, lambda client, board: BoardIndex(client, board.ranking), limit=1)
    for board in (a_board("b"), a_board("c"), a_board("b")):
        if not await client.exists(keys.sentinel(board.name)):
            with pytest.raises(IndexNotWhole):
                await index.of(board).page("alltime", 0, 9)
        await client.set(keys.sentinel(board.name), "1")
        assert 0 == (await index.of(board).page("alltime", 0, 9)).total
    assert 1 == len(index.cache)


async def test_runs_that_end_are_pending_on_boards_that_were_let_go(client: Redis):
    """The end of a process waits for them all, whichever board's index it keeps."""
    index = Index(client, lambda client, board: BoardIndex(client, board.ranking), limit=1)
    for name in ("b", "c", "d"):
        index.close_runs(a_board(name), [CommittedRun(f"run-{name}", "ada", 1)])
    assert 1 == len(index.cache)
    await index.drained()
    pending = [await client.zrange(keys.pending(name), 0, -1) for name in ("b", "c", "d")]
    assert [["run-b"], ["run-c"], ["run-d"]] == pending


async def test_calls_that_redis_does_not_answer_are_one_fault_however_many_they_are():
    """Whoever makes them together hears what one alone would: there is no index."""
    with unserved_port() as port:
        nowhere = connect(f"redis://127.0.0.1:{port}/0", timeout_ms=100)
        for lanes in ([1], [1, 2, 3]):
            with pytest.raises(IndexUnavailable):
                await GroupMarks(nowhere, "heard").begin(lanes)
        await nowhere.aclose()
