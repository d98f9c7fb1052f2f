"""Decisions that are settled at once end as if they were settled one after another, on either database."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger.moderation import bans
from gateway.ledger.moderation.bans import Ban
from gateway.ledger.transaction import Transaction
from gateway.settlement.case_history import UNDOES
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all
from gateway.shared_records import Change
from policies.choices import Operator
from policies.errors import StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.support import boards
from tests.support.books import Books
from tests.support.ledger import NOON_MS, new_submission
from tests.support.postgres import PostgresServer
from tests.support.stores import PostgresStore
from tests.support.thorough import examples, seeds

DAY_MS = 86_400_000
PLAYERS = ("ada", "bob", "cyd")

KEPT = {
    "events": "SELECT * FROM events ORDER BY seq",
    "states": "SELECT seq, state, reason, attempt, lease_until_ms FROM submissions ORDER BY seq",
    "standings": 'SELECT board, "window", player, score, achieved_at_ms, achieved_seq, submission_id, '
    'expires_at_ms, order_value, member, rule FROM standings ORDER BY "window", player',
    "baselines": "SELECT * FROM baselines ORDER BY player",
    "outbox": "SELECT * FROM outbox ORDER BY seq",
    "cases": "SELECT * FROM cases ORDER BY submission_id",
    "counts of cases": "SELECT label, reason, cases FROM case_counts WHERE cases <> 0 ORDER BY label, reason",
}
"""All that follows from decisions. A standing has the number of one event of the call, which is compared apart."""

MOVES = {
    "verify": (State.PROMOTED, Reason.VERIFIED, "replay"),
    "spare": (State.PROMOTED, Reason.SAMPLED, "replay"),
    "reject": (State.REJECTED, Reason.REJECTED_BY_MODERATOR, "replay"),
    "hold": (State.HELD, Reason.HELD_BY_MODERATOR, "replay"),
    "revoke": (State.REVOKED, Reason.REVOKED_BY_MODERATOR, "moderator:mara"),
    "reinstate": (State.PROMOTED, Reason.REINSTATED, "moderator:mara"),
    "spare again": (State.PROMOTED, Reason.SAMPLED, "moderator:mara"),
    "undo": (State.HELD, Reason.HELD_BY_MODERATOR, "moderator:mara"),
    "ask": (State.HELD, Reason.QUESTION_ASKED, "moderator:mara"),
    "appeal": (State.REJECTED, Reason.APPEALED, "player"),
}


class Step(NamedTuple):
    """A decision on one of the runs; `number` 99 is a run that nobody sent."""

    move: str
    number: int
    attempt: int | None
    newest_event: int | None


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([*MOVES, "verify", "spare", "reject", "revoke"]),
        st.sampled_from([*range(6), *range(6), 99]),
        st.sampled_from([None, None, None, 0, 1]),
        st.sampled_from([None, None, None, None, 3, 7]),
    ),
    max_size=12,
)
RUNS = st.lists(
    st.tuples(
        st.sampled_from(PLAYERS),
        st.integers(0, 3),
        st.sampled_from([0, 1, -DAY_MS]),
        st.sampled_from(["b1", "b2"]),
    ),
    min_size=6,
    max_size=6,
)


@cache
def board_of(operator: Operator) -> Board:
    with TemporaryDirectory() as folder:
        return boards.board(Path(folder), operator=operator.value)


def decision(step: Step, at_ms: int) -> Decision:
    to_state, reason, actor = MOVES[step.move]
    detail: dict[str, Any] = {}
    if step.move == "undo":
        detail = {UNDOES: 1}
    if step.move == "ask":
        detail = {"answer_by_ms": at_ms + 5}
    of_run = (f"run-{step.number}", to_state, actor, reason, at_ms, frozenset(State), step.attempt)
    return Decision(*of_run, detail, newest_event=step.newest_event)


def told(outcomes: Sequence[Change | StateConflict]) -> list[Any]:
    """What callers are told, but for the standings and baselines, which go with the last change of each."""
    return [
        (each.seq, each.player, each.state) if isinstance(each, Change) else type(each) for each in outcomes
    ]


Do = Callable[[Any], Awaitable[Any]]
Read = Callable[[str], Awaitable[list[Any]]]


class Twin(NamedTuple):
    """One of two ledgers with the same runs."""

    do: Do
    read: Read

    async def kept(self) -> dict[str, list[Any]]:
        return {name: await self.read(statement) for name, statement in KEPT.items()}

    async def standings(self) -> dict[tuple[str, str], tuple[int | None, int]]:
        rows = await self.read('SELECT "window", player, score, seq FROM standings')
        return {(window, player): (score, seq) for window, player, score, seq in rows}


async def ban_all(twin: Twin, banned: Sequence[str]) -> None:
    for player in banned:
        ban = Ban(f"ban-{player}", player, "", False, "cheating", "", "", "moderator:noor", NOON_MS, None)

        async def work(tx: Transaction, ban: Ban = ban) -> None:
            await bans.add(tx, ban)

        await twin.do(work)


async def follow(
    board: Board, at_once: Twin, in_turn: Twin, steps: list[Step], first: int, banned: Sequence[str]
) -> None:
    """Settles the first steps one by one on both ledgers, and the others at once on one of them."""
    for twin in (at_once, in_turn):
        await ban_all(twin, banned)
    decisions = [decision(step, NOON_MS + 10 + at) for at, step in enumerate(steps)]
    for each in decisions[:first]:
        for twin in (at_once, in_turn):
            await twin.do(_decide_all(board, [each]))
    before = await at_once.standings()
    assert await in_turn.kept() == await at_once.kept()
    outcomes, changes = await at_once.do(_decide_all(board, decisions[first:]))
    singly: list[Change | StateConflict] = []
    for each in decisions[first:]:
        [outcome], _ = await in_turn.do(_decide_all(board, [each]))
        singly.append(outcome)
    assert told(singly) == told(outcomes)
    assert await in_turn.kept() == await at_once.kept()
    shown = {
        (standing.window, standing.player): (standing.score, standing.seq)
        for change in changes
        for standing in change.standings
    }
    changed = {
        slot: there for slot, there in (await at_once.standings()).items() if there != before.get(slot)
    }
    assert changed == shown


def in_memory(board: Board, runs: list[Any]) -> Twin:
    books = Books(board)
    books.append(submissions(runs))

    async def do(work: Any) -> Any:
        return books.do(work)

    async def read(statement: str) -> list[Any]:
        return books.rows(statement)

    return Twin(do, read)


def submissions(runs: list[Any]) -> list[Any]:
    return [
        new_submission(f"run-{n}", player=player, score=score, at_ms=NOON_MS + at_ms, build=build)
        for n, (player, score, at_ms, build) in enumerate(runs)
    ]


@pytest.mark.parametrize("operator", Operator)
@settings(max_examples=examples(60), deadline=None)
@given(RUNS, STEPS, st.integers(0, 8), st.lists(st.sampled_from(PLAYERS), max_size=1))
def test_decisions_at_once_end_as_one_after_another(
    operator: Operator, runs: list[Any], steps: list[Step], first: int, banned: list[str]
):
    """Several on one run or player, stale ones, promotions of the banned, remarks: all that the ledger keeps of them."""
    board = board_of(operator)
    twins = in_memory(board, runs), in_memory(board, runs)
    asyncio.run(follow(board, *twins, steps, first, banned))


@asynccontextmanager
async def on_postgres(server: PostgresServer, runs: list[Any]) -> AsyncIterator[Twin]:
    async with server.database() as name:
        store = PostgresStore(server, name)
        ledger = store.ledger()
        await ledger.open()
        try:
            for each in submissions(runs):
                await ledger.append(each)
            yield Twin(ledger.write, store.sql)
        finally:
            await ledger.close()


@pytest.mark.parametrize("seed", seeds(20, ordinarily=3))
async def test_decisions_at_once_end_as_one_after_another_on_postgresql(
    postgres_server: PostgresServer, seed: int
):
    """The same statements bind lists as arrays there, and put rows by columns."""
    chance = random.Random(seed)
    runs = [
        (
            chance.choice(PLAYERS),
            chance.randint(0, 3),
            chance.choice([0, 1, -DAY_MS]),
            chance.choice(["b1", "b2"]),
        )
        for _ in range(6)
    ]
    steps = [
        Step(chance.choice([*MOVES]), chance.choice([*range(6), 99]), chance.choice([None, None, 0, 1]), None)
        for _ in range(16)
    ]
    banned = [chance.choice(PLAYERS)] if chance.random() < 0.5 else []
    async with on_postgres(postgres_server, runs) as at_once, on_postgres(postgres_server, runs) as in_turn:
        board = board_of(chance.choice([*Operator]))
        await follow(board, at_once, in_turn, steps, chance.randint(0, 8), banned)


@pytest.mark.parametrize("before", ["hold 0", "spare 0", "spare 0, revoke 0", "hold 0, reject 1"])
@pytest.mark.parametrize("other", ["reject", "revoke", "reinstate", "spare"])
def test_a_run_that_counts_unverified_again_beside_a_decision_on_another_of_its_player(
    before: str, other: str
):
    """Before it or after it in one call: whether it has to be verified is what it is one after another."""
    board, runs = board_of(Operator.BEST), [("ada", 2, 0, "b1"), ("ada", 1, 0, "b1")]
    first = [Step(move[:-2], int(move[-1]), None, None) for move in before.split(", ")]
    pair = [Step("spare again", 0, None, None), Step(other, 1, None, None)]
    for steps in (pair, pair[::-1]):
        twins = in_memory(board, runs), in_memory(board, runs)
        asyncio.run(follow(board, *twins, first + steps, len(first), []))
