"""What is over: who was on the board as a window ended stays in it, and late changes reach it in bounded time."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.ledger.archive import freezing
from gateway.ledger.archive.windows import ArchiveStage, mark_changed
from gateway.ledger.players import joins
from gateway.ledger.players.joins import CHANGES_KEPT
from gateway.settlement.joins import set_joined
from gateway.steward.archive import archiving
from policies.vocabulary import State
from tests.support.archives import DAY_S, Shelf, a_board


def league() -> Shelf:
    return Shelf(a_board(windows=["alltime", "daily"], joins="required"))


def turn(shelf: Shelf, player: str, *, joins_now: bool) -> None:
    change = set_joined(shelf.board, player, joins_now=joins_now, actor="test", now_ms=shelf.clock())
    assert shelf.do(change)


def players(shelf: Shelf, name: str) -> list[str]:
    return [each[3] for each in shelf.ranks(name)]


@pytest.mark.parametrize("changed", ["before it is archived", "after", "when its standings have gone"])
def test_B07_who_leaves_or_joins_after_the_end_changes_nothing_in_what_is_over(changed: str):
    """Whenever they do, and whatever comes by later: a late score of theirs, or of somebody else, in that window."""
    shelf = league()
    ended_ms = shelf.clock()
    for player, score in (("ada", 9), ("bob", 5), ("cy", 7)):
        if player != "cy":
            turn(shelf, player, joins_now=True)
        shelf.score(f"{player}-1", player, score)
        for late in (2, 3):
            shelf.submit(f"{player}-{late}", player, score + late, at_ms=ended_ms)
    name = shelf.window().name
    shelf.clock.at_ms = (
        shelf.window().expires_at_ms if changed != "before it is archived" else ended_ms + DAY_S * 1000
    )
    if changed == "when its standings have gone":
        shelf.settle_down()
        shelf.clock.shift(60 * DAY_S)
    if changed != "before it is archived":
        shelf.settle_down()
    turn(shelf, "ada", joins_now=False)
    turn(shelf, "cy", joins_now=True)
    shelf.clock.at_ms = max(shelf.clock(), shelf.archiver._window_named(name).expires_at_ms)
    shelf.settle_down()
    assert ["ada", "bob"] == players(shelf, name)
    for late, player in ((2, "bob"), (2, "cy"), (2, "ada"), (3, "bob")):
        shelf.decide(f"{player}-{late}", State.PROMOTED)
        shelf.settle_down()
    assert ["ada", "bob"] == players(shelf, name)
    assert ["ada-2", "bob-3"] == [each[5] for each in shelf.ranks(name)]


def test_B07_what_is_not_over_follows_who_is_on_the_board_now():
    """In open windows and in the one of all time who leaves is gone, and back when they join again."""
    shelf = league()
    turn(shelf, "ada", joins_now=True)
    shelf.score("one", "ada", 3)
    told = []
    for joins_now in (False, True):
        turn(shelf, "ada", joins_now=joins_now)
        told.append(shelf.rows("SELECT window FROM standings WHERE score IS NOT NULL ORDER BY window"))
    assert [[], [("alltime",), (shelf.window().name,)]] == told


def test_B07_who_joins_and_leaves_for_ever_has_a_bounded_past():
    """The oldest changes go; what was before those that are left is still known, since they take turns."""
    shelf, begun_ms = league(), 0
    for at in range(CHANGES_KEPT + 5):
        turn(shelf, "ada", joins_now=at % 2 == 0)
        begun_ms = begun_ms or shelf.clock()
        shelf.clock.shift(1)
    [[count]] = shelf.rows("SELECT count(*) FROM join_changes")
    oldest_ms = begun_ms + 5_000
    asked = [begun_ms + 1 + at * 1000 for at in range(4, CHANGES_KEPT + 5)]
    found = [shelf.do(lambda tx, at=at: joins.was_joined(tx, "tiny", "ada", at)) for at in asked]
    assert CHANGES_KEPT == count
    assert [at % 2 == 0 for at in range(4, CHANGES_KEPT + 5)] == found
    assert shelf.do(lambda tx: joins.was_joined(tx, "tiny", "ada", oldest_ms))


def test_B08_a_window_with_a_late_write_every_few_seconds_has_its_revision_in_bounded_time():
    """It does not wait for a quiet that never comes: a removed cheat is gone after LONGEST_MS at most."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]))
    late, ended_ms = 40, shelf.clock()
    shelf.score("cheat", "eve", 20)
    for at in range(late):
        shelf.submit(f"late-{at}", f"p{at}", 1, at_ms=ended_ms)
    name = shelf.window().name
    shelf.clock.at_ms = shelf.window().expires_at_ms
    shelf.settle_down()
    shelf.decide("cheat", State.REVOKED)
    waited_ms, at = 0, 0
    while "eve" in players(shelf, name):
        shelf.step()
        shelf.decide(f"late-{at}", State.PROMOTED)
        shelf.clock.shift(12)
        waited_ms, at = waited_ms + 12_000, at + 1
    assert archiving.QUIET_MS < waited_ms <= archiving.LONGEST_MS + 12_000
    shelf.settle_down()
    shelf.assert_archived(name)


def test_B08_a_window_that_changed_since_a_steward_looked_keeps_its_standings():
    """Or the next revision would lack who came late: what is removed is folded again from the earlier one alone."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]))
    shelf.score("one", "ada", 3)
    shelf.submit("late", "bob", 5)
    name = shelf.window().name
    shelf.clock.at_ms = shelf.window().expires_at_ms
    shelf.settle_down()
    seen = shelf.archived(name)
    assert seen is not None
    assert (ArchiveStage.FROZEN, 0, ["ada"]) == (seen.stage, seen.changed_seq, players(shelf, name))
    shelf.decide("late", State.PROMOTED)
    assert 0 == shelf.do(freezing.thin_slice(seen, count=9))
    shelf.settle_down()
    assert ["bob", "ada"] == players(shelf, name)
    shelf.assert_archived(name)


@pytest.mark.parametrize("is_late_under_another_policy", [False, True])
def test_B08_a_build_that_takes_longer_than_the_gap_between_late_writes_is_done_at_once(
    monkeypatch: pytest.MonkeyPatch, *, is_late_under_another_policy: bool
):
    """Though something changes the window after each slice, a revision comes in one round, and it is the ledger's."""
    monkeypatch.setattr(archiving, "SLICE", 2)
    shelf = Shelf(a_board(windows=["alltime", "daily"]))
    shelf.score("cheat", "eve", 20)
    for number in range(9):
        shelf.score(f"s{number}", f"p{number}", number // 2)
    name = shelf.window().name
    shelf.clock.shift(DAY_S)
    shelf.settle_down()
    if is_late_under_another_policy:
        shelf.board = a_board(windows=["alltime", "daily"], order="ascending")
        shelf.archiver = shelf.another_archiver()
    late = 0

    async def written(work: Any) -> Any:
        nonlocal late
        result = shelf.do(work)
        if late < 100 and shelf.archived(name).stage.is_building:
            late += 1
            shelf.score(f"late-{late}", f"p{late % 9}", late % 20, at_ms=shelf.clock() - DAY_S * 1000)
        return result

    monkeypatch.setattr(shelf, "write", written)
    shelf.decide("cheat", State.REVOKED)
    shelf.step()
    shelf.clock.shift(archiving.QUIET_MS / 1000)
    shelf.step()
    assert archiving.ATTEMPTS + 2 == shelf.archived(name).revision
    assert shelf.due_ranks(name) == shelf.ranks(name)
    assert "eve" not in players(shelf, name)
    assert 0 < late < 100
    shelf.settle_down()
    shelf.assert_archived(name)


def test_W05_one_change_of_runs_in_several_archived_windows_reaches_each_of_them():
    """Also the oldest: a player's conviction revokes runs of many days at once."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]))
    names, times = [], []
    for day in range(3):
        names.append(shelf.window().name)
        times.append(shelf.clock())
        shelf.score(f"run-{day}", "ada", 3 + day)
        shelf.clock.at_ms = shelf.window().expires_at_ms
        shelf.settle_down()
    shelf.do(lambda tx: mark_changed(tx, "tiny", {times[2]: 99, times[0]: 98}))
    found = [seen.changed_seq for name in names if (seen := shelf.archived(name))]
    assert [98, 0, 99] == found
