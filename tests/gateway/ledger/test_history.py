"""A board as it stood: folded from the log alone, it is the live board now, and was at every instant before."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger.sqlite.transaction import drive
from gateway.ledger.standings import history
from gateway.ledger.standings.history import board_as_of
from gateway.ledger.transaction import Operation
from gateway.settlement.settle import _decide_all
from gateway.shared_records import Change
from policies.choices import Operator
from policies.errors import HistoryTooLong
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import SCORE_LIMIT, State
from policies.windows import FOREVER_MS, window_named
from tests.gateway.test_settlement import Books, board_of, decision, histories, play_out
from tests.support.ledger import NOON_MS
from tests.support.oracle import Promoted, standings
from tests.support.thorough import examples

DECIDED_MS = NOON_MS + 100 * 86_400_000
"""Later than every run comes in, so that each step has an instant of its own."""

Ranked = dict[str, list[tuple[Any, ...]]]


class FromBooks:
    """A ledger for reading that drives the operations itself."""

    def __init__(self, books: Books) -> None:
        self.books = books

    async def read(self, work: Operation[Any], _: Any = None) -> Any:
        return drive(work(self.books.tx))


def flip(books: Books, number: int, to_state: State, at_ms: int) -> None:
    deciding = _decide_all(books.board, [decision(f"run-{number}", to_state, at_ms=at_ms)])
    [change], _ = drive(deciding(books.tx))
    assert isinstance(change, Change)


async def folded(books: Books, windows: set[str], at_ms: int) -> Ranked:
    """What the log says of some windows, entry by entry in rank order; empty ones are left out."""
    policy, ledger = books.board.policy, FromBooks(books)
    found = {name: await board_as_of(ledger, policy, window_named(policy, name), at_ms) for name in windows}
    return {name: [tuple(each[:5]) for each in entries] for name, entries in found.items() if entries}


def live(books: Books, order: SortOrder) -> Ranked:
    """What the standings say, in the order in which the index ranks them: by score, then by member."""
    found: Ranked = defaultdict(list)
    direction = "ASC" if order is SortOrder.ASCENDING else "DESC"
    for window, *entry in books.rows(
        'SELECT "window", player, score, achieved_at_ms, achieved_seq, submission_id FROM standings '
        f"WHERE score IS NOT NULL ORDER BY score {direction}, achieved_at_ms, achieved_seq"
    ):
        found[window].append(tuple(entry))
    return dict(found)


def due(promoted: list[Promoted], board: Board) -> Ranked:
    """What the oracle makes of the promoted runs."""
    found: Ranked = defaultdict(list)
    sign = 1 if board.policy.order is SortOrder.ASCENDING else -1
    for (window, player), (score, reached) in standings(promoted, board.policy).items():
        entry = (player, score, reached.received_at_ms, reached.seq, reached.submission_id)
        found[window].append(entry)
    return {
        name: sorted(entries, key=lambda each: (sign * each[1], *each[2:4]))
        for name, entries in found.items()
    }


@pytest.mark.parametrize("order", SortOrder)
@pytest.mark.parametrize("operator", Operator)
@settings(max_examples=examples(8), deadline=None)
@given(data=st.data())
def test_the_log_alone_gives_the_board_of_every_instant(
    operator: Operator, order: SortOrder, data: st.DataObject
):
    """After each promotion and revocation it is the oracle's, and after the last the standings', which are gone by then."""
    board = board_of(operator, order)
    runs, steps = data.draw(histories(board.policy.score.maximum))
    slice_size = data.draw(st.sampled_from([1, 3, 10_000]))
    books, _ = play_out(board, runs, [])
    facts = [Promoted(n + 1, f"run-{n}", run[0], run[1], NOON_MS + run[2]) for n, run in enumerate(runs)]
    promoted: set[int] = set()
    then: list[Ranked] = [{}]
    for at, number in enumerate(steps, start=1):
        flip(books, number, State.REVOKED if number in promoted else State.PROMOTED, DECIDED_MS + at)
        promoted ^= {number}
        then.append(due([facts[n] for n in sorted(promoted)], board))
    now = live(books, order)
    books.connection.execute("DELETE FROM standings")

    windows = {name for each in then for name in each} | {"alltime"}

    async def look() -> list[Ranked]:
        instants = range(DECIDED_MS, DECIDED_MS + len(steps) + 1)
        return [await folded(books, windows, at_ms) for at_ms in (*instants, FOREVER_MS)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "SLICE", slice_size)
        *seen, last = asyncio.run(look())
    assert then == seen
    assert now == seen[-1] == last


def three_promoted() -> Books:
    books, _ = play_out(
        board_of(Operator.BEST, SortOrder.DESCENDING), [("ada", 3, 0), ("ada", 5, 1), ("bob", 9, 2)], []
    )
    for number in range(3):
        flip(books, number, State.PROMOTED, DECIDED_MS + number)
    return books


async def test_a_board_without_a_past_is_empty():
    """Before the first promotion there is nobody; a window's entries are those received in it."""
    books = three_promoted()
    board, ledger = books.board, FromBooks(books)
    alltime = window_named(books.board.policy, "alltime")
    assert [] == await board_as_of(ledger, board.policy, alltime, DECIDED_MS - 1)
    assert ["ada"] == [
        each.player for each in await board_as_of(ledger, board.policy, alltime, DECIDED_MS + 1)
    ]
    tomorrow = window_named(board.policy, "daily:20251121")
    assert [] == await board_as_of(ledger, board.policy, tomorrow, FOREVER_MS)


async def test_a_log_that_is_too_long_is_refused():
    """The memory that a look may take is bounded by what counts at once."""
    books = three_promoted()
    arguments = (
        FromBooks(books),
        books.board.policy,
        window_named(books.board.policy, "alltime"),
        FOREVER_MS,
    )
    assert 2 == len(await board_as_of(*arguments, most=3))
    with pytest.raises(HistoryTooLong):
        await board_as_of(*arguments, most=2)


async def test_a_sum_stays_within_what_a_score_can_be():
    """As the live board holds it."""
    books, _ = play_out(
        board_of(Operator.SUM, SortOrder.DESCENDING), [("ada", SCORE_LIMIT, 0), ("ada", SCORE_LIMIT, 1)], []
    )
    for number in range(2):
        flip(books, number, State.PROMOTED, DECIDED_MS)
    [entry] = await board_as_of(
        FromBooks(books), books.board.policy, window_named(books.board.policy, "alltime"), FOREVER_MS
    )
    assert SCORE_LIMIT == entry.score
