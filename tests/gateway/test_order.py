"""From the ledger to the index: changes may come in any order, twice or never, and one board is shown at the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from gateway.index.board_index import BoardIndex
from gateway.index.connection import connect
from gateway.index.inspection import Inspection
from gateway.runtime.clock import wall_clock
from gateway.shared_records import Change
from gateway.steward.index.check import check
from gateway.steward.index.comparison.difference import BoardView
from policies.choices import Operator
from policies.fields import SortOrder
from tests.support.books import FREE_OPERATIONS, Books, arrive, board_of, free_operation
from tests.support.oracle import due, shown_on_board
from tests.support.valkey import ValkeyServer

DAY_MS = 86_400_000
DAYS = st.sampled_from([0, 0, 0, -1, -7, -40])


def history(books: Books, asked: Sequence[Any], days: Sequence[int]) -> list[Change]:
    """Every change that trusted servers' operations made, some of them in windows that are over."""
    now_ms = wall_clock()
    operations = [free_operation(number, *each) for number, each in enumerate(asked)]
    arrivals = [
        arrive(books, operation, number, at_ms=now_ms + day * DAY_MS + number)
        for number, (operation, day) in enumerate(zip(operations, days, strict=False))
    ]
    return [change for changes, _ in arrivals for change in changes]


async def deliver(
    valkey: ValkeyServer, books: Books, changes: Sequence[Change], *, is_reconciled: bool
) -> None:
    """Shows the changes on an empty index and, if asked to, puts right what is not."""
    client = connect(valkey.url, timeout_ms=5_000)
    try:
        await client.flushall()
        policy = books.board.policy
        index = BoardIndex(client, books.board.ranking)
        for change in changes:
            await index.project(change)
        if is_reconciled:
            view = BoardView(books, index, Inspection(client, policy.board), policy, wall_clock)
            assert 0 == (await check(view, is_repaired=True, in_flight_s=0)).left
    finally:
        await client.aclose()


@pytest.mark.parametrize("is_lossy", [False, True], ids=["all of them", "some lost"])
@pytest.mark.parametrize("operator", Operator)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=FREE_OPERATIONS,
    days=st.lists(DAYS, min_size=14, max_size=14),
    order=st.sampled_from(SortOrder),
    shuffle=st.randoms(use_true_random=False),
)
def test_the_index_ends_as_the_fold_of_the_ledger(
    valkey: ValkeyServer,
    operator: Operator,
    asked: Any,
    days: list[int],
    order: SortOrder,
    shuffle: random.Random,
    is_lossy: bool,
):
    """Every window, each operator and order: shuffled and repeated it is right at once, with some lost once reconciled."""
    books = Books(board_of(operator, order))
    changes = history(books, asked, days)
    arriving = [*changes, *changes]
    shuffle.shuffle(arriving)
    if is_lossy:
        arriving = arriving[: len(arriving) // 3]
    asyncio.run(deliver(valkey, books, arriving, is_reconciled=is_lossy))

    policy = books.board.policy
    with Redis.from_url(valkey.url) as client:
        assert due(books.promoted(), policy, wall_clock()) == shown_on_board(client, policy)
