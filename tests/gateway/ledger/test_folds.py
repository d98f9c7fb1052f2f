"""Standings as they are folded: what is added to what stands comes to the same as everything folded anew."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger.sqlite.transaction import drive
from gateway.ledger.standings import counting, folds, reached
from gateway.ledger.standings.counting import CountChange, with_one_more
from gateway.ledger.standings.folds import standing_in
from gateway.ledger.standings.slots import SlotContent, StandingFold, read_slot
from gateway.settlement.settle import receive
from policies.choices import Operator, TieBreak, WindowKind
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import Claim, State
from policies.windows import window_at
from tests.support import boards
from tests.support.books import Books
from tests.support.ledger import NOON_MS, new_submission
from tests.support.standings import a_standing

TIES = {
    TieBreak.FIRST: {},
    TieBreak.FIELDS: {"tie_fields": [{"stat": "moves"}, {"stat": "falls", "order": "ascending"}]},
    TieBreak.COMPOSITE: {"tie_resolution_ms": 60_000, "score": {"minimum": -1000, "maximum": 1000}},
}


@lru_cache(maxsize=32)
def board_of(operator: Operator, order: SortOrder, tie_break: TieBreak) -> Board:
    with tempfile.TemporaryDirectory() as folder:
        policy = {
            "operator": operator,
            "order": order,
            "tie_break": tie_break,
            "score": {"minimum": -4, "maximum": 4},
        }
        return boards.board(Path(folder), **(policy | TIES[tie_break]))


def received(books: Books, number: int, score: int, day: float = 0, **stats: int) -> None:
    at_ms = NOON_MS + int(day * 86_400_000)
    new = new_submission(f"run-{number}", at_ms=at_ms, score=score, recording=None)
    run = new.submission._replace(claim=Claim(score, 1, stats))
    books.do(lambda tx: receive(tx, new._replace(submission=run)))


def stored(books: Books) -> dict[str, tuple[Any, ...]]:
    """What stands for the one player, by window, but for the sequence number."""
    columns = "score, achieved_at_ms, achieved_seq, submission_id, order_value, member, rule"
    return {row[0]: row[1:] for row in books.rows(f'SELECT "window", {columns} FROM standings')}


def folded(books: Books, day: int) -> dict[str, tuple[Any, ...]]:
    """The same, folded anew from the submissions of a day."""
    found = {}
    ranking = books.board.ranking
    for kind in books.board.policy.windows:
        window = window_at(books.board.policy, kind, NOON_MS + day * 86_400_000)
        each = drive(standing_in(books.tx, ranking, "ada", window, "", seq=0))
        first = (each.score, each.achieved_at_ms, each.achieved_seq, each.submission_id)
        found[window.name] = (*first, each.order, each.member, each.rule)
    return found


turns = st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=16)
runs = st.lists(
    st.tuples(st.integers(-4, 4), st.integers(0, 1), st.integers(0, 2), st.integers(0, 2)),
    min_size=8,
    max_size=8,
)
BOARDS = [
    (operator, tie_break)
    for operator in Operator
    for tie_break in TieBreak
    if tie_break is not TieBreak.COMPOSITE or operator in {Operator.BEST, Operator.LATEST}
]


@pytest.mark.parametrize(("operator", "tie_break"), BOARDS)
@settings(max_examples=20, deadline=None)
@given(order=st.sampled_from(SortOrder), made=runs, changes=turns)
def test_what_is_added_comes_to_what_is_folded_anew(
    operator: Operator, tie_break: TieBreak, order: SortOrder, made: Any, changes: Any
):
    """After every promotion and revocation, in any order of the runs' own times, in every window."""
    books = Books(board_of(operator, order, tie_break))
    for number, (score, day, moves, falls) in enumerate(made):
        received(books, number, score, day, moves=moves, **({"falls": falls} if falls < 2 else {}))
    promoted = set()
    for number, is_promoted in changes:
        if is_promoted == (number in promoted):
            continue
        books.decide(f"run-{number}", State.PROMOTED if is_promoted else State.REVOKED)
        promoted ^= {number}
        day = made[number][1]
        expected = folded(books, day)
        assert expected == {window: found for window, found in stored(books).items() if window in expected}


@pytest.mark.parametrize("order", SortOrder)
def test_of_equal_scores_the_one_that_was_reached_first_stands(order: SortOrder):
    """Not the one that was received first, and not the last; when both are promoted, and when a revocation leaves them."""
    books = Books(board_of(Operator.BEST, order, TieBreak.FIRST))
    best = 4 if order is SortOrder.DESCENDING else 2
    stands = []
    for number, (score, day) in enumerate([(3, 1), (3, 0), (3, 2), (best, 0)]):
        received(books, number, score, day)
        books.decide(f"run-{number}", State.PROMOTED)
        stands.append(stored(books)["alltime"][3])
    books.decide("run-3", State.REVOKED)
    stands.append(stored(books)["alltime"][3])
    assert ["run-0", "run-1", "run-1", "run-3", "run-1"] == stands


def test_a_run_in_the_first_instant_of_a_day_is_left_by_a_revocation():
    """What is folded anew has it in the window that begins with it, as what was added had."""
    books = Books(board_of(Operator.BEST, SortOrder.DESCENDING, TieBreak.FIRST))
    midnight = -0.5
    for number, (score, day) in enumerate([(3, midnight), (4, 0)]):
        received(books, number, score, day)
        books.decide(f"run-{number}", State.PROMOTED)
    books.decide("run-1", State.REVOKED)
    [(_, daily)] = [each for each in stored(books).items() if each[0].startswith("daily:")]
    assert (3, NOON_MS - 12 * 3_600_000, "run-0") == daily[:2] + daily[3:4]


def test_a_promotion_does_not_read_the_history(monkeypatch: pytest.MonkeyPatch):
    """The cost of a verdict does not grow with what its player has promoted before; a revocation may ask for it."""
    books = Books(board_of(Operator.BEST, SortOrder.DESCENDING, TieBreak.FIRST))
    for number in range(4):
        received(books, number, number % 2)
    books.decide("run-0", State.PROMOTED)
    asked: list[Any] = []
    fold_anew = folds.fold_reached

    async def told(*arguments: Any) -> Any:
        asked.append(arguments)
        return await fold_anew(*arguments)

    monkeypatch.setattr(folds, "fold_reached", told)
    for number in (1, 2, 3):
        books.decide(f"run-{number}", State.PROMOTED)
    assert [] == asked
    books.decide("run-3", State.REVOKED)
    assert len(books.board.policy.windows) == len(asked)


def test_another_rule_folds_anew():
    """After a change of the policy what stands is of another rule, and nothing is added to it."""
    books = Books(board_of(Operator.BEST, SortOrder.DESCENDING, TieBreak.FIRST))
    for number, score in enumerate((3, 1, 2)):
        received(books, number, score)
    books.decide("run-0", State.PROMOTED)
    books.decide("run-1", State.PROMOTED)
    books.board = board_of(Operator.BEST, SortOrder.ASCENDING, TieBreak.FIRST)
    books.decide("run-2", State.PROMOTED)
    assert (1, "run-1") == (found := stored(books)["alltime"])[:1] + found[3:4]


@pytest.mark.parametrize("name", [None, *SlotContent._fields])
def test_a_fold_is_stored_where_anything_but_its_number_is_another(name: str | None):
    """Whatever a reader, an archive or a later fold goes by: a standing under an earlier rule is none of today's."""
    standing = a_standing("ada", 5, 1, 1)
    facts: dict[str, Any] = {
        "score": 5,
        "achieved_at_ms": standing.achieved_at_ms,
        "achieved_seq": standing.achieved_seq,
        "submission_id": standing.submission_id,
        "expires_at_ms": standing.expires_at_ms,
        "order": standing.order,
        "member": standing.member,
        "rule": standing.rule,
    }
    slot = SlotContent(anchors=None, seq=standing.seq - 1, **facts)
    if name is not None:
        value = getattr(slot, name)
        slot = slot._replace(**{name: value + 1 if isinstance(value, int) else f"{value}-"})
    assert (name not in (None, "anchors", "seq")) is StandingFold(slot, standing).is_changed


def test_a_sum_that_was_held_to_the_limit_is_folded_anew(monkeypatch: pytest.MonkeyPatch):
    """A sum at the limit says nothing of what was cut off, so it is no ground to add to."""
    near = 2**44 - 1  # the true limit is eight thousand runs away
    for module in (counting, reached):
        monkeypatch.setattr(module, "SCORE_LIMIT", near)
    with tempfile.TemporaryDirectory() as folder:
        limit = 2**40
        score = {"minimum": -limit, "maximum": limit}
        books = Books(boards.board(Path(folder), operator="sum", score=score))
    count = near // limit + 2
    for number in range(count):
        received(books, number, limit)
        books.decide(f"run-{number}", State.PROMOTED)
    assert near == stored(books)["alltime"][0]
    for number in range(count, count + 3):
        received(books, number, -limit)
        books.decide(f"run-{number}", State.PROMOTED)
    assert (count - 3) * limit == stored(books)["alltime"][0]
    assert books.board.policy.windows[0] is WindowKind.ALLTIME


@pytest.mark.parametrize("operator", Operator)
def test_M18_what_one_more_would_come_to_is_what_it_comes_to(operator: Operator):
    """From the first on, on boards of every operator: the harm of a run is weighed by the standing that it would make."""
    books = Books(board_of(operator, SortOrder.DESCENDING, TieBreak.FIRST))
    ranking = books.board.ranking
    for number, score in enumerate((3, 4, -1, 4)):
        received(books, number, score)
        at_ms, seq = books.rows(
            f"SELECT achieved_at_ms, seq FROM submissions WHERE submission_id = 'run-{number}'"
        )[0]
        held = drive(read_slot(books.tx, ranking, "alltime", "ada"))
        told = with_one_more(ranking, held, CountChange(1, f"run-{number}", seq, at_ms, score, {}))
        books.decide(f"run-{number}", State.PROMOTED)
        assert stored(books)["alltime"][:4] == told[:4]
