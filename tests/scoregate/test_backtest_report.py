"""What people and programs are told of a backtest, by its sums."""

from __future__ import annotations

import json
from collections import Counter

from rich.console import Console

from policies.vocabulary import Severity
from scoregate.backtest_report import SHOWN_CASES, as_json, print_report
from validators.backtest import DAY_MS, Case, CaseDecision, CaseOutcome, Proportion
from validators.backtest_summary import BacktestSide, BacktestSummary

THEN = CaseDecision(CaseOutcome.PROMOTED, "verified", ())
NOW = CaseDecision(CaseOutcome.HELD, "anomaly-population", ())


def summary(changes: int, days: int) -> BacktestSummary:
    """The sums of so many decisions that change, over so many days, of two boards."""
    changed = [Case(f"s-{number}", "p_ada", number, THEN, NOW) for number in range(changes)]
    return BacktestSummary(
        boards=2,
        submissions=changes,
        changes=changes,
        changed=changed,
        moves=Counter({(CaseOutcome.PROMOTED, CaseOutcome.HELD): changes}),
        new=BacktestSide(held=changes, precision=Proportion(1, 4)),
        first_at_ms=0,
        last_at_ms=days * DAY_MS,
    )


def printed(report: BacktestSummary) -> list[str]:
    screen = Console(width=80, color_system=None)
    with screen.capture() as captured:
        print_report(report, screen)
    return captured.get().splitlines()


def test_people_are_shown_the_first_changes_and_told_of_the_others():
    """Each change is shown or among those that are more; held submissions are those of a day."""
    few, many = printed(summary(SHOWN_CASES, 4)), printed(summary(SHOWN_CASES + 3, 4))
    assert (
        f"{SHOWN_CASES + 3} submissions on 2 boards in 4.0 days; {SHOWN_CASES + 3} decisions change"
        == many[0]
    )
    assert [SHOWN_CASES] * 2 == [sum(line.startswith("s-") for line in lines) for lines in (few, many)]
    assert few[-1].startswith("s-")
    assert "and 3 more (--json has up to 10000)" == many[-1]
    assert any(line.startswith(f"new: {SHOWN_CASES / 4:.1f} held a day; ") for line in few)


def test_what_was_is_before_what_would_be():
    """In the table of decisions, in that of findings, and in the line of each change."""
    report = summary(1, 4)
    report.then.found[("anomaly", Severity.FLAG)] = 3
    report.new.found[("anomaly", Severity.FLAG)] = 5
    words = [line.split() for line in printed(report)]
    assert ["promoted", "held", "1"] in [[word for word in line if word != "│"] for line in words]
    assert any(line[-2:] == ["3", "5"] for line in [[word for word in line if word != "│"] for line in words])
    assert ["s-0", "p_ada", "0:", "promoted", "(verified)", "->", "held", "(anomaly-population)"] in words


def test_programs_are_told_what_is_held_in_a_day():
    """Over four days it is a quarter of all, on each side."""
    found = json.loads(as_json(summary(10, 4)))
    assert (4.0, 0.0, 2.5) == (found["days"], found["then"]["held_per_day"], found["new"]["held_per_day"])
    assert (2, 10, 10) == (found["boards"], found["changes"], len(found["changed"]))
