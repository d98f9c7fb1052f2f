"""Pages of a rebuild, on every ledger: each row once and as it is stored, whatever its text and numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import chain
from typing import Any, Final

import pytest
from sqlalchemy import Table

from gateway.ledger.built_rows import baseline_pages, standing_pages
from gateway.ledger.ledger import Ledger
from gateway.ledger.schema import baselines, players, standings
from gateway.ledger.transaction import Transaction
from tests.support.stores import Store, on_both_ledgers, open_in

FURTHEST: Final = 2**63 - 1
ODD: Final = [
    'a "quoted" \\ name',
    "Zoë ☃ 🏁",
    "line\u2028separator",
    "tab\tand\x1f",
    "[1,2]",
    "null",
    "",
    "' OR 1=1",
    "a,b",
]
PLAYERS: Final = [f"p{number}" for number in range(len(ODD))]
SCORES: Final = [None, 0, -1, FURTHEST, -FURTHEST - 1, 5, 6, 7, 8]
ORDERS: Final = [-1 - (score or 0) for score in SCORES]
SEQS: Final = [FURTHEST - number for number in range(len(ODD))]


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def put(ledger: Ledger, table: Table, rows: list[tuple[Any, ...]]) -> None:
    async def work(tx: Transaction) -> None:
        await tx.insert(table, rows)

    await ledger.write(work)


def standing_rows(board: str = "b", window: str = "alltime") -> list[tuple[Any, ...]]:
    """Standings of players in this window, last ones first."""
    columns = zip(PLAYERS, SCORES, SEQS, ORDERS, ODD, strict=True)
    return [
        (board, window, player, score, 1, 1, f"s{seq}", FURTHEST, seq, order, f"{odd}:{player}", "rule")
        for player, score, seq, order, odd in reversed(list(columns))
    ]


@on_both_ledgers
@pytest.mark.parametrize("count", [1, 4, 9, 10])
async def test_every_standing_of_a_window_is_in_one_page_as_it_is_stored(ledger: Ledger, count: int):
    """In the order of players, whatever is in their names and members, with the largest and smallest numbers."""
    await put(
        ledger, standings, [*standing_rows(), *standing_rows("c"), *standing_rows(window="daily:20301120")]
    )
    named = [(player, name, 1, None) for player, name in zip(PLAYERS, ODD, strict=True) if name]
    await put(ledger, players, named)
    pages, last = [], ""
    while (read := await ledger.read(standing_pages("b", "alltime", last, count=count))).last is not None:
        assert read.last == read.page.players[-1]
        pages.append(read.page)
        last = read.last
    assert [count] * (9 // count) + [9 % count] * bool(9 % count) == [len(page.players) for page in pages]
    assert [] == [column for column in read.page if column]
    columns = [list(chain.from_iterable(column)) for column in zip(*pages, strict=True)]
    members = [f"{odd}:{player}" for odd, player in zip(ODD, PLAYERS, strict=True)]
    ids = [f"s{seq}" for seq in SEQS]
    assert [PLAYERS, ODD, SCORES, ORDERS, members, SEQS, ids] == columns


@on_both_ledgers
@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_every_baseline_of_a_board_is_in_one_page_with_exact_moments(ledger: Ledger, count: int):
    """The population first; the sum and the squares may exceed what 64 bits hold."""
    scores = [FURTHEST - 2, FURTHEST - 1, FURTHEST]
    total, squares = str(sum(scores)), str(sum(score**2 for score in scores))
    recent = f"[[1,5,{scores[0]}],[2,6,{scores[1]}],[3,7,{scores[2]}]]"
    rows: list[tuple[Any, ...]] = [
        ("b", "p1", 0, "0", "0", "[]", None, None, 9),
        ("b", "", 3, total, squares, recent, scores[0], scores[2], FURTHEST),
        ("b", "@build", 1, "-7", "49", "[[1,1,-7]]", -7, -7, 8),
        ("c", "p1", 1, "3", "9", "[[1,1,3]]", 3, 3, 10),
    ]
    await put(ledger, baselines, rows)
    found: list[tuple[str, Any]] = []
    last = None
    while (read := await ledger.read(baseline_pages("b", last, count=count))).last is not None:
        assert count >= len(read.page.subjects)
        found += zip(read.page.subjects, read.page.facts, strict=True)
        last = read.last
    assert [
        ("", (FURTHEST, 3, float(FURTHEST - 1), 2.0, scores[0], scores[2], scores)),
        ("@build", (8, 1, -7.0, 0.0, -7, -7, [-7])),
        ("p1", (9, 0, 0.0, 0.0, None, None, [])),
    ] == found
