"""What the figures of moderators say of labels and of the queue, computed from rows as the ledger gives them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.edge.moderation.decision_figures import DAYS, decision_figures, share_shown, times_shown
from gateway.edge.moderation.figures import age_of_queue, figures_of
from gateway.edge.wire.moderation_figures import Figures, QueueAge
from gateway.ledger.moderation.labels import DecisionLabel, LabelFilter, NewestLabels
from gateway.ledger.moderation.late_queues import LateQueue
from gateway.ledger.moderation.waiting_cases import WaitingCases
from gateway.runtime.clock import rfc3339
from policies.vocabulary import LATEST_MS, Reason, Severity
from tests.support.ledger import NOON_MS
from validators.backtest import DAY_MS, Proportion
from validators.label_figures import LabelledFinding

EMPTY = QueueAge(waiting=0, is_cut=False, oldest_s=None, median_s=None, late=[])
OPEN = LATEST_MS + 1
"""The end of a time that has none."""


def unusual(value: float) -> LabelledFinding:
    """A finding of the validator of anomalies, whose threshold is 4."""
    return LabelledFinding("anomaly", Reason.ANOMALY_PLAYER.value, Severity.FLAG, value, None, 4.0, "z")


def label(number: int, *findings: LabelledFinding, is_cheat: bool, file: str = "sprint") -> DecisionLabel:
    return DecisionLabel(
        number,
        f"run-{number}",
        file,
        file,
        "b",
        "mara",
        Reason.REJECTED_BY_MODERATOR if is_cheat else Reason.APPROVED,
        "other",
        is_cheat,
        findings,
        NOON_MS,
        NOON_MS + 1_000,
    )


def some_labels(*, cheat: float = 9.0, honest: float = 5.0) -> list[DecisionLabel]:
    """Ten cheats at which something was found, and twelve honest runs of which it was at one."""
    cheats = [label(number, unusual(cheat), is_cheat=True) for number in range(10)]
    clean = [label(number, is_cheat=False) for number in range(10, 21)]
    return [*cheats, label(21, unusual(honest), is_cheat=False), *clean]


def figures(
    labels: list[DecisionLabel], *, board: str | None = None, since_ms: int = 0, until_ms: int = OPEN
) -> Figures:
    wanted = LabelFilter(frozenset({"*"}), board, since_ms, until_ms)
    return figures_of(wanted, NewestLabels(labels, since_ms, is_cut=False), EMPTY)


def test_labels_are_counted_by_what_the_runs_were():
    """Cheats and honest runs, and those at which nothing was found: no threshold says anything of them."""
    shown = figures(some_labels()).labelled
    assert (10, 12, 11) == (shown.cheats, shown.honest, shown.without_findings)


def test_a_mode_says_what_would_have_been_held_and_what_rejected():
    """`flag` holds what was found, `reject` rejects it; not the other way round."""
    [anomaly] = figures(some_labels()).validators
    flag, reject = anomaly.modes["flag"], anomaly.modes["reject"]
    assert ((10, 1), (0, 0)) == (
        (flag.held.cheats, flag.held.honest),
        (flag.rejected.cheats, flag.rejected.honest),
    )
    assert 0 < reject.rejected.cheats


@pytest.mark.parametrize(
    ("board", "since_ms", "rest"),
    [
        (None, 0, ""),
        ("sprint", 0, ""),  # the file is of this one board
        ("track.monza", 0, " --board track.monza"),
        (None, NOON_MS, f" --since {rfc3339(NOON_MS)[:10]}"),
    ],
)
def test_a_suggested_threshold_comes_with_the_command_that_tries_it(
    board: str | None, since_ms: int, rest: str
):
    """On the same board and the same time as the figures."""
    [threshold] = figures(some_labels(), board=board, since_ms=since_ms).thresholds
    assert threshold.suggested is not None
    assert f"scoregate policy backtest sprint.yaml{rest}" == threshold.backtest


def test_where_nothing_is_suggested_there_is_nothing_to_try():
    """Every threshold finds something at too many honest runs."""
    [threshold] = figures(some_labels(cheat=5.0, honest=9.0)).thresholds
    assert (None, None) == (threshold.suggested, threshold.backtest)


def test_labels_of_two_files_say_nothing_of_a_threshold():
    """Each file has its own: a run of another one was measured against another number."""
    assert [] == figures([*some_labels(), label(99, is_cheat=True, file="vault")]).thresholds


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ({}, (None, None)),
        ({"since_ms": NOON_MS}, (rfc3339(NOON_MS), None)),
        ({"until_ms": NOON_MS}, (None, rfc3339(NOON_MS))),
        ({"until_ms": LATEST_MS}, (None, rfc3339(LATEST_MS))),
    ],
)
def test_the_figures_name_the_ends_that_their_time_has(times: dict[str, Any], shown: tuple[str | None, ...]):
    """An end that nobody asked for is null, not the beginning of time."""
    answer = figures([], **times)
    assert shown == (answer.since, answer.until)


def age(*opened_s: int, is_cut: bool = False) -> QueueAge:
    """The ages of cases that began so many seconds before noon."""
    opened_ms = [NOON_MS - s * 1_000 for s in opened_s]
    late = [LateQueue("sprint", "sprint", NOON_MS - 60_000)]
    return age_of_queue(WaitingCases(opened_ms, is_cut, min(opened_ms)), late, NOON_MS)


def test_a_queue_has_a_median_from_ten_cases_on():
    """The lower one of the two in the middle, as nearest rank has it."""
    assert (9, None) == (age(*range(9, 0, -1)).oldest_s, age(*range(9, 0, -1)).median_s)
    assert (10, 5) == (age(*range(1, 11)).oldest_s, age(*range(1, 11)).median_s)


def test_a_case_of_an_edge_whose_clock_is_ahead_has_not_waited_yet():
    """It has no age below zero."""
    assert (0, [("sprint", rfc3339(NOON_MS - 60_000))]) == (
        age(-30).oldest_s,
        [(each.board, each.since) for each in age(-30).late],
    )


def test_a_share_is_told_from_ten_cases_on():
    """Fewer say nothing, so that only the numbers are there."""
    few, enough = share_shown(Proportion(4, 9)), share_shown(Proportion(4, 10))
    assert (4, 9, None, None) == (few.hits, few.of, few.share, few.interval)
    assert 0.4 == enough.share


def test_times_to_decisions_are_told_from_ten_on():
    """The median and the 90th percentile by nearest rank, in seconds."""
    few, enough = times_shown([1_000] * 9), times_shown([s * 1_000 for s in range(10, 0, -1)])
    assert (9, None, None) == (few.of, few.median_s, few.p90_s)
    assert (10, 5, 9) == (enough.of, enough.median_s, enough.p90_s)


def test_the_newest_days_of_decisions_are_listed():
    """A year of them, and no more."""
    made = [
        label(number, is_cheat=False)._replace(decided_at_ms=NOON_MS + number * DAY_MS)
        for number in range(DAYS + 2)
    ]
    listed = decision_figures(made[::-1]).days
    first, last = (
        datetime.fromtimestamp(made[number].decided_at_ms / 1_000, UTC).date().isoformat()
        for number in (2, -1)
    )
    assert (DAYS, first, last) == (len(listed), listed[0].day, listed[-1].day)
