"""Shows the report of a backtest: as tables for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from rich.console import Console
from rich.table import Table

from scoregate.commands.common import print_line
from validators.backtest import BacktestReport, Case, Proportion

SHOWN_CASES: Final = 20

UNPLAYED: Final = (
    "of them were rejected at once and would be replayed now; their recordings were not kept, so nobody "
    "knows what a replay would say"
)


def print_report(report: BacktestReport, screen: Console, *, shown: int = SHOWN_CASES) -> None:
    """Print a report for people, with the first `shown` changed decisions."""
    print_line(
        screen,
        f"{len(report.cases)} submissions in {report.days:.1f} days; {len(report.changed)} decisions change",
    )
    if not report.cases:
        return
    if report.unplayed:
        print_line(screen, f"{len(report.unplayed)} {UNPLAYED}")
    screen.print(_moves(report), _validators(report))
    for is_new, name in ((False, "then"), (True, "new")):
        print_line(
            screen,
            f"{name}: {report.held_per_day(is_new=is_new):.1f} held a day; {_quality(report, is_new=is_new)}",
        )
    for case in report.changed[:shown]:
        print_line(screen, _line(case))
    if len(report.changed) > shown:
        print_line(screen, f"and {len(report.changed) - shown} more (--json has them all)")


def as_json(report: BacktestReport) -> str:
    """Return a report as one JSON object."""
    return orjson.dumps(
        {
            "submissions": len(report.cases),
            "days": report.days,
            "unplayed": len(report.unplayed),
            "moves": [[then.value, now.value, count] for (then, now), count in sorted(report.moves.items())],
            "then": _side(report, is_new=False),
            "new": _side(report, is_new=True),
            "changed": [_as_dict(case) for case in report.changed],
        }
    ).decode()


def _moves(report: BacktestReport) -> Table:
    table = Table("then", "new", "submissions", title="Decisions")
    for (then, now), count in sorted(report.moves.items()):
        table.add_row(then.value, now.value, str(count), style=None if then is now else "bold")
    return table


def _validators(report: BacktestReport) -> Table:
    table = Table("validator", "finding", "then", "new", title="Findings")
    then, now = report.found(is_new=False), report.found(is_new=True)
    for name, severity in sorted({*then, *now}):
        key = (name, severity)
        table.add_row(name, severity.value, str(then.get(key, 0)), str(now.get(key, 0)))
    return table


def _quality(report: BacktestReport, *, is_new: bool) -> str:
    precision, recall = report.precision(is_new=is_new), report.recall(is_new=is_new)
    return f"against moderators' decisions: precision {_share(precision)}, recall {_share(recall)}"


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


def _side(report: BacktestReport, *, is_new: bool) -> Mapping[str, Any]:
    shares = {"precision": report.precision(is_new=is_new), "recall": report.recall(is_new=is_new)}
    findings = report.found(is_new=is_new)
    return {
        "held_per_day": report.held_per_day(is_new=is_new),
        "findings": [[name, severity.value, count] for (name, severity), count in sorted(findings.items())],
        **{
            name: {"hits": share.hits, "of": share.of, "interval": share.interval if share.of else None}
            for name, share in shares.items()
        },
    }


def _as_dict(case: Case) -> Mapping[str, Any]:
    return {
        "submission": case.submission_id,
        "player": case.player,
        "score": case.score,
        "is_cheat": case.is_cheat,
        "then": {"outcome": case.then.outcome.value, "reason": case.then.reason},
        "new": {"outcome": case.now.outcome.value, "reason": case.now.reason},
    }
