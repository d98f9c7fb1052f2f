"""Shows the report of a backtest: as tables for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from rich.console import Console
from rich.table import Table

from scoregate.commands.common import print_line
from validators.backtest import Case, Proportion
from validators.backtest_summary import CHANGES_KEPT, BacktestSide, BacktestSummary

SHOWN_CASES: Final = 20

UNPLAYED: Final = (
    "of them were rejected at once and would be replayed now; their recordings were not kept, so nobody "
    "knows what a replay would say"
)


def print_report(report: BacktestSummary, screen: Console, *, shown: int = SHOWN_CASES) -> None:
    """Print a report for people, with the first `shown` changed decisions."""
    print_line(
        screen,
        f"{report.submissions} submissions{_on(report)} in {report.days:.1f} days; "
        f"{report.changes} decisions change",
    )
    if not report.submissions:
        return
    if report.unplayed:
        print_line(screen, f"{report.unplayed} {UNPLAYED}")
    screen.print(_moves(report), _validators(report))
    for name, side in (("then", report.then), ("new", report.new)):
        print_line(screen, f"{name}: {side.held / report.days:.1f} held a day; {_quality(side)}")
    for case in report.changed[:shown]:
        print_line(screen, _line(case))
    if report.changes > shown:
        print_line(screen, f"and {report.changes - shown} more (--json has up to {CHANGES_KEPT})")


def as_json(report: BacktestSummary) -> str:
    """Return a report as one JSON object."""
    return orjson.dumps(
        {
            "submissions": report.submissions,
            "days": report.days,
            "boards": report.boards,
            "unplayed": report.unplayed,
            "moves": [[then.value, now.value, count] for (then, now), count in sorted(report.moves.items())],
            "then": _side(report.then, report.days),
            "new": _side(report.new, report.days),
            "changes": report.changes,
            "changed": [_as_dict(case) for case in report.changed],
        }
    ).decode()


def _on(report: BacktestSummary) -> str:
    return f" on {report.boards} boards" if report.boards > 1 else ""


def _moves(report: BacktestSummary) -> Table:
    table = Table("then", "new", "submissions", title="Decisions")
    for (then, now), count in sorted(report.moves.items()):
        table.add_row(then.value, now.value, str(count), style=None if then is now else "bold")
    return table


def _validators(report: BacktestSummary) -> Table:
    table = Table("validator", "finding", "then", "new", title="Findings")
    then, now = report.then.found, report.new.found
    for name, severity in sorted({*then, *now}):
        key = (name, severity)
        table.add_row(name, severity.value, str(then.get(key, 0)), str(now.get(key, 0)))
    return table


def _quality(side: BacktestSide) -> str:
    return f"against moderators' decisions: precision {_share(side.precision)}, recall {_share(side.recall)}"


def _share(share: Proportion) -> str:
    if not share.of:
        return "unknown (none decided)"
    low, high = share.interval
    return f"{share.hits}/{share.of} = {share.hits / share.of:.2f} ({low:.2f} to {high:.2f})"


def _line(case: Case) -> str:
    return (
        f"{case.submission_id} {case.player} {case.score}: "
        f"{case.then.outcome.value} ({case.then.reason}) -> {case.now.outcome.value} ({case.now.reason})"
    )


def _side(side: BacktestSide, days: float) -> Mapping[str, Any]:
    shares = {"precision": side.precision, "recall": side.recall}
    return {
        "held_per_day": side.held / days,
        "findings": [[name, severity.value, count] for (name, severity), count in sorted(side.found.items())],
        **{
            name: {"hits": share.hits, "of": share.of, "interval": share.interval if share.of else None}
            for name, share in shares.items()
        },
    }


def _as_dict(case: Case) -> Mapping[str, Any]:
    return {
        "submission": case.submission_id,
        "board": case.board,
        "player": case.player,
        "score": case.score,
        "is_cheat": case.is_cheat,
        "then": {"outcome": case.then.outcome.value, "reason": case.then.reason},
        "new": {"outcome": case.now.outcome.value, "reason": case.now.reason},
    }
