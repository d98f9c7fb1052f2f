"""Versions that changes name, and the moves between them: what they tell of a page, and how much is remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys, moves
from gateway.index.board_index import BoardIndex
from gateway.index.moves import END, Moves, MovesBudget, Shift
from gateway.runtime.lanes import lane_of
from policies.ranking import BoardPlace
from tests.gateway.index.test_order_and_projection import a_change
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

LOW, HIGH = BoardPlace(100, "m"), BoardPlace(200, "m")


def a_line(was: str, now: str, player: str = "ada", is_renamed: str = "0", window: str = "alltime") -> str:
    return f"{window} {player} {is_renamed} {was} {now}"


def told(*lines: str, moves: Moves | None = None) -> Moves:
    """Moves with a version for each line, `v1` to `v<count>` after `v0`."""
    known = moves or Moves()
    known.note("v0", None)
    steps = [part for number, line in enumerate(lines, start=1) for part in (line, f"v{number}")]
    known.note(f"v{len(lines)}", steps[::-1])
    return known


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ("50 a", "60 b", Shift(0, 0)),
        ("300 a", "250 b", Shift(0, 0)),
        ("300 a", "99 b", Shift(1, 0)),
        ("50 a", "201 b", Shift(-1, 0)),
        ("- -", "99 b", Shift(1, 1)),
        ("- -", "201 b", Shift(0, 1)),
        ("99 a", "- -", Shift(-1, -1)),
        ("100 l", "200 n", Shift(-1, 0)),
        ("100 m", "300 b", None),
        ("300 a", "200 m", None),
        ("150 a", "- -", None),
        ("- -", "150 a", None),
    ],
)
def test_a_move_shifts_what_is_between_its_two_places(was: str, now: str, expected: Shift | None):
    """One that stays on one side changes nothing, and one that joins or leaves the page has it read anew."""
    assert expected == told(a_line(was, now)).shift("alltime", "v0", "v1", LOW, HIGH)


def test_only_the_moves_of_the_window_between_two_versions_count():
    """Those before and behind, and those of other windows, do not; no version comes after a later one."""
    known = told(
        a_line("300 a", "50 a"),
        a_line("300 b", "50 b") + "\n" + a_line("300 b", "50 b", window="daily:20301120"),
        a_line("300 c", "50 c"),
    )
    assert Shift(1, 0) == known.shift("alltime", "v1", "v2", LOW, HIGH)
    assert Shift(3, 0) == known.shift("alltime", "v0", "v3", LOW, HIGH)
    assert Shift(1, 0) == known.shift("daily:20301120", "v0", "v3", LOW, HIGH)
    assert known.shift("alltime", "v2", "v1", LOW, HIGH) is None


def test_an_unknown_version_ends_what_is_known():
    """Whatever happened to the board in between, no page is carried over it."""
    known = told(a_line("300 a", "50 a"))
    known.note("other", None)
    assert known.shift("alltime", "v0", "v1", LOW, HIGH) is None
    assert known.shift("alltime", "v1", "other", LOW, HIGH) is None


@pytest.mark.parametrize("forged", ["", "alltime ada 0 x a 1 b", "alltime ada 0 1 a 2", "1 2 3 4 5 6 7 8"])
def test_moves_that_scoregate_never_wrote_are_none(forged: str):
    """A forged list ends what is known, and raises nothing."""
    known = told(a_line("300 a", "50 a"), forged)
    assert ("v2", 0) == (known.newest, known.size)
    assert known.shift("alltime", "v0", "v2", LOW, HIGH) is None


def test_a_board_remembers_its_latest_moves(monkeypatch: pytest.MonkeyPatch):
    """As many versions as it may, with the moves and the renames between them."""
    monkeypatch.setattr(moves, "MOST_STEPS", 3)
    known = told(*(a_line("300 a", "50 a", f"p{number}", "1") for number in range(9)))
    assert 2 == known.size
    assert [None, None, Shift(2, 0), Shift(1, 0)] == [
        known.shift("alltime", since, "v9", LOW, HIGH) for since in ("v0", "v6", "v7", "v8")
    ]
    assert ["p7", "p8"] == known.renamed("v7", "v9")


def test_all_boards_together_remember_no_more_than_they_may():
    """The board that moved longest ago forgets first."""
    budget = MovesBudget(limit=5)
    first, second, third = (Moves(budget) for _ in range(3))
    told(*[a_line("300 a", "50 a")] * 2, moves=first)
    told(*[a_line("300 a", "50 a")] * 2, moves=second)
    first.note("v3", ["v3", a_line("300 a", "50 a")])
    assert (3, 2) == (first.size, second.size)
    told(*[a_line("300 a", "50 a")] * 2, moves=third)
    assert [3, 0, 2] == [each.size for each in (first, second, third)]
    assert second.shift("alltime", "v0", "v2", LOW, HIGH) is None


async def versions_of(index: BoardIndex) -> tuple[str, int]:
    return await index.versions.of("alltime")


async def test_a_change_is_told_to_who_read_before_it(client: Redis):
    """Its old and its new place, a place that it left, and another name, as one window after the other."""
    index = BoardIndex(client, a_ranking())
    await index.project(a_change(1, a_standing("ada", 50, 1, 1)))
    before, _ = await versions_of(index)
    await index.project(a_change(2, a_standing("ada", 70, 2, 2)))
    await index.project(a_change(3, a_standing("bob", 60, 3, 3)))
    await index.project(a_change(4, a_standing("ada", None, 4, 4)))
    after, total = await versions_of(index)
    known = index.versions.moves
    assert (1, 3) == (total, known.size)
    assert Shift(1, 0) == known.shift("alltime", before, after, BoardPlace(-59, ""), BoardPlace(-51, ""))
    assert Shift(0, 0) == known.shift("alltime", before, after, BoardPlace(-49, ""), END)._replace(total=0)
    assert ["bob"] == known.renamed(before, after), "nobody had heard of bob"


async def test_a_change_without_readers_leaves_nothing(client: Redis):
    """Who reads first gives the version its name; before that no move is kept, and later each for a minute."""
    index = BoardIndex(client, a_ranking())
    await index.project(a_change(1, a_standing("ada", 50, 1, 1)))
    assert 0 == await client.exists(keys.version("b"), keys.moves("b"))
    await versions_of(index)
    await index.project(a_change(2, a_standing("ada", 60, 2, 2)))
    await index.project(a_change(2, a_standing("ada", 60, 2, 2)))
    assert 3 == await client.llen(keys.moves("b"))
    assert 0 < await client.pttl(keys.moves("b")) <= 60_000


async def test_moves_are_told_up_to_a_bound(client: Redis):
    """Who read before the last 256 changes reads anew."""
    index, other = BoardIndex(client, a_ranking()), BoardIndex(client, a_ranking())
    for seq in range(1, 300):
        await index.project(a_change(seq, a_standing("ada", seq, seq, seq)))
        if seq in (10, 100):
            await versions_of(index if seq == 10 else other)
    assert 513 == await client.llen(keys.moves("b"))
    await versions_of(index)
    await versions_of(other)
    assert [0, 199] == [each.versions.moves.size for each in (index, other)]


async def test_the_changes_of_a_call_are_one_step(client: Redis):
    """A version has the moves of several players then, of one player several, and the renames of all."""
    index = BoardIndex(client, a_ranking())
    before, _ = await versions_of(index)
    scores = [("ada", 50), ("bob", 60), ("ada", 70)]
    made = [a_change(seq, a_standing(*each, seq, seq)) for seq, each in enumerate(scores, start=1)]
    await index.project_all(made)
    after, total = await versions_of(index)
    known = index.versions.moves
    assert (2, 3, 3) == (total, await client.llen(keys.moves("b")), known.size)
    assert Shift(2, 2) == known.shift("alltime", before, after, BoardPlace(-49, ""), END)
    assert ["ada", "bob"] == known.renamed(before, after)


async def test_the_moves_of_a_list_are_bounded_though_versions_have_many(client: Redis):
    """As many fewer versions are told of, the more moves each has."""
    index = BoardIndex(client, a_ranking())
    await versions_of(index)
    windows = ["alltime", *(f"daily:2099120{day}" for day in range(1, 8))]
    for first in range(1, 321, 16):
        places = [(f"p{seq}", seq, seq, seq) for seq in range(first, first + 16)]
        made = [[replace(a_standing(*place), window=window) for window in windows] for place in places]
        await index.project_all([a_change(each[0].seq, *each) for each in made])
    told = await client.lrange(keys.moves("b"), 0, -1)
    assert 8 == len(told) // 2
    assert 1_024 == sum(len(moves.split("\n")) for moves in told[1::2])


def test_a_board_remembers_so_many_moves(monkeypatch: pytest.MonkeyPatch):
    """Those before are forgotten with their versions, whatever came with one."""
    monkeypatch.setattr(moves, "MOST_OF_BOARD", 5)
    several = "\n".join([a_line("300 a", "50 a")] * 2)
    known = told(several, several, several)
    assert (4, None, Shift(4, 0)) == (
        known.size,
        known.shift("alltime", "v0", "v3", LOW, HIGH),
        known.shift("alltime", "v1", "v3", LOW, HIGH),
    )
    told(several, "\n".join([several] * 4), moves=known)
    assert (0, "v2") == (known.size, known.newest)


async def test_versions_of_different_histories_have_different_names(client: Redis):
    """A failover may lose the newest change: what another names after it then is not what was read under the lost one."""
    index = BoardIndex(client, a_ranking())
    await versions_of(index)
    names = []
    kept = {key: await client.dump(key) for key in (keys.version("b"),)}
    for submission in ("s1", "s2", "s1"):
        await client.flushall()
        await client.restore(keys.version("b"), 0, kept[keys.version("b")])
        await index.project(a_change(1, a_standing("ada", 50, 1, 1, submission_id=submission)))
        names.append((await versions_of(index))[0])
    assert names[0] == names[2] != names[1]


async def test_a_repair_is_no_move(client: Redis):
    """What deletes the version is not in the list, so nothing is carried over it though changes came before and after."""
    index = BoardIndex(client, a_ranking())
    before, _ = await versions_of(index)
    await index.project(a_change(1, a_standing("ada", 50, 1, 1)))
    await client.delete(keys.version("b"))
    await versions_of(index)
    await index.project(a_change(2, a_standing("ada", 60, 2, 2)))
    after, _ = await versions_of(index)
    assert 1 == index.versions.moves.size
    assert index.versions.moves.shift("alltime", before, after, LOW, HIGH) is None


async def test_a_board_that_keeps_a_head_has_another_version_after_each_change(client: Redis):
    """What leaves the head at its end moves too, and nobody tells of that."""
    index = BoardIndex(client, a_ranking(exact_ranks=10))
    names: list[Any] = []
    for seq in range(1, 4):
        names.append((await versions_of(index))[0])
        await index.project(a_change(seq, a_standing(f"p{seq}", seq, seq, seq, index.ranking)))
    assert 3 == len(set(names))
    assert (0, 0) == (index.versions.moves.size, await client.exists(keys.moves("b")))


def test_the_list_is_in_the_slot_of_its_board():
    """On a cluster a script may touch both."""
    assert f"lb:{{{lane_of('b')}}}:b:moves" == keys.moves("b")
