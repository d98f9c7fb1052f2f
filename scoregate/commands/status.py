"""`scoregate status`: list the parts that run, and the work that waits.

Files in the data directory know the parts of this machine; the index has heard from all others. The ledger
knows the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import typer

from scoregate.commands.common import WHERE, DataDir, console, deployment_of, fail, finish
from scoregate.commands.tables import AsJson, cell, show, show_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scoregate.deployment_status import DeploymentStatus

Rows = Sequence[Mapping[str, object]]

PART_COLUMNS: Final = (
    "part",
    "pid",
    "host",
    "since",
    "version",
    "policies",
    "lanes",
    "duties",
    "failing",
)
WORK_COLUMNS: Final = ("work", "waiting", "oldest")

COMMON: Final = ("host", "version", "policies")
"""Columns that a terminal has no room for. Where all parts agree, the title says it once."""

STARTING: Final = "starting"
"""The word for the lanes of a steward that has had none yet."""

SHORT_DIGEST: Final = 8


def status(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the parts that run, and the work that waits for them. Status 1 if no part runs."""
    from scoregate.deployment_status import status_of
    from scoregate.embedded import with_noted_redis

    settings = with_noted_redis(deployment_of(data_dir))
    deployment = finish(status_of(settings))
    screen = console()
    if as_json:
        show_json([*deployment.parts, *deployment.work])
    elif screen.is_terminal:
        _show_on(screen, deployment)
    else:
        show(({**row, "lanes": _lanes(row)} for row in deployment.parts), PART_COLUMNS, as_json=False)
        if deployment.work:
            typer.echo()
            show(map(_counted, deployment.work), WORK_COLUMNS, as_json=False)
    for trouble in deployment.troubles:
        typer.echo(trouble, err=True)
    if not deployment.parts:
        fail(f"no part of the deployment in {settings.data_dir.resolve()} runs{WHERE}", status=1)


def _counted(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return a row of work with a `+` after a number that may be larger."""
    return {**row, "waiting": f"{row['waiting']}{'+' if row['or_more'] else ''}"}


def _show_on(screen: Console, deployment: DeploymentStatus) -> None:
    """Draw the status for 80 columns: what all parts have in common once, times as how long ago they were."""
    common = {name: {cell(row[name]) for row in deployment.parts} for name in COMMON}
    titles = [_title(name, *values) for name, values in common.items() if len(values) == 1]
    apart = [name for name, values in common.items() if len(values) > 1]
    screen.print(_parts_table(deployment.parts, apart, "  ".join(titles)))
    if deployment.work:
        screen.print(_work_table(deployment.work))


def _lanes(row: Mapping[str, object]) -> object:
    """Return how many lanes a steward has, None for other parts."""
    return STARTING if row["is_starting"] else row["lanes"]


def _title(name: str, value: str) -> str:
    return f"{name} {value[:SHORT_DIGEST] if name == 'policies' else value}"


def _parts_table(rows: Rows, apart: Sequence[str], title: str) -> Table:
    from rich.text import Text

    table = _table(title or "no part runs")
    for name in ("part", "pid", "up", *apart):
        table.add_column(name, justify="right" if name in {"pid", "up"} else "left", no_wrap=name != "host")
    table.add_column("lanes", justify="right")
    table.add_column("duties", ratio=2)
    table.add_column("failing", ratio=1)
    for row in rows:
        others = [cell(row[name])[: SHORT_DIGEST if name == "policies" else None] for name in apart]
        lanes = cell(_lanes(row)) if _lanes(row) is not None else ""
        duties, failing = (cell(row[name]).replace(",", ", ") for name in ("duties", "failing"))
        cells = [cell(row["part"]), cell(row["pid"]), _ago(row["since"]), *others, lanes]
        table.add_row(
            *map(Text, cells),
            Text("" if duties == "-" else duties),
            Text("" if failing == "-" else failing, style="red"),
        )
    return table


def _work_table(rows: Rows) -> Table:
    from rich.text import Text

    table = _table("")
    table.add_column("work")
    table.add_column("waiting", justify="right")
    table.add_column("for", justify="right")
    for row in map(_counted, rows):
        age = _ago(row["oldest"]) if row["oldest"] else ""
        table.add_row(*map(Text, (cell(row["work"]), cell(row["waiting"]), age)))
    return table


def _table(title: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(title) if title else None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )


def _ago(moment: object) -> str:
    """Return how long ago a moment (RFC 3339) was, such as `3 h 12 min`."""
    from gateway.runtime.clock import duration_text, parse_rfc3339, wall_clock

    at_ms = parse_rfc3339(str(moment)) or 0
    return duration_text(max(0, wall_clock() - at_ms) // 1000)
