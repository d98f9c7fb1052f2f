"""Baselines on every ledger: what is kept of the newest is read again where something ceases to count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from gateway.ledger import index_pages, queries
from gateway.ledger.ledger import Ledger
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.shared_records import Change, StoredBaseline
from policies.choices import Operator
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.support.books import board_of
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in
from validators import baseline

BOARD = board_of(Operator.BEST, SortOrder.DESCENDING)


class Nowhere:
    """An index that everything is shown to in vain."""

    async def project(self, board, changes: Sequence[Change]) -> None:
        """Nothing."""


@pytest.fixture
async def ledger(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ledger]:
    monkeypatch.setattr(baseline, "PLAYER_RECENT", 3)
    monkeypatch.setattr(baseline, "POPULATION_RECENT", 3)
    async with open_in(store) as running:
        yield running


async def known(ledger: Ledger) -> dict[str, tuple[int, tuple[int, ...], int | None, int | None]]:
    stored: list[StoredBaseline] = await ledger.read(queries.baselines_page("tiny", after=None, count=9))
    return {each.player: (each.count, each.scores, each.lowest, each.highest) for each in stored}


async def decide(ledger: Ledger, to_state: State, *runs: str, board: Board = BOARD) -> None:
    asked = [
        Decision(run, to_state, "replay", Reason.VERIFIED, NOON_MS + 1, frozenset(State)) for run in runs
    ]
    changes = await settle(ledger, Nowhere(), board, asked)
    assert all(isinstance(each, Change) for each in changes)


async def test_V05_a_revoked_score_leaves_no_trace_among_the_newest(ledger: Ledger):
    """Five runs of two builds, windows of three; the newest and best is revoked, and comes back."""
    runs = [("r0", "b1", 5), ("r1", "b1", 7), ("r2", "b2", 4), ("r3", "b2", 6), ("r4", "b2", 99)]
    for at, (run, build, score) in enumerate(runs):
        await ledger.append(new_submission(run, build=build, score=score, at_ms=NOON_MS + at))
    names = [run for run, _, _ in runs]
    await decide(ledger, State.PROMOTED, *names[:4])
    without = {
        "": (4, (7, 4, 6), 4, 7), "@b1": (2, (5, 7), 5, 7), "@b2": (2, (4, 6), 4, 6), "ada": (4, (7, 4, 6), 4, 7)
    }  # fmt: skip
    assert without == await known(ledger)
    await decide(ledger, State.PROMOTED, "r4")
    entire = {
        "": (5, (4, 6, 99), 4, 99), "@b1": (2, (5, 7), 5, 7), "@b2": (3, (4, 6, 99), 4, 99), "ada": (5, (4, 6, 99), 4, 99)
    }  # fmt: skip
    assert entire == await known(ledger)
    await decide(ledger, State.REVOKED, "r4")
    assert without == await known(ledger)
    await decide(ledger, State.REVOKED, *names[:4])
    assert dict.fromkeys(without, (0, (), None, None)) == await known(ledger)


async def test_a_score_of_another_board_teaches_this_one_nothing(ledger: Ledger):
    """Though its player and its build are the same; also where the newest are read again."""
    for board, scores in (("other", (90, 91, 92)), ("tiny", (5, 7, 4, 6))):
        for at, score in enumerate(scores):
            run = f"{board}-{at}"
            await ledger.append(new_submission(run, board=board, build="b1", score=score, at_ms=NOON_MS + at))
    other = replace(BOARD, policy=BOARD.policy.model_copy(update={"board": "other"}))
    await decide(ledger, State.PROMOTED, *(f"other-{at}" for at in range(3)), board=other)
    await decide(ledger, State.PROMOTED, *(f"tiny-{at}" for at in range(4)))
    await decide(ledger, State.REVOKED, "tiny-3")
    assert dict.fromkeys(("", "@b1", "ada"), (3, (5, 7, 4), 4, 7)) == await known(ledger)


@pytest.mark.parametrize("operator", Operator)
async def test_scores_below_zero_are_folded_on_every_ledger(ledger: Ledger, operator: Operator):
    """By each operator, as the first score and after a revocation, which both fold all that counts."""
    board = board_of(operator, SortOrder.DESCENDING)
    runs = [("r0", -5), ("r1", -7), ("r2", -(2**33))]
    for at, (run, score) in enumerate(runs):
        await ledger.append(new_submission(run, score=score, at_ms=NOON_MS + at))

    async def stands(to_state: State, *names: str) -> int | None:
        asked = [
            Decision(each, to_state, "replay", Reason.VERIFIED, NOON_MS + 9, frozenset(State))
            for each in names
        ]
        assert {Change} == {type(each) for each in await settle(ledger, Nowhere(), board, asked)}
        [standing] = await ledger.read(index_pages.standings_of("tiny", {"alltime": ["ada"]}))
        return standing.score

    found = [
        await stands(State.PROMOTED, "r0"),
        await stands(State.PROMOTED, "r1", "r2"),
        await stands(State.REVOKED, "r1"),
    ]
    expected = {
        Operator.BEST: [-5, -5, -5],
        Operator.LATEST: [-5, -(2**33), -(2**33)],
        Operator.SUM: [-5, -12 - 2**33, -5 - 2**33],
        Operator.COUNT: [1, 3, 2],
    }
    assert expected[operator] == found
    assert all(type(score) is int for score in found)


async def test_what_events_touched_includes_the_builds_they_were_played_with(ledger: Ledger):
    """Whoever catches up with events reads the baseline of every population that they taught."""
    for run, build in (("r0", "b1"), ("r1", "b2")):
        await ledger.append(new_submission(run, build=build))
    await decide(ledger, State.PROMOTED, "r0", "r1")
    touched = await ledger.read(index_pages.changes_after("tiny", 3, now_ms=NOON_MS, count=9))
    assert {"", "@b2", "ada"} == {each.player for each in touched.baselines}


async def test_F01_what_a_board_has_missed_is_read_past_all_other_boards(ledger: Ledger):
    """A read gives as many events of the board as it may, however many of others lie between."""
    for number in range(10):
        await ledger.append(new_submission(f"r{number}", board="other" if number % 5 else "tiny"))
    first = await ledger.read(index_pages.changes_after("tiny", 0, now_ms=NOON_MS, count=1))
    assert (["r0"], 1, False) == ([each.submission_id for each in first.events], first.upto, first.is_newest)
    rest = await ledger.read(index_pages.changes_after("tiny", 1, now_ms=NOON_MS, count=9))
    assert (["r5"], 10, True) == ([each.submission_id for each in rest.events], rest.upto, rest.is_newest)
    last = await ledger.read(index_pages.changes_after("tiny", 10, now_ms=NOON_MS, count=9))
    assert ([], 10, True) == (last.events, last.upto, last.is_newest)
