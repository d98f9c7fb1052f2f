"""Lists of players, groups and friends, as queries name them, without an edge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.filters import (
    Filter,
    _entries,
    _group_of,
    _players_of,
    _refuse_past_groups,
    filter_of,
)
from gateway.edge.wire.read_models import FilteredEntry
from gateway.index.board_index import Entry
from gateway.index.windows.subsets import SubsetEntry, SubsetPage, neighbours_in
from policies.ranking import BoardPlace
from tests.support.archives import DAY_S, a_board
from tests.support.ledger import NOON_MS

BOARD, PLAIN = a_board(segments=["country", "guild"]), a_board()


def outcome(read: Any, query: str) -> Any:
    """What a query asks for, or why it is refused."""
    try:
        return read(make_mocked_request("GET", f"/?{query}"))
    except Problem as problem:
        return problem.detail if problem.kind is ProblemType.SCHEMA_VIOLATION else problem.kind


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", None),
        ("friends=true", Filter.FRIENDS),
        ("friends=false", None),
        ("friends=True", "friends: expected true or false"),
        ("friends=", "friends: expected true or false"),
        ("friends=1", "friends: expected true or false"),
        ("players=a", Filter.LISTED),
        ("players=", Filter.LISTED),
        ("segment=country:de", Filter.GROUP),
        ("as_of=2026-01-01T00:00:00Z", None),
        ("ranks=dense", None),
        ("ranks=dense&as_of=2026-01-01T00:00:00Z", None),
        ("friends=true&players=a", "friends and players cannot be combined"),
        ("segment=country:de&players=a", "players and segment cannot be combined"),
        ("friends=false&segment=country:de", "friends and segment cannot be combined"),
        ("friends=true&as_of=x", "friends and as_of cannot be combined"),
        ("ranks=dense&players=a", "players and ranks cannot be combined"),
        ("ranks=dense&as_of=x&segment=a", "segment and as_of and ranks cannot be combined"),
    ],
)
def test_one_filter_at_a_time(query: str, expected: Any):
    """Of a time alone there are ranks of every kind; `friends=false` is none, and yet not beside another."""
    assert expected == outcome(filter_of, query)


NOT_IDS = "players: expected player ids, separated by commas"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b,a", ["b", "a"]),
        ("b,a,b", ["b", "a"]),
        ("A_-9", ["A_-9"]),
        ("x" * 64, ["x" * 64]),
        ("x" * 65, NOT_IDS),
        ("", NOT_IDS),
        ("a,", NOT_IDS),
        ("a,,b", NOT_IDS),
        ("a b", NOT_IDS),
        ("é", NOT_IDS),
        (",".join(f"p{each}" for each in range(100)), [f"p{each}" for each in range(100)]),
        (",".join(f"p{each}" for each in range(101)), "players: expected at most 100"),
        (",".join(["p"] * 101), ["p"]),
    ],
)
def test_a_list_names_each_player_once_in_its_order(text: str, expected: Any):
    """A hundred different ones at most."""
    assert expected == outcome(lambda _: _players_of(text), "")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("country:de", ("country", "de")),
        ("guild:7-a", ("guild", "7-a")),
        ("country:" + "a" * 32, ("country", "a" * 32)),
        ("country:" + "a" * 33, "segment: expected a group, such as country:de"),
        ("country:", "segment: expected a group, such as country:de"),
        ("country", "segment: expected a group, such as country:de"),
        ("country:DE", "segment: expected a group, such as country:de"),
        ("country:de:at", "segment: expected a group, such as country:de"),
        ("team:de", "segment: the board has country, guild"),
        (":de", "segment: the board has country, guild"),
    ],
)
def test_a_group_is_a_value_of_a_declared_segment(value: str, expected: Any):
    """A board that declares none has no groups, whatever is asked."""
    assert expected == outcome(lambda request: _group_of(request, BOARD), f"segment={value}")
    assert "segment: the board has no segments" == outcome(
        lambda request: _group_of(request, PLAIN), f"segment={value}"
    )


@pytest.mark.parametrize(
    ("window", "later_ms", "is_refused"),
    [
        ("alltime", 10_000 * DAY_S * 1_000, False),
        ("daily:20261120", 0, False),
        ("hourly:1", 0, True),
    ],
)
def test_groups_go_as_far_back_as_the_index(window: str, later_ms: int, *, is_refused: bool):
    """The archive does not keep who was in a group, and a window that no calendar has may be in nothing else."""
    edge: Any = SimpleNamespace(clock=lambda: NOON_MS + later_ms)
    refused = f"segment: {window} is archived, and archives have no groups"
    told = outcome(lambda _: _refuse_past_groups(edge, BOARD, window), "")
    assert (refused if is_refused else None) == told


def _entry(player: str, rank: int, global_rank: int, name: str = "") -> SubsetEntry:
    entry = Entry(rank, player, name, 10 * rank, 1_500, f"s{rank}", BoardPlace(0, ""))
    return SubsetEntry(entry, global_rank)


PAGE = SubsetPage(9, (_entry("a", 1, 4, "Ada"), _entry("b", 2, 7), _entry("c", 3, 8)))


def test_a_filtered_entry_has_both_its_ranks():
    """Among those who were asked for, and among all; without a name of its own it has its player's id."""
    common = {"achieved_at": "1970-01-01T00:00:01.500Z"}
    assert [
        FilteredEntry(rank=1, player="a", name="Ada", score=10, submission="s1", global_rank=4, **common),
        FilteredEntry(rank=2, player="b", name="b", score=20, submission="s2", global_rank=7, **common),
        FilteredEntry(rank=3, player="c", name="c", score=30, submission="s3", global_rank=8, **common),
    ] == _entries(PAGE)


@pytest.mark.parametrize(
    ("player", "radius", "around"),
    [
        ("a", 0, "a"),
        ("a", 1, "ab"),
        ("b", 0, "b"),
        ("b", 1, "abc"),
        ("c", 1, "bc"),
        ("c", 9, "abc"),
        ("d", 1, None),
    ],
)
def test_neighbours_are_those_within_the_radius(player: str, radius: int, around: str | None):
    """As many on each side as there are; without an entry there are none, and all entries are counted."""
    page = neighbours_in(PAGE, player, radius)
    assert around == (page and "".join(row.entry.player for row in page.entries))
    assert page is None or page.total == 9
