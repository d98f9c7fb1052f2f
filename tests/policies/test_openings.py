"""Boards that a family's policy wants open: those that it declares, and those of its schedule."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.declared_boards import AHEAD_MS, Schedule
from policies.errors import PolicyError
from policies.family import Family
from policies.family_policy import FamilyPolicy
from policies.loader import load_policies
from policies.opened_board import OpenedBoard
from policies.openings import declared_boards, scheduled_boards, scheduled_times, with_scheduled_times

HOUR_MS = 3_600_000
NIGHT_MS = 1_795_388_400_000
"""2026-11-22T23:00:00Z."""


def family(folder: Path, **settings: Any) -> Family:
    policy = {"family": "track", "title": "Tracks", "score": {"maximum": 100}, **settings}
    (folder / "track.yaml").write_text(json.dumps(policy))
    return load_policies(folder).families["track"]


def names_at(of: Family, at_ms: int) -> list[str]:
    return [board.board for board in scheduled_boards(of.policy, at_ms)]


def test_declared_boards_are_what_the_file_says(tmp_path: Path):
    """Each has its title, metadata, canonical parameters and bounds; one without them has none."""
    monza = {"title": "Monza", "metadata": {"country": "it"}, "parameters": {"b": 1, "a": 2}}
    wanted = {"monza": {**monza, "bounds": {"score": {"maximum": 50}}}, "spa": {"title": "Spa"}}
    tracks = family(tmp_path, boards=wanted)
    first, second = declared_boards(tracks.policy)
    assert ("track.monza", "Monza", {"country": "it"}, b'{"a":2,"b":1}') == (
        first.board,
        first.title,
        first.metadata,
        first.parameters,
    )
    assert (50, 100) == tuple(tracks.board(board).policy.score.maximum for board in (first, second))
    assert (b"", None, None) == (second.parameters, second.bounds, second.opens_at_ms)


@pytest.mark.parametrize(
    ("wrong", "setting", "words"),
    [
        ({"boards": {"a b": {"title": "T"}}}, "boards.a b", "of the form"),
        ({"boards": {"a": {}}}, "boards.a.title", "missing"),
        ({"boards": {"a": {"title": "T", "asset": "x"}}}, "boards.a.asset", "unknown"),
        ({"boards": {"a": {"title": "T"}}, "names": "b"}, "boards.a", "does not match the family"),
        ({"boards": {"a": {"title": "T", "parameters": {"x": "y" * 4096}}}}, "boards.a.parameters", "4096"),
        ({"boards": {"a": {"title": "T", "metadata": {"x": 2**53}}}}, "boards.a.metadata", "beyond"),
        (
            {"boards": {"a": {"title": "T", "bounds": {"score": {"maximum": 101}}}}},
            "boards.a.bounds",
            "narrow",
        ),
        (
            {"boards": {"a": {"title": "T", "metadata": {"n": "x"}}}, "metadata_filters": {"n": "integer"}},
            "boards.a.metadata.n",
            "integer",
        ),
        ({"schedule": "hourly"}, "schedule", "`daily`, `weekly` or `monthly`"),
        ({"schedule": "weekly", "names": "[0-9]{4}-[0-9]{2}"}, "schedule", "no board called 2026-W01"),
        ({"schedule": "daily", "names": "2026-[0-9]{2}-[0-9]{2}"}, "schedule", "no board called 2027-"),
        ({"schedule": "daily", "names": "20[0-9]{2}-0[0-9]-[0-9]{2}"}, "schedule", "no board called 20"),
        ({"schedule": "daily", "names": ["2026-01-01"]}, "schedule", "give a pattern, or no names"),
    ],
)
def test_boards_that_the_family_does_not_allow_are_refused_by_name(
    tmp_path: Path, wrong: dict[str, Any], setting: str, words: str
):
    """The file does not load, and the error names line, board and setting."""
    with pytest.raises(PolicyError) as refused:
        family(tmp_path, **wrong)
    assert str(refused.value).startswith(f"{tmp_path}/track.yaml:1: {setting}")
    assert words in str(refused.value)


def test_a_name_that_the_family_does_not_allow_is_that_of_the_board_itself(tmp_path: Path):
    """The file has no setting `board` below the declared board's name."""
    with pytest.raises(PolicyError, match=r"yaml:1: boards\.a: "):
        family(tmp_path, boards={"a": {"title": "T"}}, names="b")


def test_a_scheduled_board_takes_runs_for_exactly_its_day(tmp_path: Path):
    """From 00:00 UTC to 00:00 UTC; the next day's is wanted from an hour before."""
    daily = family(tmp_path, schedule="daily")
    assert ["track.2026-11-22"] == names_at(daily, NIGHT_MS - 1)
    assert ["track.2026-11-22", "track.2026-11-23"] == names_at(daily, NIGHT_MS)
    assert ["track.2026-11-23"] == names_at(daily, NIGHT_MS + HOUR_MS)
    today, tomorrow = scheduled_boards(daily.policy, NIGHT_MS)
    midnight_ms = NIGHT_MS + HOUR_MS
    assert (midnight_ms - 24 * HOUR_MS, midnight_ms) == (today.opens_at_ms, today.closes_at_ms)
    assert (midnight_ms, midnight_ms + 24 * HOUR_MS) == (tomorrow.opens_at_ms, tomorrow.closes_at_ms)
    assert "Tracks, 2026-11-22" == today.title
    assert not list(scheduled_boards(family(tmp_path).policy, NIGHT_MS))


@pytest.mark.parametrize("schedule", Schedule)
def test_a_scheduled_board_may_be_opened_however_long_its_familys_title_is(
    tmp_path: Path, schedule: Schedule
):
    """The title gives way to the time, without which its boards could not be told apart."""
    long = family(tmp_path, schedule=schedule.value, title="T" * 80)
    for board in scheduled_boards(long.policy, NIGHT_MS):
        long.refuse(board)
        assert (80, f", {board.rest}") == (len(board.title), board.title[-len(board.rest) - 2 :])


@pytest.mark.parametrize(
    ("schedule", "zone", "name", "hours"),
    [
        ("weekly", "UTC", "2026-W47", 168),
        ("monthly", "UTC", "2026-11", 720),
        ("daily", "Pacific/Auckland", "2026-11-23", 24),
    ],
)
def test_other_schedules_follow_the_familys_calendar(
    tmp_path: Path, schedule: str, zone: str, name: str, hours: int
):
    """Weeks and months are named as ISO 8601 does; days begin at 00:00 of the family's time zone."""
    [board] = scheduled_boards(family(tmp_path, schedule=schedule, time_zone=zone).policy, NIGHT_MS - HOUR_MS)
    assert (name, hours * HOUR_MS) == (board.rest, (board.closes_at_ms or 0) - (board.opens_at_ms or 0))


@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 4_000_000_000_000),
    st.sampled_from(Schedule),
    st.sampled_from(["UTC", "Europe/Rome", "Asia/Gaza"]),
)
def test_at_every_instant_one_board_takes_runs(at_ms: int, schedule: Schedule, zone: str):
    """No two overlap and none is missing; the board of the next window is wanted before it begins."""
    policy = {"family": "f", "title": "T", "score": {"maximum": 1}, "schedule": schedule, "time_zone": zone}
    family_policy = FamilyPolicy.model_validate(policy)
    boards = list(scheduled_boards(family_policy, at_ms))
    for board in boards:
        assert (board.opens_at_ms, board.closes_at_ms) == scheduled_times(family_policy, board.rest)
    assert 1 == sum(board.takes_runs_at(at_ms) for board in boards)
    end_ms = boards[0].closes_at_ms or 0
    assert [end_ms] == [board.opens_at_ms for board in scheduled_boards(family_policy, end_ms - AHEAD_MS)][1:]
    assert boards[0].board != next(scheduled_boards(family_policy, end_ms)).board


@pytest.mark.parametrize("rest", ["2026-02-30", "20261122", "2026-1122", "2026-11", "2026-W47", "special"])
def test_a_name_that_is_no_day_of_the_schedule_has_no_times(tmp_path: Path, rest: str):
    """Neither a day that no calendar has, nor another spelling of one that it has; nor any without a schedule."""
    assert scheduled_times(family(tmp_path, schedule="daily").policy, rest) is None
    assert scheduled_times(family(tmp_path).policy, "2026-11-22") is None


def test_a_declared_board_of_the_schedule_has_the_times_of_its_day(tmp_path: Path):
    """A steward opens it at once, and runs on it only in its time."""
    wanted = {"2026-11-23": {"title": "The great day"}, "special": {"title": "Special"}}
    [day, special] = declared_boards(family(tmp_path, schedule="daily", boards=wanted).policy)
    midnight_ms = NIGHT_MS + HOUR_MS
    assert (midnight_ms, midnight_ms + 24 * HOUR_MS) == (day.opens_at_ms, day.closes_at_ms)
    assert (None, None) == (special.opens_at_ms, special.closes_at_ms)


@pytest.mark.parametrize("opens_at_ms", [None, 5])
@pytest.mark.parametrize("closes_at_ms", [None, 7])
def test_times_that_are_given_go_before_those_of_the_schedule(
    tmp_path: Path, opens_at_ms: int | None, closes_at_ms: int | None
):
    """Each by itself: a server may close the board of a day early, or open it before its day."""
    policy, midnight_ms = family(tmp_path, schedule="daily").policy, NIGHT_MS + HOUR_MS
    opened = OpenedBoard("track.2026-11-23", "track", "T", opens_at_ms=opens_at_ms, closes_at_ms=closes_at_ms)
    timed = with_scheduled_times(policy, opened)
    assert (opens_at_ms or midnight_ms, closes_at_ms or midnight_ms + 24 * HOUR_MS) == (
        timed.opens_at_ms,
        timed.closes_at_ms,
    )
    assert opened == replace(timed, opens_at_ms=opens_at_ms, closes_at_ms=closes_at_ms)
    special = replace(opened, board="track.special")
    assert special == with_scheduled_times(policy, special)
