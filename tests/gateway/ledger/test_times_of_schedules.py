"""Boards of a schedule that somebody opens by hand: they take runs in the time of the schedule, and not before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.edge.servers.family_requests import operation_of
from gateway.ledger.boards.board_rows import BoardOutcome, BoardResult
from gateway.runtime.clock import parse_rfc3339
from gateway.settlement.family_operations import perform
from policies.loader import load_policies
from policies.opened_board import OpenedBoard
from tests.support.boards import board
from tests.support.books import Books

CHRISTMAS = ("2026-12-24T00:00:00Z", "2026-12-25T00:00:00Z")
ADVENT = "2026-11-23T07:00:00Z"
OPENING = {"action": "open", "board": "daily.2026-12-24", "title": "Christmas"}


def at(text: str) -> int:
    return parse_rfc3339(text) or 0


class Day:
    """A ledger in memory, and a family of a daily schedule."""

    def __init__(self, folder: Path) -> None:
        policy = {"family": "daily", "title": "Daily", "score": {"maximum": 100}, "schedule": "daily"}
        (folder / "policies").mkdir()
        (folder / "policies" / "daily.yaml").write_text(json.dumps(policy))
        self.family = load_policies(folder / "policies").families["daily"]
        self.books = Books(board(folder / "other"))

    def do(self, now: str, request: dict[str, Any]) -> BoardResult:
        """What becomes of a request of a server or an operator."""
        work = perform(self.family, [operation_of(self.family, request)], actor="server:eu", at_ms=at(now))
        return self.books.do(work)[0]


@pytest.fixture
def day(tmp_path: Path) -> Day:
    return Day(tmp_path)


def times(opened: OpenedBoard | None) -> tuple[int | None, int | None]:
    assert opened is not None
    return opened.opens_at_ms, opened.closes_at_ms


def test_a_scheduled_board_that_is_opened_early_opens_at_its_time(day: Day):
    """It has the times of its day, as if a steward had opened it; another name of the family has none."""
    opened = day.do(ADVENT, OPENING)
    assert (BoardOutcome.OPENED, tuple(map(at, CHRISTMAS))) == (opened.outcome, times(opened.board))
    assert opened.board
    assert not opened.board.takes_runs_at(at("2026-12-23T23:59:59Z"))
    assert opened.board.takes_runs_at(at(CHRISTMAS[0]))
    special = day.do(ADVENT, {**OPENING, "board": "daily.special"})
    assert (None, None) == times(special.board)


@pytest.mark.parametrize(
    "given", [{"opens_at": "2026-12-01T00:00:00Z"}, {"closes_at": "2026-12-31T00:00:00Z"}]
)
def test_a_time_that_is_given_wins_over_the_schedules(day: Day, given: dict[str, str]):
    """Who wants the board earlier or for longer says so; the other time is the schedule's."""
    opened = day.do(ADVENT, OPENING | given)
    expected = dict(zip(("opens_at", "closes_at"), CHRISTMAS, strict=True)) | given
    assert tuple(map(at, expected.values())) == times(opened.board)


def test_a_day_that_is_over_is_opened_only_with_an_end_to_come(day: Day):
    """Its time is over, so it would take no runs; the refusal asks for another end."""
    refused = day.do("2026-12-26T00:00:00Z", OPENING)
    assert (BoardOutcome.REFUSED, None) == (refused.outcome, refused.board)
    assert (refused.detail or "").startswith("closes_at: is past")
    later = {"closes_at": "2026-12-31T00:00:00Z"}
    assert BoardOutcome.OPENED is day.do("2026-12-26T00:00:00Z", OPENING | later).outcome


@pytest.mark.parametrize("now", ["2026-11-24T00:00:00Z", "2026-12-24T12:00:00Z"])
def test_a_scheduled_board_that_is_reopened_keeps_to_its_time(day: Day, now: str):
    """Whether it was closed before its day or in it; after its day it is open without an end, as others are."""
    day.do(ADVENT, OPENING)
    turn = {"board": "daily.2026-12-24"}
    day.do(now, {"action": "close", **turn})
    reopened = day.do(now, {"action": "reopen", **turn})
    assert (BoardOutcome.CHANGED, tuple(map(at, CHRISTMAS))) == (reopened.outcome, times(reopened.board))
    day.do(CHRISTMAS[1], {"action": "close", **turn})
    again = day.do(CHRISTMAS[1], {"action": "reopen", **turn})
    assert (at(CHRISTMAS[0]), None) == times(again.board)
