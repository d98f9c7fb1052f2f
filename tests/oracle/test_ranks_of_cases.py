"""What a case says that an approval would give is what plain Python says, and what the board then has."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import NamedTuple

import pytest

from gateway.ledger.judgement.cases import background
from gateway.ledger.judgement.promotion_impact import impact_of
from gateway.ledger.queries import submission
from policies.choices import Operator, WindowKind
from policies.fields import SortOrder
from policies.vocabulary import State
from policies.windows import Window
from tests.support.archives import Shelf, a_board
from tests.support.thorough import examples

RUNS = examples(24)
HOUR_MS = 3_600_000
WINDOWS = ["alltime", "daily", "weekly"]


class Run(NamedTuple):
    """A run as it was sent; `seq` is the order of arrival."""

    name: str
    player: str
    score: int
    at_ms: int
    seq: int


def rank_beside(runs: list[Run], run: Run, operator: Operator, sign: int) -> int | None:
    """The unique rank that a run gives its player among these, which have it; None if another one stands."""
    of_player: dict[str, list[Run]] = defaultdict(list)
    for each in runs:
        of_player[each.player].append(each)
    places = {}
    for player, own in of_player.items():
        last = max(own, key=lambda each: (each.at_ms, each.seq))
        if operator is Operator.BEST:
            stands = min(own, key=lambda each: (sign * each.score, each.at_ms, each.seq))
            value = stands.score
        else:
            stands = last
            value = {
                Operator.LATEST: last.score,
                Operator.SUM: sum(each.score for each in own),
                Operator.COUNT: len(own),
            }[operator]
        if player == run.player and operator in (Operator.BEST, Operator.LATEST) and stands != run:
            return None
        places[player] = (sign * value, stands.at_ms, stands.seq)
    return 1 + sum(place < places[run.player] for place in places.values())


@pytest.mark.parametrize("order", SortOrder)
@pytest.mark.parametrize("operator", Operator)
def test_a_case_tells_the_ranks_that_an_approval_gives(operator: Operator, order: SortOrder):
    """On boards of every operator and order, whenever each run was achieved and is decided, or is revoked."""
    chance = random.Random(f"{operator} {order}")
    sign = 1 if order is SortOrder.ASCENDING else -1
    shelf = Shelf(a_board(operator=operator.value, order=order.value, windows=WINDOWS))
    begin_ms, counting, waiting = shelf.clock(), list[Run](), list[Run]()
    shelf.clock.shift(20 * 3600)

    def inside(window: Window, runs: list[Run]) -> list[Run]:
        return [each for each in runs if window.begin_ms <= each.at_ms < window.end_ms]

    def assert_told(run: Run, runs: list[Run]) -> None:
        found = shelf.do(submission(run.name))
        assert found is not None
        windows = [shelf.window(WindowKind(kind), run.at_ms) for kind in WINDOWS]
        due = {each.name: rank_beside(inside(each, runs), run, operator, sign) for each in windows}
        told = shelf.do(background(shelf.board.ranking, found, now_ms=shelf.clock())).ranks
        assert due == told, (run, runs)
        ranks = [rank for rank in due.values() if rank is not None]
        impact = shelf.do(impact_of(shelf.board.ranking, found, 2))
        assert (bool(ranks), min(ranks, default=9) <= 2) == (impact.counts, impact.enters_top), (run, runs)

    for seq in range(RUNS):
        at_ms = begin_ms + chance.randrange(20) * HOUR_MS
        run = Run(f"run-{seq}", chance.choice(["ada", "bob", "cyd", "dan"]), chance.randint(1, 6), at_ms, seq)
        shelf.submit(run.name, run.player, run.score, at_ms=run.at_ms)
        waiting.append(run)
        if chance.random() < 0.7:
            decided = waiting.pop(chance.randrange(len(waiting)))
            assert_told(decided, [*counting, decided])
            shelf.decide(decided.name, State.PROMOTED)
            counting.append(decided)
            assert_told(decided, counting)
        if counting and chance.random() < 0.2:
            shelf.decide(counting.pop(chance.randrange(len(counting))).name, State.REVOKED)
