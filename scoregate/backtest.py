"""Holding a new policy against what the ledger has seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from gateway.ledger.judgement.past import log_of
from gateway.runtime.clock import parse_rfc3339
from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from policies.loader import load_board
from scoregate.existing import existing_ledger
from validators.backtest import Backtest, BacktestReport, Case, Proportion

SHOWN_CASES = 20

UNPLAYED = (
    "of them were rejected at once and would be replayed now; nothing is kept of their recordings, so nobody knows what "
    "a replay would say"
)


async def backtest(settings: Settings, file: Path, since: str | None, console: Console) -> BacktestReport:
    """What the policy in `file` would have decided of its board's history. Raises PolicyError and SettingsError."""
    board, since_ms = load_board(file), _instant(since)
    test = Backtest(board.policy, digest=board.digest, since_ms=since_ms)
    async with existing_ledger(settings) as ledger:
        with _progress(console) as progress:
            task = progress.add_task(f"{board.name}: events", total=None)
            async for event in log_of(ledger, board.name):
                test.take(event)
                progress.advance(task)
    return test.report


def tell(report: BacktestReport, console: Console, *, shown: int = SHOWN_CASES) -> None:
    """Prints a report for people."""
    _say(
        console,
        f"{len(report.cases)} submissions in {report.days:.1f} days; {len(report.changed)} decisions change",
    )
    if not report.cases:
        return
    if report.unplayed:
        _say(console, f"{len(report.unplayed)} {UNPLAYED}")
    console.print(_moves(report), _validators(report))
    for is_new, name in ((False, "then"), (True, "new")):
        _say(
            console,
            f"{name}: {report.held_per_day(is_new=is_new):.1f} held a day; {_quality(report, is_new=is_new)}",
        )
    for case in report.changed[:shown]:
        _say(console, _line(case))
    if len(report.changed) > shown:
        _say(console, f"and {len(report.changed) - shown} more (--json has them all)")


def as_json(report: BacktestReport) -> str:
    """A report as one JSON object."""
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


def _instant(text: str | None) -> int:
    if text is None:
        return 0
    at_ms = parse_rfc3339(text if "T" in text else f"{text}T00:00:00Z")
    if at_ms is None:
        raise SettingsError("--since: expected a day as 2026-11-20, or an instant as 2026-11-20T12:00:00Z")
    return at_ms


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(), TextColumn("{task.description} {task.completed}"), console=console, transient=True
    )


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
    found = report.found(is_new=is_new)
    return {
        "held_per_day": report.held_per_day(is_new=is_new),
        "findings": [[name, severity.value, count] for (name, severity), count in sorted(found.items())],
        **{
            name: {"hits": each.hits, "of": each.of, "interval": each.interval if each.of else None}
            for name, each in shares.items()
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


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)
