"""Archiving: windows that are over keep their final ranks in the ledger, and those are the ledger's."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.ledger.archive import freezing, reading, windows
from gateway.ledger.archive.distribution import archived_distribution, archived_standing
from gateway.ledger.archive.reading import archived_around, archived_beside, archived_page, archived_players
from gateway.ledger.archive.windows import ArchiveStage
from gateway.ledger.standings import anchors
from gateway.ledger.transaction import Query
from gateway.runtime.failpoints import Point, Unforeseen, arm
from gateway.runtime.telemetry import Event
from gateway.steward.archive import archiving
from policies.choices import WindowKind
from policies.errors import ArchiveRefused
from policies.ranking import BoardPlace
from policies.vocabulary import State
from policies.windows import FOREVER_MS, window_at
from tests.support.archives import DAY_S, VARIANTS, Shelf, a_board, board_with
from tests.support.ledger import NOON_MS
from tests.support.thorough import examples

ANCHORED = "SELECT board, window FROM anchored_windows"
RUNS = st.lists(
    st.tuples(
        st.sampled_from("abcde"),  # the player
        st.integers(-3, 3),  # the score
        st.integers(0, 1),  # a statistic
        st.integers(-13 * 3600, 11 * 3600),  # seconds from noon: a few are of the day before
        st.sampled_from(["promoted", "revoked", "pending"]),
        st.sampled_from(["", "promoted", "revoked"]),  # what becomes of it once the window is archived
        st.sampled_from(["", "promoted", "revoked"]),  # and when its standings have gone
    ),
    max_size=12,
)


@settings(max_examples=examples(20), deadline=None)
@given(st.sampled_from(sorted(VARIANTS)), RUNS, st.integers(1, 4))
def test_final_ranks_are_those_of_the_ledger(variant: str, runs: list[Any], rows: int):
    """ROW_NUMBER, RANK and DENSE_RANK over the fold of the log, in slices of any size, also after late decisions."""
    shelf = Shelf(board_with(variant))
    with patch.object(archiving, "SLICE", rows), patch.object(archiving, "PLAYERS", rows):
        for number, (player, score, moves, seconds, state, _, _) in enumerate(runs):
            shelf.submit(f"s{number}", player, score, at_ms=NOON_MS + seconds * 1000, moves=moves)
            turn_to(shelf, f"s{number}", state)
        names = sorted(
            name for (name,) in shelf.rows("SELECT DISTINCT window FROM standings WHERE window <> 'alltime'")
        )
        for days, late in ((80, 5), (1, 6), (0, None)):
            shelf.clock.shift(days * DAY_S)
            shelf.settle_down()
            shelf.assert_archived(*names)
            for number, run in enumerate(runs):
                if late is not None:
                    turn_to(shelf, f"s{number}", run[late])


def turn_to(shelf: Shelf, submission_id: str, state: str) -> None:
    """Decides so, where that is a change."""
    [[now]] = shelf.connection.execute(
        "SELECT state FROM submissions WHERE submission_id = ?", [submission_id]
    )
    ways = {
        ("pending", "promoted"): ["promoted"],
        ("pending", "revoked"): ["promoted", "revoked"],
        ("promoted", "revoked"): ["revoked"],
        ("revoked", "promoted"): ["promoted"],
    }
    for each in ways.get((now, state), []):
        shelf.decide(submission_id, State(each))


def test_a_window_is_frozen_when_it_is_over_and_nothing_in_it_is_pending():
    """Not before its grace has passed; a verdict that is still due is waited for, but not longer than the index holds it."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]), archive_after_s=600)
    today = shelf.window()
    shelf.score("counts")
    shelf.submit("waits", "bob", 5)
    shelf.clock.at_ms = today.end_ms + 599_999
    assert 0 == shelf.step()
    shelf.clock.shift(0.001)
    assert 0 == shelf.step()
    shelf.decide("waits", State.PROMOTED)
    assert 1 == shelf.step()
    assert [(1, 1, 1, "bob", 5, "waits"), (2, 2, 2, "ada", 1, "counts")] == shelf.ranks(today.name)

    tomorrow = shelf.window()
    shelf.score("again")
    shelf.submit("never judged", "bob")
    shelf.clock.at_ms = tomorrow.expires_at_ms - 1
    shelf.settle_down()
    assert [(1, 1, 1, "ada", 1, "again")] == shelf.ranks(tomorrow.name)
    assert "alltime" not in {name for (name,) in shelf.rows("SELECT window FROM archived_windows")}


def test_a_window_that_waits_for_a_verdict_is_looked_at_again_after_a_pause():
    """A steward sleeps until a window is due, and does not look without end at what it cannot freeze yet."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]), archive_after_s=600)
    today = shelf.window()
    shelf.score("counts")
    shelf.submit("waits", "bob", 5)
    due_ms = today.end_ms + 600_000
    assert {today.name: due_ms} == asyncio.run(shelf.archiver.next_looks([today.name]))
    shelf.clock.at_ms = due_ms
    assert 0 == shelf.step()
    assert {today.name: due_ms + archiving.WAIT_MS} == asyncio.run(shelf.archiver.next_looks([today.name]))


def test_each_revision_is_in_the_log_by_its_board_and_window():
    """A window that was frozen, and again after a late decision; what is tidied up is not said."""
    shelf, name = filled(3)
    with capture_logs() as logs:
        shelf.settle_down()
        shelf.decide("s0", State.REVOKED)
        shelf.settle_down()
        shelf.clock.shift(90 * DAY_S)
        shelf.settle_down()
    frozen = {"event": Event.WINDOW_FROZEN, "board": shelf.board.name, "window": name, "log_level": "info"}
    assert [frozen | {"revision": 1}, frozen | {"revision": 2}] == logs


def filled(players: int = 10, **settings: Any) -> tuple[Shelf, str]:
    """A day that is over with this many players, every two of them tied; and its name."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]), **settings)
    for number in range(players):
        shelf.score(f"s{number}", f"p{number}", number // 2)
    name = shelf.window().name
    shelf.clock.shift(DAY_S)
    return shelf, name


def test_the_first_and_the_last_instant_of_a_day_are_its_own():
    """What is still to be judged there is waited for, and what is revoked there makes a new revision of that day alone."""
    shelf = Shelf(a_board(windows=["alltime", "daily"]), archive_after_s=600)
    day = shelf.window(at_ms=NOON_MS + DAY_S * 1000)
    edges = {"before": day.begin_ms - 1, "first": day.begin_ms, "last": day.end_ms - 1, "after": day.end_ms}
    names = [shelf.window(at_ms=at_ms).name for at_ms in edges.values()]
    for number, (run, at_ms) in enumerate(edges.items()):
        shelf.score(run, f"p{number}", number, at_ms=at_ms)
    shelf.submit("waits", "bob", 7, at_ms=day.begin_ms)
    shelf.clock.at_ms = day.end_ms + 600_000
    shelf.step()
    assert None is shelf.archived(day.name)
    shelf.decide("waits", State.PROMOTED)
    shelf.clock.at_ms = day.end_ms + (DAY_S + 600) * 1000
    for revision, run in enumerate(("first", "last"), start=1):
        shelf.settle_down()
        shelf.assert_archived(*names)
        assert [1, revision, 1] == [shelf.archived(name).revision for name in dict.fromkeys(names)]
        shelf.decide(run, State.REVOKED)
    shelf.settle_down()
    shelf.assert_archived(*names)
    assert [(1, 1, 1, "bob", 7, "waits")] == shelf.ranks(day.name)


@pytest.mark.parametrize("slices", [1, 2, 3])
def test_a_steward_that_dies_is_gone_on_from_by_the_next(slices: int, monkeypatch: pytest.MonkeyPatch):
    """What was written stays, whoever comes next writes the rest, and readers see nothing of it before it is whole."""
    monkeypatch.setattr(archiving, "SLICE", 3)
    shelf, name = filled()
    for _ in range(slices):
        arm(Point.INSIDE_ARCHIVE, died)
        with pytest.raises(Unforeseen):
            asyncio.run(shelf.another_archiver().step())
        assert shelf.do(archived_page("tiny", name, first=0, count=10)) is None
        assert_unreadable(shelf, name)
    written = 3 * slices
    assert [(written,)] == shelf.rows("SELECT count(*) FROM archived_entries")

    shelf.writes = 0
    shelf.step()
    begun_ended_and_swept = 3
    assert (10 - written) // 3 + 1 + begun_ended_and_swept == shelf.writes
    assert 1 == shelf.archived(name).revision
    listed = shelf.do(windows.readable_before("tiny", (FOREVER_MS, "~"), WindowKind.DAILY, count=10))
    assert [(name, 10)] == [(each.window, each.entries) for each in listed]
    shelf.settle_down()
    shelf.assert_archived(name)


def test_what_was_folded_for_a_build_that_is_void_opens_no_other():
    """A steward that slept while another began anew: the later build is copied once all of it is folded, and not before."""
    shelf, name = filled(3)
    window, today = window_at(shelf.board.policy, WindowKind.DAILY, NOON_MS), shelf.archiver._todays_policy()
    slept = shelf.do(windows.begin("tiny", window, today))
    shelf.decide("s0", State.REVOKED)
    begun = shelf.do(windows.begin("tiny", window, today))
    assert (1, 2) == (slept.building, begun.building)
    assert 0 == shelf.do(freezing.mark_folded(slept))
    assert ArchiveStage.FOLDING is shelf.archived(name).stage
    assert 1 == shelf.do(freezing.mark_folded(begun))
    assert ArchiveStage.COPYING is shelf.archived(name).stage


def assert_unreadable(shelf: Shelf, name: str) -> None:
    """It is in no list, and has neither a distribution nor anybody's standing."""
    assert [] == shelf.do(windows.readable_before("tiny", (FOREVER_MS, "~"), None, count=10))
    assert shelf.do(archived_distribution("tiny", name, [1], [50])) is None
    assert shelf.do(archived_standing("tiny", name, "p1")) is None


def died() -> None:
    raise Unforeseen


def test_no_transaction_is_longer_than_a_slice(monkeypatch: pytest.MonkeyPatch):
    """Freezing, sweeping and thinning take a transaction for each so many rows, and writers come between them."""
    monkeypatch.setattr(archiving, "SLICE", 2)
    shelf, name = filled()
    before = shelf.connection.total_changes
    longest = 0
    do = shelf.do

    def watched(work: Any) -> Any:
        nonlocal before, longest
        before = shelf.connection.total_changes
        result = do(work)
        longest = max(longest, shelf.connection.total_changes - before)
        return result

    shelf.do = watched  # type: ignore[method-assign]
    shelf.settle_down()
    shelf.decide("s1", State.REVOKED)
    shelf.clock.shift(2 * DAY_S)
    shelf.settle_down()
    shelf.do = do  # type: ignore[method-assign]
    shelf.assert_archived(name)
    assert ArchiveStage.KEPT is shelf.archived(name).stage
    assert 12 > longest  # two rows and what is noted of them; a decision writes seven


def test_a_late_decision_makes_a_new_revision_when_it_has_been_quiet():
    """Until then, and while it is built, the one before is read whole; then the new one at once, and the old one goes."""
    shelf, name = filled(4)
    shelf.settle_down()
    before = shelf.ranks(name)
    shelf.decide("s3", State.REVOKED)
    assert 0 == shelf.step()
    assert before == shelf.ranks(name)

    shelf.clock.shift(archiving.QUIET_MS / 1000)
    with patch.object(archiving, "SLICE", 1):
        arm(Point.INSIDE_ARCHIVE, died)
        with pytest.raises(Unforeseen):
            shelf.step()
        assert before == shelf.ranks(name)
        shelf.clock.shift(1)
        shelf.step()
    assert (2, 3) == (shelf.archived(name).revision, shelf.archived(name).entries)
    assert "p3" not in {each[3] for each in shelf.ranks(name)}
    shelf.settle_down()
    shelf.assert_archived(name)


def test_each_late_decision_waits_for_a_quiet_of_its_own():
    """However long ago the one before was: its waiting ended with its revision."""
    shelf, name = filled(4)
    shelf.settle_down()
    for revision, submission in enumerate(("s3", "s2"), start=2):
        shelf.decide(submission, State.REVOKED)
        assert 0 == shelf.step()
        shelf.clock.shift(archiving.QUIET_MS / 1000)
        shelf.step()
        assert revision == shelf.archived(name).revision
        shelf.clock.shift(archiving.LONGEST_MS / 1000)
        shelf.settle_down()


def test_a_change_while_a_revision_is_built_voids_it(monkeypatch: pytest.MonkeyPatch):
    """An entry that was copied before it changed is never put in place; the build begins again."""
    monkeypatch.setattr(archiving, "SLICE", 1)
    shelf, name = filled(4)
    shelf.submit("late", "p0", 19, at_ms=shelf.clock() - DAY_S * 1000)
    shelf.clock.at_ms = shelf.archiver._window_named(name).expires_at_ms
    arm(Point.INSIDE_ARCHIVE, lambda: shelf.decide("late", State.PROMOTED))
    shelf.step()
    assert (2, 2) == (shelf.archived(name).revision, shelf.archived(name).building)
    assert [(1, 1, 1, "p0", 19, "late")] == shelf.ranks(name)[:1]
    shelf.settle_down()
    shelf.assert_archived(name)


def test_a_window_that_others_build_all_the_time_waits_for_its_next_turn(monkeypatch: pytest.MonkeyPatch):
    """It is given up after some attempts, so that others have their turn, and frozen when they are done."""
    shelf, name = filled(4)
    states = {True: State.REVOKED, False: State.PROMOTED}
    count = 0
    fold = archiving.Archiver._fold

    async def disturbed(self: Any, found: Any) -> None:
        nonlocal count
        await fold(self, found)
        count += 1
        shelf.decide("s0", states[count % 2 == 1])
        shelf.do(windows.begin("tiny", found.span, self._todays_policy()))  # another steward begins

    monkeypatch.setattr(archiving.Archiver, "_fold", disturbed)
    shelf.step()
    assert (0, 2 * archiving.ATTEMPTS) == (shelf.archived(name).revision, count)
    with pytest.raises(ArchiveRefused, match="other stewards keep building"):
        asyncio.run(shelf.archiver.freeze_now(name))
    monkeypatch.setattr(archiving.Archiver, "_fold", fold)
    shelf.settle_down()
    shelf.assert_archived(name)


def test_standings_of_an_archived_window_leave_the_ledger_and_are_folded_again_when_needed():
    """An hour after the index forgot it; a late decision brings every one of them back for the next revision."""
    shelf, name = filled(6)
    window = shelf.archiver._window_named(name)
    shelf.settle_down()
    count = f"SELECT count(*) FROM standings WHERE window = '{name}'"
    shelf.clock.at_ms = window.expires_at_ms + archiving.THIN_AFTER_MS - 100_000
    shelf.settle_down()
    assert [(6,)] == shelf.rows(count)
    shelf.clock.shift(60)
    shelf.settle_down()
    assert ([(0,)], ArchiveStage.KEPT) == (shelf.rows(count), shelf.archived(name).stage)

    shelf.decide("s5", State.REVOKED)
    assert [(1,)] == shelf.rows(count)
    shelf.settle_down()
    assert (2, 5, ArchiveStage.KEPT) == tuple(
        getattr(shelf.archived(name), each) for each in ("revision", "entries", "stage")
    )
    shelf.assert_archived(name)


def test_the_anchors_of_a_window_leave_the_ledger_with_its_standings(monkeypatch: pytest.MonkeyPatch):
    """They count standings that are no longer there, and would be added to the ranks of those that come back."""
    for name, value in {"SPACING": 2, "LEAST": 3}.items():
        monkeypatch.setattr(anchors, name, value)
    shelf, name = filled(6)
    ranking = shelf.board.ranking
    assert 1 == shelf.do(anchors.tend_anchors(ranking, name))
    assert 1 <= shelf.do(anchors.respace(ranking, name, *shelf.do(anchors.spacing_of(ranking, name))))
    assert [(shelf.board.name, name)] == shelf.rows(ANCHORED)
    shelf.settle_down()
    shelf.clock.at_ms = shelf.archiver._window_named(name).expires_at_ms + archiving.THIN_AFTER_MS
    shelf.settle_down()
    assert [] == shelf.rows(ANCHORED)
    assert [(0,)] == shelf.rows("SELECT count(*) FROM rank_anchors")


def test_a_window_keeps_the_policy_that_it_was_frozen_under():
    """A season that was won by the best score is not turned into one of sums by a later policy and a late decision.

    Late and revoked runs are of the day that they were in by then, though of the next by the later policy's zone.
    """
    shelf, name = filled(4)
    shelf.score("more", "p0", 1, at_ms=NOON_MS)
    shelf.score("wrong", "p8", 1, at_ms=NOON_MS + 8 * 3_600_000)
    shelf.settle_down()
    shelf.board = a_board(
        windows=["alltime", "daily"], operator="sum", order="ascending", time_zone="Asia/Tokyo"
    )
    shelf.archiver = shelf.another_archiver()
    shelf.settle_down()
    assert 1 == shelf.archived(name).revision
    shelf.decide("s3", State.REVOKED)
    shelf.decide("wrong", State.REVOKED)
    shelf.score("late", "p9", 1, at_ms=NOON_MS + 8 * 3_600_000)
    shelf.settle_down()
    shelf.assert_archived(name)
    assert (2, ["p2", "p0", "p9", "p1"]) == (
        shelf.archived(name).revision,
        [each[3] for each in shelf.ranks(name)],
    )


def test_standings_of_an_older_policy_are_folded_before_they_are_frozen():
    """A window that is over is frozen by one policy alone, also where nobody ran `board refold`."""
    shelf, name = filled(4)
    shelf.score("more", "p0", 1, at_ms=NOON_MS)
    shelf.board = a_board(windows=["alltime", "daily"], order="ascending")
    shelf.archiver = shelf.another_archiver()
    shelf.settle_down()
    shelf.assert_archived(name)
    assert ["p0", "p1", "p2", "p3"] == [each[3] for each in shelf.ranks(name)]


def entries_of(shelf: Shelf, name: str) -> dict[str, list[str]]:
    """The players that each way to ask finds in a window that the archive knows."""
    beside = {"place": BoardPlace(-100, ""), "is_behind": True, "is_included": True, "count": 9}
    asked: dict[str, Any] = {
        "page": archived_page("tiny", name, first=0, count=9),
        "around": archived_around("tiny", name, "p1", 9),
        "players": archived_players("tiny", name, ["p1"]),
        "beside": archived_beside("tiny", name, **beside),
    }
    found = {how: shelf.do(each) for how, each in asked.items()}
    return {how: [each.player for each in page.entries] for how, page in found.items() if page}


def test_archives_are_kept_for_as_long_as_the_settings_say():
    """For ever by default; else entries go, slice by slice, and so does what a later decision folds."""
    shelf, name = filled(4)
    shelf.clock.shift(4000 * DAY_S)
    shelf.settle_down()
    shelf.assert_archived(name)

    shelf, name = filled(4, archive_keep_days=30)
    shelf.clock.shift(29 * DAY_S)
    shelf.settle_down()
    shelf.assert_archived(name)
    shelf.clock.shift(2 * DAY_S)
    shelf.settle_down()
    assert (ArchiveStage.FORGOTTEN, False) == (shelf.archived(name).stage, shelf.archived(name).is_readable)
    assert {"page": [], "around": [], "players": [], "beside": []} == entries_of(shelf, name)
    assert_unreadable(shelf, name)
    shelf.decide("s1", State.REVOKED)
    shelf.settle_down()
    left = f"SELECT (SELECT count(*) FROM archived_entries), (SELECT count(*) FROM standings WHERE window = '{name}')"
    assert [(0, 0)] == shelf.rows(left)
    with pytest.raises(ArchiveRefused, match="SCOREGATE_ARCHIVE_KEEP_DAYS"):
        asyncio.run(shelf.archiver.freeze_now(name))


def test_the_clock_goes_over_rollovers_with_changes_of_time_and_seasons():
    """Every day, week, month and season of Berlin's spring is archived by itself, and each run is in its own."""
    kinds = ["alltime", "daily", "weekly", "monthly", "season"]
    board = a_board(windows=kinds, time_zone="Europe/Berlin", season="0 10 1 */3 *")
    begin = int(datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp() * 1000)
    shelf, played = Shelf(board, at_ms=begin, archive_after_s=60), []
    for turn in range(
        14
    ):  # every eleven hours, over the 29th of March, which has 23 of them, and the 1st of April
        played.append(shelf.clock())
        shelf.score(f"s{turn}", f"p{turn % 3}", turn % 4)
        shelf.clock.shift(11 * 3600)
        shelf.step()
        over = {
            window.name
            for kind in WindowKind
            for at_ms in played
            if (window := window_at(board.policy, kind, at_ms)).end_ms + 60_000 <= shelf.clock()
        }
        assert over == {
            name for (name,) in shelf.rows("SELECT window FROM archived_windows WHERE revision > 0")
        }
    shelf.settle_down()
    shelf.assert_archived(*over)
    short = shelf.archived("daily:20260329")
    assert 23 * 3_600_000 == short.end_ms - short.begin_ms
    assert {"weekly:2026W13", "monthly:202603", "season:202601011000"} < over
    shelf.clock.shift(200 * DAY_S)
    shelf.settle_down()
    kept = {name for (name,) in shelf.rows("SELECT DISTINCT window FROM standings")}
    assert {"alltime"} == kept


def test_a_player_is_found_by_index_with_neighbours_and_among_others():
    """Around a player, a player that is not there, and some of them by name; each with the revision that it is of."""
    shelf, name = filled(8)
    assert shelf.do(archived_page("tiny", name, first=0, count=2)) is None
    shelf.settle_down()

    def players(found: Any) -> list[str]:
        assert 1 == found.window.revision
        return [each.player for each in found.entries]

    assert ["p0", "p1"] == players(shelf.do(archived_page("tiny", name, first=6, count=5)))
    assert ["p7", "p4", "p5"] == players(shelf.do(archived_around("tiny", name, "p4", 1)))
    assert ["p6", "p7"] == players(shelf.do(archived_around("tiny", name, "p6", 1)))
    assert ["p6", "p7", "p4", "p5"] == players(shelf.do(archived_around("tiny", name, "p7", 2)))
    assert ["p3", "p0", "p1"] == players(shelf.do(archived_around("tiny", name, "p1", 2)))
    assert ["p1"] == players(shelf.do(archived_around("tiny", name, "p1", 0)))
    assert [] == players(shelf.do(archived_around("tiny", name, "nobody", 3)))
    assert ["p7", "p2"] == players(shelf.do(archived_players("tiny", name, ["p2", "nobody", "p7"])))
    for work in (
        archived_around("tiny", "daily:19990101", "p4", 1),
        archived_players("tiny", "daily:19990101", ["p4"]),
    ):
        assert shelf.do(work) is None


def test_what_the_archive_is_asked_are_searches_by_index():
    """Top, around, one player, and every step of building and removing a revision; nothing is sorted but a few rows."""
    shelf, _ = filled(0)
    modules = [vars(module).items() for module in (freezing, reading, windows)]
    asked = {name: query for module in modules for name, query in module if isinstance(query, Query)}
    assert {"_PAGE", "_COPY", "_READABLE"} < asked.keys()
    for name, query in asked.items():
        values = dict.fromkeys(re.findall(r":(\w+)", query.sqlite), 1)
        plan = shelf.connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", query.values(values)).fetchall()
        details = {row[3] for row in plan}
        assert [] == [each for each in details if re.match(r"SCAN (?!anon_|\(subquery)", each)], name
        if name != "_COPY":  # it ranks the rows of one slice
            assert not any("TEMP B-TREE" in each for each in details), (name, details)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("daily:19990101", "has no standings"),
        ("hourly", "has no standings"),
        ("alltime", "not over"),
        ("today", "not over"),
    ],
)
def test_only_windows_that_are_over_are_frozen_by_hand(name: str, why: str):
    """And only those in which somebody stands."""
    shelf, yesterday = filled(2)
    shelf.score("now")
    with pytest.raises(ArchiveRefused, match=why):
        asyncio.run(shelf.archiver.freeze_now(shelf.window().name if name == "today" else name))
    shelf.submit("waits", at_ms=NOON_MS)
    assert 1 == asyncio.run(shelf.archiver.freeze_now(yesterday)).revision
