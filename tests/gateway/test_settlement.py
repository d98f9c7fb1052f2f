"""Settlement: the only changes of state there are, each once, and what follows from them folded exactly."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger import queries
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.ledger.sqlite.transaction import drive
from gateway.ledger.submissions import work
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.settlement.decision_records import Decision
from gateway.settlement.joins import PROJECTIONS, show_joined
from gateway.settlement.settle import settle
from gateway.shared_records import Change
from policies.choices import Operator
from policies.errors import CaseOvertaken, IndexUnavailable, LedgerUnavailable, StateConflict
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import REMARKS, SCORE_LIMIT, TRANSITIONS, Reason, State
from tests.support import boards
from tests.support.books import Books, board_of
from tests.support.ledger import NOON_MS, new_submission, opened, rows
from tests.support.oracle import Promoted, standings
from tests.support.thorough import examples
from validators.judge import RULES_VERSION

ANY = frozenset(State)
DAY_MS = 86_400_000


class Shown:
    """An index that remembers what it was shown, or is down."""

    def __init__(self, *, is_down: bool = False) -> None:
        self.changes: list[Change] = []
        self.is_down = is_down

    async def project(self, board, changes: Sequence[Change]) -> None:
        if self.is_down:
            raise IndexUnavailable
        self.changes += changes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqliteLedger]:
    async with opened(path) as running:
        yield running


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path)


def decision(submission_id: str, to_state: State, **changes: Any) -> Decision:
    plain = Decision(submission_id, to_state, "replay", Reason.VERIFIED, NOON_MS + 1, ANY)
    return replace(plain, **changes)


WAYS = {
    State.PENDING: [],
    State.HELD: [State.HELD],
    State.PROMOTED: [State.PROMOTED],
    State.REJECTED: [State.REJECTED],
    State.SUPERSEDED: [State.SUPERSEDED],
    State.REVOKED: [State.PROMOTED, State.REVOKED],
}
"""How a pending submission gets into each state; `received` is the state before the first event alone."""


@pytest.mark.parametrize(("start", "end"), list(itertools.product(WAYS, State)))
async def test_the_only_changes_of_state_are_those_of_the_vocabulary(
    ledger: SqliteLedger, board: Board, path: Path, start: State, end: State
):
    """Every pair of states: the change is there or it is a conflict, and then nothing was written."""
    await ledger.append(new_submission("run"))
    for way in WAYS[start]:
        await settle(ledger, Shown(), board, [decision("run", way)])
    before = rows(path, "SELECT count(*) FROM events")

    [outcome] = await settle(ledger, Shown(), board, [decision("run", end)])

    is_allowed = end in TRANSITIONS[start] and end is not start  # that is for what counts unverified alone
    assert (Change if is_allowed else StateConflict) is type(outcome)
    assert [(end if is_allowed else start,)] == rows(path, "SELECT state FROM submissions")
    assert [(before[0][0] + is_allowed,)] == rows(path, "SELECT count(*) FROM events")


@pytest.mark.parametrize(("state", "reason"), list(itertools.product(WAYS, REMARKS)))
async def test_a_remark_is_an_event_and_changes_nothing_else(
    ledger: SqliteLedger, board: Board, path: Path, state: State, reason: Reason
):
    """In the states that take it, and never with a change of state; the work in the outbox stays, and nothing is shown."""
    await ledger.append(new_submission("run"))
    for way in WAYS[state]:
        await settle(ledger, Shown(is_down=True), board, [decision("run", way)])
    kept = ("SELECT state, reason, lease_until_ms FROM submissions", "SELECT * FROM outbox")
    before = [rows(path, statement) for statement in kept]
    [[count]] = rows(path, "SELECT count(*) FROM events")

    shown = Shown()
    for end in State:
        if end is not state:
            [refused] = await settle(ledger, shown, board, [decision("run", end, reason=reason)])
            assert isinstance(refused, StateConflict)
    [outcome] = await settle(ledger, shown, board, [decision("run", state, reason=reason)])

    is_taken = state in REMARKS[reason]
    assert (Change if is_taken else StateConflict) is type(outcome)
    assert [(count + is_taken,)] == rows(path, "SELECT count(*) FROM events")
    assert before == [rows(path, statement) for statement in kept]
    assert [] == shown.changes


async def test_a_decision_is_an_event_that_says_who_why_and_by_which_rules(
    ledger: SqliteLedger, board: Board, path: Path
):
    """Actor, reason, policy digest and rules version stand in the event; the work in the outbox changes hands."""
    await ledger.append(new_submission("run"))
    await settle(ledger, Shown(is_down=True), board, [decision("run", State.PROMOTED, detail={"fuel": 5})])

    assert [
        (2, "run", "pending", "promoted", "replay", "verified", board.digest, RULES_VERSION, '{"fuel":5}')
    ] == rows(
        path,
        "SELECT seq, submission_id, from_state, to_state, actor, reason, policy, rules_version, detail "
        "FROM events ORDER BY seq DESC LIMIT 1",
    )
    assert [("project", "run")] == rows(path, "SELECT kind, submission_id FROM outbox")


async def test_I01_an_index_that_is_down_leaves_the_projection_to_the_steward(
    ledger: SqliteLedger, board: Board, path: Path
):
    """The decision stands; the outbox remembers what is to be shown. Control: with the index up it forgets."""
    await asyncio.gather(*(ledger.append(new_submission(each)) for each in ("up", "down")))
    await settle(ledger, Shown(), board, [decision("up", State.PROMOTED)])
    await settle(ledger, Shown(is_down=True), board, [decision("down", State.PROMOTED)])
    assert [("project", "down")] == rows(path, "SELECT kind, submission_id FROM outbox")


@pytest.mark.parametrize("staleness_s", [0.0, 1.5])
async def test_a_projection_is_due_once_whoever_decided_had_time_to_show_it(
    ledger: SqliteLedger, tmp_path: Path, path: Path, staleness_s: float
):
    """A board that may be stale has that much longer: the steward would otherwise show each change a second time."""
    board = boards.board(tmp_path, operator="sum", writes="trusted", staleness_s=staleness_s)
    await ledger.append(new_submission("run"))
    await settle(ledger, Shown(is_down=True), board, [decision("run", State.PROMOTED)])
    due_at_ms = decision("run", State.PROMOTED).at_ms + PROJECT_AFTER_MS + int(1000 * staleness_s)
    assert [("project", due_at_ms, 0, 0)] == rows(
        path, "SELECT kind, due_at_ms, priority, handed_out FROM outbox"
    )


@pytest.mark.parametrize(
    ("answers", "shown"),
    [([True], 1), ([False, True], 2), ([False] * 9, PROJECTIONS), ([IndexUnavailable()] * 2, 1)],
)
async def test_a_join_that_a_settlement_overtook_is_shown_again_a_few_times(
    ledger: SqliteLedger, answers: list[bool | IndexUnavailable], shown: int
):
    """With what the ledger says by then; without Redis, and after the last attempt, it is left to the steward."""
    players: list[str] = []

    class Overtaken:
        board = "tiny"

        async def show_again(self, player: str, _standings: Any) -> bool:
            players.append(player)
            answer = answers[len(players) - 1]
            if isinstance(answer, IndexUnavailable):
                raise answer
            return answer

    await show_joined(ledger, Overtaken(), "ada", now_ms=NOON_MS)  # type: ignore[arg-type]
    assert ["ada"] * shown == players


async def test_I07_a_ledger_that_fails_after_the_decision_does_not_take_it_back(
    ledger: SqliteLedger, board: Board
):
    """Only the strike-off failed: the caller is told what happened, which is that the state changed."""
    await ledger.append(new_submission("run"))

    class FailsAtTheSecond:
        calls = 0

        async def write(self, work: Any) -> Any:
            self.calls += 1
            if self.calls > 1:
                raise LedgerUnavailable
            return await ledger.write(work)

    [outcome] = await settle(FailsAtTheSecond(), Shown(), board, [decision("run", State.PROMOTED)])
    assert Change is type(outcome)


async def test_a_worker_that_has_not_learnt_of_a_board_uses_up_no_attempt(ledger: SqliteLedger):
    """It leaves the submission to others, who may have it at once, and as if nobody had tried."""
    await ledger.append(new_submission("run"))
    lease = partial(work.lease_all, ["run"], now_ms=NOON_MS, lease_ms=1000)
    assert [[]] * 3 == [await ledger.write(lease(boards={"another"})) for _ in range(3)]
    [leased] = await ledger.write(lease(boards={"tiny"}))
    assert (1, 1) == (leased.attempt, leased.submission.attempt)


async def test_I12_two_workers_that_finish_one_job_settle_it_once(
    ledger: SqliteLedger, board: Board, path: Path
):
    """The lease counts attempts, and settlement compares: the worker that was overtaken changes nothing."""
    await ledger.append(new_submission("run"))
    [slow] = await ledger.write(work.lease_all(["run"], now_ms=NOON_MS, lease_ms=1000))
    assert [] == await ledger.write(work.lease_all(["run"], now_ms=NOON_MS + 999, lease_ms=1000))
    [quick] = await ledger.write(work.lease_all(["run"], now_ms=NOON_MS + 1000, lease_ms=1000))

    outcomes = await asyncio.gather(
        settle(ledger, Shown(), board, [decision("run", State.REJECTED, attempt=slow.attempt)]),
        settle(ledger, Shown(), board, [decision("run", State.PROMOTED, attempt=quick.attempt)]),
        settle(ledger, Shown(), board, [decision("run", State.PROMOTED, attempt=quick.attempt)]),
    )

    assert (1, 2) == (slow.attempt, quick.attempt)
    assert [StateConflict, Change, StateConflict] == [type(outcome) for [outcome] in outcomes]
    assert [("pending", "promoted")] == rows(path, "SELECT from_state, to_state FROM events WHERE seq > 1")


async def test_a_decision_on_what_has_changed_since_is_overtaken(
    ledger: SqliteLedger, board: Board, path: Path
):
    """It rests on what somebody saw; one on what still stands is made, and so is one that rests on nothing."""
    await ledger.append(new_submission("run"))
    [seen] = await settle(ledger, Shown(), board, [decision("run", State.PROMOTED)])
    assert isinstance(seen, Change)
    late, right = (decision("run", State.REVOKED, newest_event=seq) for seq in (seen.seq - 1, seen.seq))
    for asked, expected in ((late, CaseOvertaken), (right, Change), (right, CaseOvertaken)):
        [outcome] = await settle(ledger, Shown(), board, [asked])
        assert expected is type(outcome)
    [anyway] = await settle(ledger, Shown(), board, [decision("run", State.PROMOTED)])
    assert isinstance(anyway, Change)
    assert [(4,)] == rows(path, "SELECT count(*) FROM events WHERE submission_id = 'run'")


async def test_a_decision_for_another_board_is_none(ledger: SqliteLedger, board: Board):
    """A submission is folded by its own board's policy or not at all."""
    await ledger.append(new_submission("run", board="other"))
    outcomes = await settle(
        ledger, Shown(), board, [decision(each, State.PROMOTED) for each in ("run", "none")]
    )
    assert [StateConflict, StateConflict] == [type(outcome) for outcome in outcomes]


async def test_a_revoked_best_falls_back_to_the_next_best(ledger: SqliteLedger, board: Board):
    """Promoted, bettered, revoked, revoked again: the next best each time, and at last a tombstone."""
    await asyncio.gather(*(ledger.append(new_submission(f"run-{score}", score=score)) for score in (5, 9)))
    shown = Shown()
    for submission_id, state in [
        ("run-5", State.PROMOTED),
        ("run-9", State.PROMOTED),
        ("run-9", State.REVOKED),
        ("run-5", State.REVOKED),
        ("run-9", State.PROMOTED),
    ]:
        await settle(ledger, shown, board, [decision(submission_id, state)])

    assert [5, 9, 5, None, 9] == [change.standings[0].score for change in shown.changes]
    assert ["run-5", "run-9", "run-5", "", "run-9"] == [
        change.standings[0].submission_id for change in shown.changes
    ]
    seqs = [change.standings[0].seq for change in shown.changes]
    assert sorted(set(seqs)) == seqs


@dataclass(frozen=True)
class Step:
    """Submission `number` is promoted if it does not count, or revoked if it does."""

    number: int


def play_out(
    board: Board, runs: list[tuple[str, int, int]], steps: list[int]
) -> tuple[Books, list[Promoted]]:
    """The books after all runs came in and each step flipped one, with what is promoted at the end."""
    books = Books(board)
    news = [
        new_submission(f"run-{n}", player=player, score=score, at_ms=NOON_MS + at_ms)
        for n, (player, score, at_ms) in enumerate(runs)
    ]
    receipts = books.append(news)
    assert all(receipt.is_new for receipt in receipts)
    promoted: set[int] = set()
    for number in steps:
        books.decide(f"run-{number}", State.REVOKED if number in promoted else State.PROMOTED)
        promoted ^= {number}
    facts = [Promoted(n + 1, f"run-{n}", run[0], run[1], NOON_MS + run[2]) for n, run in enumerate(runs)]
    return books, [facts[n] for n in sorted(promoted)]


def histories(limit: int) -> st.SearchStrategy[tuple[list[tuple[str, int, int]], list[int]]]:
    """Runs of two players around the turn of days, weeks and months, with few scores and times so that they tie."""
    scores = st.one_of(st.integers(-3, 3), st.integers(-limit, limit))
    times = st.one_of(
        st.integers(-2, 2), st.sampled_from([-DAY_MS, DAY_MS, 4 * DAY_MS, 12 * DAY_MS, 40 * DAY_MS])
    )
    run = st.tuples(st.sampled_from(["ada", "bob"]), scores, times)
    return st.lists(run, min_size=1, max_size=8).flatmap(
        lambda runs: st.tuples(st.just(runs), st.lists(st.integers(0, len(runs) - 1), max_size=20))
    )


@pytest.mark.parametrize("order", SortOrder)
@pytest.mark.parametrize("operator", Operator)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_standings_are_those_of_the_oracle(operator: Operator, order: SortOrder, data: st.DataObject):
    """Best, latest and sum, each order, each window: after any promotions and revocations, credited when received."""
    board = board_of(operator, order)
    runs, steps = data.draw(histories(board.policy.score.maximum))
    books, promoted = play_out(board, runs, steps)

    due = {
        slot: (score, reached.received_at_ms, reached.seq, reached.submission_id)
        for slot, (score, reached) in standings(promoted, board.policy).items()
    }
    stored = books.rows(
        'SELECT "window", player, score, achieved_at_ms, achieved_seq, submission_id FROM standings '
        "WHERE score IS NOT NULL"
    )
    assert due == {(window, player): tuple(standing) for window, player, *standing in stored}
    assert {
        row[:2] for row in books.rows('SELECT "window", player FROM standings WHERE score IS NULL')
    }.isdisjoint(due)


@settings(max_examples=examples(60), deadline=None)
@given(history=histories(SCORE_LIMIT))
def test_V05_baselines_are_those_of_the_promoted_scores_alone(
    history: tuple[list[tuple[str, int, int]], list[int]],
):
    """Count, mean and spread of what is promoted, whatever was promoted and revoked before, for any scores there are."""
    books, promoted = play_out(board_of(Operator.BEST, SortOrder.DESCENDING), *history)
    learnt = {
        each.player: each for each in drive(queries.baselines_page("tiny", after=None, count=9)(books.tx))
    }
    for player in learnt.keys() | {each.player for each in promoted}:
        found = learnt[player]
        scores = np.array(
            [each.score for each in promoted if player in {"", "@tiny-1", each.player}], dtype=np.longdouble
        )
        spread = math.sqrt(found.squares / (found.count - 1)) if found.count > 1 else 0.0
        assert len(scores) == found.count
        assert found.mean == pytest.approx(float(scores.mean()) if len(scores) else 0.0, rel=1e-12, abs=1e-3)
        assert spread == pytest.approx(
            float(scores.std(ddof=1)) if len(scores) > 1 else 0.0, rel=1e-9, abs=1e-2
        )


def test_V05_a_revoked_score_leaves_no_trace():
    """An enormous score that was promoted and revoked changes not one bit of the baseline after it."""
    runs = [("ada", score, n) for n, score in enumerate([100, 110, 120, SCORE_LIMIT])]
    honest, _ = play_out(board_of(Operator.BEST, SortOrder.DESCENDING), runs, [0, 1, 2])
    poisoned, _ = play_out(board_of(Operator.BEST, SortOrder.DESCENDING), runs, [0, 3, 1, 2, 3])
    facts = (
        "SELECT board, player, count, total, total_of_squares, lowest, highest FROM baselines ORDER BY player"
    )
    assert honest.rows(facts) == poisoned.rows(facts)


async def test_V05_unverified_rows_teach_a_baseline_nothing(ledger: SqliteLedger, board: Board, path: Path):
    """Pending, held, rejected and superseded submissions change no baseline. Control: a promoted one does."""
    ends = [State.PENDING, State.HELD, State.REJECTED, State.SUPERSEDED, State.PROMOTED]
    for end in ends:
        await ledger.append(new_submission(end.value, score=1000))
        if end is not State.PENDING:
            await settle(ledger, Shown(), board, [decision(end.value, end)])
        learnt = ("", "@tiny-1", "ada") if end is State.PROMOTED else ()
        expected = [(each, 1, "1000") for each in learnt]
        assert expected == rows(path, "SELECT player, count, total FROM baselines ORDER BY 1")


async def test_a_promotion_is_credited_to_the_window_it_was_received_in(ledger: SqliteLedger, board: Board):
    """A run that is judged a week later counts on the day it came."""
    await ledger.append(new_submission("run"))
    shown = Shown()
    await settle(ledger, shown, board, [decision("run", State.PROMOTED, at_ms=NOON_MS + 7 * DAY_MS)])
    windows = [standing.window for standing in shown.changes[0].standings]
    assert ["alltime", "daily:20251120", "weekly:2025W47", "monthly:202511"] == windows
