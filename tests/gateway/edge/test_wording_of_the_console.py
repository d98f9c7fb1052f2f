"""How the console writes numbers, times, names, and where it puts a value beside its expected range."""

from __future__ import annotations

import pytest

from gateway.edge.console import wording
from gateway.edge.console.expected_ranges import range_figure
from gateway.edge.console.refusal_pages import own_path
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.outcomes import ExpectedShown
from gateway.runtime.clock import parse_rfc3339


@pytest.mark.parametrize(
    ("value", "decimals", "shown"),
    [
        (None, 0, "—"),
        (1234567, 0, "1,234,567"),
        (61234, 3, "61.234"),
        (-5, 2, "-0.05"),
        (4.7812, 0, "4.781"),
        (4.0, 0, "4"),
        (12345.678, 0, "12,346"),
        (float("inf"), 0, "inf"),
    ],
)
def test_a_number_is_written_for_people(value: float | None, decimals: int, shown: str):
    """Thousands are set apart, scores have their board's decimals, and measurements no more than tell something."""
    assert shown == wording.number(value, decimals)


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("2026-11-23T11:59:58.500Z", "1.5 s"),
        ("2026-11-23T11:58:00Z", "2 min"),
        ("2026-11-23T12:00:01Z", "0.0 s"),
        ("no moment", ""),
    ],
)
def test_how_long_ago_a_moment_was_is_told(moment: str, told: str):
    """One that an edge with another clock wrote is not to come; what is no moment is not told."""
    now_ms = parse_rfc3339("2026-11-23T12:00:00Z")
    assert told == wording.since(moment, now_ms).replace("\u202f", " ")


def test_a_window_is_named_in_words():
    """A day is a date."""
    names = ["alltime", "daily:20261123", "weekly:2026W48", "monthly:202611", "season:2026-autumn"]
    shown = ["All time", "Day 2026-11-23", "Week 2026-W48", "Month 2026-11", "Season 2026-autumn"]
    assert shown == [wording.window_name(name) for name in names]


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.0.0 Safari/537.36",
            "Chrome 156 on Linux",
        ),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/141.0 Safari/537.36 Edg/141.0", "Edge 141 on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X) Version/19.1 Safari/605", "Safari 19 on macOS"),
        ("<script>evil()</script>", "<script>evil()</script>"),
        ("", "A program without a name"),
    ],
)
def test_a_browser_is_named_in_words(description: str, shown: str):
    """A session is told from others at a glance; what is no known browser is shown as it is."""
    assert shown == wording.browser_name(description)


def test_a_value_lies_beside_its_range():
    """An open end reaches the end of the line, and a value beyond the range is outside of it."""
    figure = range_figure(184.2, ExpectedShown(at_least=None, at_most=120.0, unit=""))
    assert figure is not None
    assert 0 == figure.low < figure.high < figure.value < 100
    low = range_figure(2.0, ExpectedShown(at_least=5.0, at_most=9.0, unit=""))
    assert low is not None
    assert low.value < low.low < low.high < 100
    assert range_figure(1.0, ExpectedShown(at_least=None, at_most=None, unit="")) is None
    assert range_figure(float("nan"), ExpectedShown(at_least=0.0, at_most=1.0, unit="")) is None
    same = range_figure(5.0, ExpectedShown(at_least=5.0, at_most=5.0, unit=""))
    assert same is not None
    assert same.width > 0


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "https://evil.example/console/",
        "/console/../v1",
        "/v1/boards",
        "/console/\\evil",
        "/console/a b",
        "",
    ],
)
def test_M07_nobody_is_sent_away_after_signing_in(path: str):
    """A link to the sign-in page cannot lead to another site, nor out of the console."""
    assert "/console/queue" == own_path(path, "/console/queue")


def test_somebody_is_sent_on_to_the_page_that_they_wanted():
    """A page with its filters is a place to go on to."""
    wanted = "/console/queue?reason=slow-motion&min_age_s=3600"
    assert wanted == own_path(wanted, "/console/queue")


def test_a_refusal_does_not_name_the_field_of_the_api():
    """Who filled in a form reads a sentence."""
    problem = Problem(ProblemType.SCHEMA_VIOLATION, "password: expected 12 to 256 characters")
    assert "Expected 12 to 256 characters" == wording.without_field(problem)
    path = Problem(ProblemType.SCHEMA_VIOLATION, "grants.Two words.[key]: expected a board")
    assert "Expected a board" == wording.without_field(path)
    assert "" == wording.without_field(None)
