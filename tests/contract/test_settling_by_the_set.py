"""A job's decisions cost a handful of statements, however many they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Operation, Transaction
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all
from gateway.shared_records import Change
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, on_both_ledgers, open_in
from tests.support.waits import Counting

JOB = 64
STATEMENTS = 20
"""Most statements of a job: to lease, to decide, to fold, to strike off."""


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path, windows=["alltime", "daily", "weekly"])


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def counted(ledger: Ledger, operation: Operation[Any]) -> tuple[Any, int]:
    """What an operation gives, and how many statements it has waited for."""
    statements = 0

    async def watched(tx: Transaction) -> Any:
        nonlocal statements
        watching = Counting(tx)
        result = await operation(watching)
        statements = watching.statements
        return result

    return await ledger.write(watched), statements


async def append(ledger: Ledger, count: int, *, score: int = 100, job: str = "a") -> list[str]:
    names = [f"{job}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        await ledger.append(new_submission(name, player=f"p{number}", score=score, build=f"b{number % 2}"))
    return names


def verified(name: str, at_ms: int = NOON_MS + 1, attempt: int | None = None) -> Decision:
    pending = frozenset({State.PENDING})
    return Decision(name, State.PROMOTED, "replay", Reason.VERIFIED, at_ms, pending, attempt)


async def statements_of_job(ledger: Ledger, board: Board, names: list[str]) -> int:
    """Statements from the lease to what is left once the index has the changes."""
    lease = work.lease_all(names, boards={board.name}, now_ms=NOON_MS, lease_ms=1000)
    leases, leasing = await counted(ledger, lease)
    decisions = [verified(each.submission.submission_id, attempt=each.attempt) for each in leases]
    (outcomes, changes), settling = await counted(ledger, _decide_all(board, decisions))
    assert [Change] * len(names) == [type(outcome) for outcome in outcomes]
    _, striking = await counted(ledger, work.strike_projected([change.seq for change in changes]))
    return leasing + settling + striking


@on_both_ledgers
async def test_a_job_costs_as_many_statements_as_one_run(ledger: Ledger, board: Board):
    """By the first runs of their players, and by later ones: each statement is of all that the job decides."""
    [alone] = await append(ledger, 1, job="alone")
    of_one = await statements_of_job(ledger, board, [alone])
    first = await statements_of_job(ledger, board, await append(ledger, JOB, job="first"))
    later = await statements_of_job(ledger, board, await append(ledger, JOB, job="later", score=200))
    assert of_one <= STATEMENTS
    assert (of_one, of_one) >= (first, later)


@on_both_ledgers
async def test_a_standing_that_stays_as_it_was_is_not_written(ledger: Ledger, board: Board):
    """The worse run of each player keeps the standing's event, and is told of with the baselines alone."""
    await ledger.write(_decide_all(board, [verified(each) for each in await append(ledger, 3)]))
    worse = await append(ledger, 3, job="worse", score=5)
    _, changes = await ledger.write(_decide_all(board, [verified(each) for each in worse]))
    assert [()] * 3 == [change.standings for change in changes]
    assert [{f"p{n}"} for n in range(3)] == [
        {each.player for each in change.baselines} - {"", "@b0", "@b1"} for change in changes
    ]
    better = await append(ledger, 1, job="better", score=500)
    _, [change] = await ledger.write(_decide_all(board, [verified(better[0])]))
    assert {"alltime", "daily", "weekly"} == {each.window.partition(":")[0] for each in change.standings}


@on_both_ledgers
async def test_a_standing_goes_with_the_last_decision_on_its_player(ledger: Ledger, board: Board):
    """Of three runs decided at once, whichever is the best: it has the number of that event, and no other change tells of it."""
    scores = {"worst": 5, "best": 9, "last": 7}
    for name, score in scores.items():
        await ledger.append(new_submission(name, score=score))
    _, changes = await ledger.write(_decide_all(board, [verified(each) for each in scores]))
    assert [0, 0, 3] == [len(change.standings) for change in changes]
    last = changes[-1]
    assert {(9, "best", last.seq)} == {(each.score, each.submission_id, each.seq) for each in last.standings}


async def test_a_slot_without_a_standing_is_filled_from_all_that_counts(store: Store, tmp_path: Path):
    """Its row may have gone with its window, or have never been: what counted before counts beside what comes now."""
    board = boards.board(tmp_path, operator="sum", score={"minimum": 0, "maximum": 1000})
    async with open_in(store) as ledger:
        before, now = await append(ledger, 1, score=5), await append(ledger, 2, score=7, job="now")
        await ledger.write(_decide_all(board, [verified(each) for each in before]))
        await store.sql("DELETE FROM standings")
        await ledger.write(_decide_all(board, [verified(each) for each in now]))
    stand = await store.sql("SELECT DISTINCT player, score FROM standings ORDER BY player")
    assert [("p0", 12), ("p1", 7)] == [tuple(row) for row in stand]
