"""Undoing moderators' decisions: what was there before one is there again, whatever was decided in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from gateway.ledger import queries
from gateway.ledger.judgement.expiry import UNDO_MS
from gateway.ledger.ledger import Ledger
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.settlement.undoing import inverse_of
from gateway.shared_records import Change
from policies.choices import Operator
from policies.errors import StateConflict
from policies.fields import SortOrder
from policies.vocabulary import Reason, State
from tests.contract.test_learning import Nowhere
from tests.support.books import board_of
from tests.support.ledger import NOON_MS, new_submission
from tests.support.oracle import breaches, history_of
from tests.support.stores import Store, on_both_ledgers, open_in
from tests.support.thorough import seeds

BOARD = board_of(Operator.BEST, SortOrder.DESCENDING)
MOVES = {
    State.HELD: [
        (State.PROMOTED, Reason.APPROVED),
        (State.REJECTED, Reason.REJECTED_BY_MODERATOR),
        (State.HELD, Reason.QUESTION_ASKED),
    ],
    State.PROMOTED: [
        (State.REVOKED, Reason.REVOKED_BY_MODERATOR),
        (State.HELD, Reason.HELD_BY_MODERATOR),
    ],
    State.REJECTED: [(State.HELD, Reason.HELD_BY_MODERATOR)],
    State.REVOKED: [(State.PROMOTED, Reason.REINSTATED)],
}
"""What a moderator may make of a submission in each state."""


KEPT = (
    "submission_id, state, reason FROM submissions",
    'player, "window", score, achieved_at_ms, submission_id, member FROM standings WHERE score IS NOT NULL',
    "player, count, total, total_of_squares, recent, lowest, highest FROM baselines WHERE count > 0",
)


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def decide(ledger: Ledger, decision: Decision) -> None:
    [change] = await settle(ledger, Nowhere(), BOARD, [decision])
    assert isinstance(change, Change), change


async def move(ledger: Ledger, run: str, to_state: State, reason: Reason, at_ms: int = NOON_MS) -> None:
    await decide(ledger, Decision(run, to_state, "moderator:mara", reason, at_ms, frozenset(State)))


async def undoing(ledger: Ledger, run: str, at_ms: int = NOON_MS) -> Decision | StateConflict:
    history = await ledger.read(queries.history_of(run))
    return inverse_of(run, history, actor="moderator:noor", at_ms=at_ms, detail={"code": "mistake"})


async def undo(ledger: Ledger, run: str) -> None:
    decision = await undoing(ledger, run)
    assert isinstance(decision, Decision), decision
    await decide(ledger, decision)


async def kept(ledger: Ledger, store: Store) -> list[list[tuple[Any, ...]]]:
    """What is kept beside the log: states, standings and baselines, without the numbers of their versions."""
    return [sorted(await store.sql(f"SELECT {columns}")) for columns in KEPT]


@on_both_ledgers
@pytest.mark.parametrize("seed", seeds(20, ordinarily=2))
async def test_M10_an_undone_decision_leaves_the_boards_as_they_were(ledger: Ledger, store: Store, seed: int):
    """Of tied runs of three players, drawn decisions and undos: each undo restores, and all is the oracle's."""
    random = Random(seed)
    runs = [f"run-{number}" for number in range(10)]
    for number, run in enumerate(runs):
        state, player = random.choice([State.HELD, State.PENDING]), random.choice(["ada", "bob", "cy"])
        score = random.randint(1, 3)
        await ledger.append(
            new_submission(run, player=player, score=score, state=state, at_ms=NOON_MS + number)
        )
        if state is State.PENDING:
            reason = random.choice([Reason.VERIFIED, Reason.SAMPLED])
            await decide(ledger, Decision(run, State.PROMOTED, "replay", reason, NOON_MS, frozenset({state})))
    undone = 0
    for _ in range(40):
        run = random.choice(runs)
        stored = await ledger.read(queries.submission(run))
        assert stored is not None
        before = await kept(ledger, store)
        to_state, reason = random.choice(MOVES[stored.state])
        await move(ledger, run, to_state, reason)
        if reason is not Reason.QUESTION_ASKED and random.random() < 0.6:
            await undo(ledger, run)
            undone += 1
            assert before == await kept(ledger, store)
            assert isinstance(await undoing(ledger, run), StateConflict)
    assert undone > 10
    assert [] == breaches(await history_of(ledger), [BOARD.policy])
    await audit(ledger, PublicKeys())


async def test_only_the_newest_decision_of_a_moderator_is_undone(ledger: Ledger):
    """Not a replay's, not one that a remark followed, and not an undo; a decision of a month ago is final."""
    await ledger.append(new_submission("held", state=State.HELD))
    await ledger.append(new_submission("run"))
    await decide(ledger, Decision("run", State.HELD, "replay", Reason.TIMED_OUT, NOON_MS, frozenset(State)))
    for each in ("held", "run"):
        assert isinstance(await undoing(ledger, each), StateConflict)
    await move(ledger, "run", State.PROMOTED, Reason.APPROVED)
    assert isinstance(await undoing(ledger, "run", NOON_MS + UNDO_MS), Decision)
    assert isinstance(await undoing(ledger, "run", NOON_MS + UNDO_MS + 1), StateConflict)
    await undo(ledger, "run")
    stored = await ledger.read(queries.submission("run"))
    assert stored is not None
    assert (State.HELD, Reason.TIMED_OUT) == (stored.state, stored.reason)
    await move(ledger, "run", State.HELD, Reason.QUESTION_ASKED)
    assert isinstance(await undoing(ledger, "run"), StateConflict)
