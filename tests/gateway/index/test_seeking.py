"""Going through a board by places while it moves: nothing twice and nothing left out of what stays where it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.index.board_index import BoardIndex, Cut, Entry, Page
from gateway.shared_records import Change
from policies.choices import RankKind
from policies.ranking import BoardPlace
from policies.vocabulary import State
from tests.gateway.index.test_order_and_projection import TIE_BREAKS, run_on
from tests.support.policies import a_ranking
from tests.support.standings import a_standing
from tests.support.valkey import ValkeyServer

REAL = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLAYERS = ["a", "B", "_", "c-", "D1", "e", "F", "g", "0", "9z"]
BESIDE = 2**40


class Move(NamedTuple):
    """A player's new score, None for none; the player None is whoever was shown last."""

    player: str | None
    score: int | None


moves = st.builds(
    Move, st.one_of(st.none(), st.sampled_from(PLAYERS)), st.one_of(st.none(), st.integers(0, 3))
)
boards = st.fixed_dictionaries({player: st.integers(0, 3) for player in PLAYERS})
Walk = Callable[[BoardIndex, int, Callable[[list[Entry]], Awaitable[None]]], Awaitable[list[Entry]]]


async def forward(index: BoardIndex, count: int, between: Any) -> list[Entry]:
    """Every entry that is shown on the way down."""
    page = await index.page("alltime", 0, count)
    shown = list(page.entries)
    while page.entries:
        await between(shown)
        page = await index.seek("alltime", Cut(page.entries[-1].place), count)
        await ranks_are_those_of_now(index, page)
        shown += page.entries
    return shown


async def backward(index: BoardIndex, count: int, between: Any) -> list[Entry]:
    """Every entry that is shown on the way up, from behind the last place there is."""
    page = await index.seek("alltime", Cut(BoardPlace(2**53, "~"), is_behind=False), count)
    shown = list(reversed(page.entries))
    while page.entries:
        await between(shown)
        page = await index.seek("alltime", Cut(page.entries[0].place, is_behind=False), count)
        await ranks_are_those_of_now(index, page)
        shown += reversed(page.entries)
    return shown


async def ranks_are_those_of_now(index: BoardIndex, page: Page) -> None:
    whole = await index.page("alltime", 0, 100)
    assert len(whole.entries) == whole.total == page.total
    assert whole.entries[page.ahead : page.ahead + len(page.entries)] == page.entries


@pytest.mark.parametrize("walk", [forward, backward])
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@REAL
@given(board=boards, count=st.integers(1, 4), between=st.lists(st.lists(moves, max_size=3), max_size=12))
def test_what_does_not_move_is_seen_once(
    valkey: ValkeyServer, tie_break: str, walk: Walk, board: Any, count: int, between: Any
):
    """With writes, ties and removals between the pages, whoever stayed is on exactly one, in the order of the board."""
    ranking = a_ranking(tie_break=tie_break, **TIE_BREAKS[tie_break])

    async def work(index: BoardIndex, _client: Any) -> None:
        seqs = iter(range(1, 1000))
        moved: set[str] = set()

        async def put(player: str, score: int | None) -> None:
            seq = next(seqs)
            standing = a_standing(
                player, score, BESIDE + seq // 4, seq, ranking, {"kills": 1, "deaths": seq % 2}
            )
            await index.project(Change(seq, f"s{seq}", "b", player, State.PROMOTED, (standing,)))

        async def move(shown: list[Entry]) -> None:
            for player, score in between.pop() if between else ():
                name = player or shown[-1].player
                moved.add(name)
                await put(name, score)

        for player, score in board.items():
            await put(player, score)
        before = [entry.player for entry in (await index.page("alltime", 0, 100)).entries]
        seen = [entry.player for entry in await walk(index, count, move)]
        expected = before if walk is forward else before[::-1]
        assert [each for each in expected if each not in moved] == [
            each for each in seen if each not in moved
        ]

    run_on(valkey, ranking, work)


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    ("is_behind", "is_included", "present", "absent"),
    [
        (True, False, "de", "de"),
        (True, True, "cd", "de"),
        (False, False, "ab", "ab"),
        (False, True, "bc", "ab"),
    ],
)
def test_a_cut_takes_the_entry_at_its_place_or_leaves_it(
    valkey: ValkeyServer, is_there: bool, is_behind: bool, is_included: bool, present: str, absent: str
):
    """Behind and ahead of a place, with and without who stands there, whether or not anybody does."""

    async def work(index: BoardIndex, _client: Any) -> str:
        for seq, player in enumerate("abcde", start=1):
            await index.project(a_change(seq, player, 7))
        place = (await index.page("alltime", 2, 1)).entries[0].place
        if not is_there:
            await index.project(a_change(9, "c", None))
        page = await index.seek("alltime", Cut(place, is_behind, is_included), 2, RankKind.SPARSE)
        assert {1} == {entry.rank for entry in page.entries}
        return "".join(entry.player for entry in page.entries)

    ranking = a_ranking(ranks=["unique", "sparse"])
    assert (present if is_there else absent) == run_on(valkey, ranking, work)


def a_change(seq: int, player: str, score: int | None) -> Change:
    standing = a_standing(player, score, seq, seq)
    return Change(seq, f"s{seq}", "b", player, State.PROMOTED, (standing,))
