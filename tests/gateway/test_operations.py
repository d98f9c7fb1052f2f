"""Trusted servers' operations on the ledger: all or none, once, and one result whatever order they arrive in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger import queries
from gateway.settlement.decision_records import Decision
from gateway.settlement.server_operations import OperationsRefused, RefusalKind, ServerOperation
from gateway.settlement.settle import _decide_all
from policies.choices import Operator
from policies.errors import KeyRevoked, NonceReused
from policies.fields import SortOrder
from policies.vocabulary import Reason, State
from tests.support.books import (
    FREE_OPERATIONS,
    KEY_ID,
    Books,
    a_removal,
    a_write,
    arrive,
    board_of,
    free_operation,
)
from tests.support.ledger import NOON_MS, new_submission
from tests.support.oracle import standings
from tests.support.thorough import examples

BEST = board_of(Operator.BEST, SortOrder.DESCENDING)


def shown(books: Books) -> dict[tuple[str, str], int]:
    """The scores that stand, by window and player."""
    found = books.rows('SELECT "window", player, score FROM standings WHERE score IS NOT NULL')
    return {(window, player): score for window, player, score in found}


T05 = {
    1: a_write("add-1", 5, version=1),
    2: a_write("add-2", 9, version=2),
    3: a_removal("remove-3", version=3),
}


@pytest.mark.parametrize("operator", Operator)
@pytest.mark.parametrize("order", list(itertools.permutations(T05)))
def test_T05_a_removal_wins_over_every_older_write_in_all_orders(order: Sequence[int], operator: Operator):
    """Six orders of add 1, add 2, remove 3, sent twice: nothing stands, and what came too late was told so."""
    books = Books(board_of(operator, SortOrder.DESCENDING))
    arriving = [*order, *order]
    outcomes = [arrive(books, T05[number], arrival)[1] for arrival, number in enumerate(arriving)]

    assert {} == shown(books)
    assert [] == books.promoted()
    late = [is_late(number, order[:at], operator) for at, number in enumerate(order)]
    assert [RefusalKind.STALE if each else None for each in late] == outcomes[:3]
    assert outcomes[:3] == outcomes[3:]


def is_late(number: int, before: Sequence[int], operator: Operator) -> bool:
    """True if the removal has come, or on a board of the latest a later write."""
    return 3 in before or (operator is Operator.LATEST and max(before, default=0) > number)


class Said(NamedTuple):
    """An operation with a version of its own on its slot; no score: it empties the slot."""

    player: str
    version: int
    score: int | None


def said(limit: int) -> st.SearchStrategy[list[Said]]:
    scores = st.one_of(st.none(), st.integers(-3, 3), st.integers(-limit, limit))
    each = st.builds(Said, st.sampled_from(["ada", "bob"]), st.integers(1, 12), scores)
    return st.lists(each, min_size=1, max_size=10, unique_by=lambda said: (said.player, said.version))


def operation_of(each: Said) -> ServerOperation:
    name = f"{each.player}-{each.version}"
    if each.score is None:
        return a_removal(name, player=each.player, version=each.version)
    return a_write(name, each.score, player=each.player, version=each.version)


def due(given_operations: Sequence[Said], operator: Operator, order: SortOrder) -> dict[str, int]:
    """What has to stand for each player: the fold of the scores above the last removal."""
    stands = {}
    for player in {each.player for each in given_operations}:
        own = [each for each in given_operations if each.player == player]
        removed = max((each.version for each in own if each.score is None), default=0)
        counting = sorted((each.version, each.score) for each in own if each.score is not None)
        scores = [score for version, score in counting if version > removed]
        best = min if order is SortOrder.ASCENDING else max
        folds: dict[Operator, Any] = {
            Operator.BEST: best,
            Operator.SUM: sum,
            Operator.COUNT: len,
            Operator.LATEST: lambda all_: all_[-1],
        }
        if scores:
            stands[player] = folds[operator](scores)
    return stands


@pytest.mark.parametrize("order", SortOrder)
@pytest.mark.parametrize("operator", Operator)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_T05_operations_end_alike_in_any_order_and_with_repeats(
    operator: Operator, order: SortOrder, data: st.DataObject
):
    """Best, latest and sum, each order, every window: writes and removals with versions, shuffled and repeated."""
    board = board_of(operator, order)
    asked = data.draw(said(board.policy.score.maximum))
    repeats = data.draw(st.lists(st.sampled_from(asked), max_size=5))
    arriving = data.draw(st.permutations([*asked, *repeats]))
    books = Books(board)
    for arrival, each in enumerate(arriving):
        assert arrive(books, operation_of(each), arrival)[1] in {None, RefusalKind.STALE}

    stands = due(asked, operator, order)
    windows = ["alltime", "daily:20251120", "weekly:2025W47", "monthly:202511"]
    assert {(window, player): score for window in windows for player, score in stands.items()} == shown(books)


@pytest.mark.parametrize("operator", Operator)
@settings(max_examples=examples(25), deadline=None)
@given(asked=FREE_OPERATIONS, order=st.sampled_from(SortOrder))
def test_standings_follow_writes_corrections_and_removals(operator: Operator, asked: Any, order: SortOrder):
    """Whatever is asked for, what stands is the fold of what counts: a best that is removed gives way to the next."""
    board = board_of(operator, order)
    books = Books(board)
    for number, each in enumerate(asked):
        arrive(books, free_operation(number, *each), number)
        stands = {slot: score for slot, (score, _) in standings(books.promoted(), board.policy).items()}
        assert stands == shown(books)


@pytest.mark.parametrize("operator", Operator)
@settings(max_examples=examples(20), deadline=None)
@given(asked=FREE_OPERATIONS, order=st.sampled_from(SortOrder))
def test_a_batch_ends_as_its_operations_do_one_by_one(operator: Operator, asked: Any, order: SortOrder):
    """What can be done, done in one request: the same states, standings and baselines, folded once."""
    single, batched = Books(board_of(operator, order)), Books(board_of(operator, order))
    numbered = [free_operation(number, *each) for number, each in enumerate(asked)]
    possible = [
        each for number, each in enumerate(numbered) if arrive(single, each, number, at_ms=NOON_MS)[1] is None
    ]
    batched.perform(possible)
    for fact in (
        "SELECT submission_id, state, reason FROM submissions ORDER BY 1",
        'SELECT "window", player, score, submission_id FROM standings ORDER BY 1, 2',
        "SELECT player, count, total, total_of_squares, lowest, highest FROM baselines ORDER BY 1",
        "SELECT * FROM slot_versions ORDER BY 1, 2",
        "SELECT submission_id, from_state, to_state FROM events ORDER BY seq",
    ):
        assert single.rows(fact) == batched.rows(fact)


def test_a_removed_best_gives_way_to_the_next_and_a_corrected_one_to_the_correction():
    """9 falls back to 7 when it is removed, 7 is corrected to 6, and 5 is left when that goes too."""
    books = Books(BEST)
    books.perform([a_write("five", 5), a_write("seven", 7), a_write("nine", 9)])
    stood = []
    for number, operation in enumerate(
        [
            a_removal("no-nine", submission="nine"),
            a_write("six", 6, replaces="seven"),
            a_removal("no-six", submission="six"),
        ]
    ):
        books.perform([operation], nonce=f"nonce-{number}")
        stood.append(shown(books)["alltime", "ada"])
    assert [7, 6, 5] == stood
    reasons = dict(books.rows("SELECT submission_id, reason FROM submissions WHERE state = 'revoked'"))
    assert {"nine": "removed-by-server", "seven": "corrected", "six": "removed-by-server"} == reasons


def test_a_removal_without_a_version_takes_all_that_counts_now():
    """In the order of arrival: what stands goes, what comes after it stays. With a version, later versions stay."""
    books = Books(BEST)
    books.perform([a_write("one", 1), a_write("two", 2, version=3), a_write("four", 4, version=4)], nonce="a")
    [done], _ = books.perform([a_removal("up-to-3", version=3)], nonce="b")
    assert ("one", "two") == done.revoked
    [done], _ = books.perform([a_removal("all")], nonce="c")
    assert ("four",) == done.revoked
    books.perform([a_write("five", 5)], nonce="d")
    assert 5 == shown(books)["alltime", "ada"]


@pytest.mark.parametrize("operator", Operator)
def test_T05_a_removal_takes_what_is_older_though_a_later_write_came_before_it(operator: Operator):
    """Also where only the latest stands: what it was to remove does not come back when that goes."""
    books = Books(board_of(operator, SortOrder.DESCENDING))
    for number, operation in enumerate([a_write("add-1", 5, version=1), a_write("add-3", 7, version=3)]):
        books.perform([operation], nonce=f"nonce-{number}")
    [done], _ = books.perform([a_removal("remove-2", version=2)], nonce="removal")
    assert ("add-1",) == done.revoked
    books.decide("add-3", State.REVOKED)
    assert {} == shown(books)


def test_T07_what_cannot_be_done_is_named_and_nothing_is_done():
    """Another content, a late version and a target that does not count, in one request: each by its place, none done."""
    books = Books(BEST)
    books.perform([a_write("known", 1), a_removal("gone", player="bob", version=9)], nonce="a")
    before = list(books.connection.iterdump())
    with pytest.raises(OperationsRefused) as refused:
        books.perform(
            [
                a_write("fresh", 3),
                a_write("known", 2),
                a_write("late", 3, player="bob", version=8),
                a_removal("theirs", player="bob", submission="known"),
                a_write("other", 4),
            ],
            nonce="b",
        )
    kinds = [(refusal.at, refusal.kind) for refusal in refused.value.refusals]
    assert [(1, RefusalKind.OTHER_CONTENT), (2, RefusalKind.STALE), (3, RefusalKind.CONFLICT)] == kinds
    assert before == list(books.connection.iterdump())


def test_a_score_on_another_board_is_not_taken_back():
    """Though the player has the score there, and it counts: what is named by its id is looked for on the board alone."""
    books, name = Books(BEST), "elsewhere"
    books.append([new_submission("theirs", board=name)])
    other = replace(BEST, policy=BEST.policy.model_copy(update={"board": name}))
    promotion = Decision("theirs", State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, frozenset(State))
    books.do(_decide_all(other, [promotion]))
    with pytest.raises(OperationsRefused) as refused:
        books.perform([a_removal("removal", submission="theirs")])
    assert [RefusalKind.CONFLICT] == [refusal.kind for refusal in refused.value.refusals]
    assert [("promoted",)] == books.rows("SELECT state FROM submissions WHERE submission_id = 'theirs'")


def test_S18_a_nonce_that_came_with_other_content_is_refused():
    """The same request under its nonce is a repetition, another one is not done."""
    books = Books(BEST)
    books.perform([a_write("one", 1)], nonce="a")
    [again], changes = books.perform([a_write("one", 1)], nonce="a")
    assert (False, []) == (again.is_new, changes)
    with pytest.raises(NonceReused):
        books.perform([a_write("two", 2)], nonce="a")
    assert ["one"] == [each.submission_id for each in books.promoted()]


def test_T02_the_ledger_takes_nothing_of_a_revoked_key():
    """From the commit of the revocation on, whatever an edge still believes; not even a repetition."""
    books = Books(BEST)
    books.perform([a_write("one", 1)], nonce="a")
    assert books.do(queries.revoke_server_key(KEY_ID, now_ms=NOON_MS))
    assert not books.do(queries.revoke_server_key(KEY_ID, now_ms=NOON_MS))
    for operation in (a_write("one", 1), a_write("two", 2)):
        with pytest.raises(KeyRevoked):
            books.perform([operation], nonce="a")
