"""The reference of log events is true of the code: an operator who filters by level finds what is said to be there."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from gateway.runtime.telemetry import Event
from tests.test_docs import rows

ROOT = Path(__file__).parents[1]
OPEN = "**"
LEVELS = {"debug", "info", "warning", "error"}


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """Every call by which an event is logged, and the name of the event."""
    paths = [path for room in ("gateway", "replay", "scoregate") for path in (ROOT / room).rglob("*.py")]
    texts = [text for path in paths if "Event." in (text := path.read_text())]
    return [
        (getattr(Event, event.removeprefix("Event.")), call)
        for text in texts
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args
        if call.func.attr in LEVELS and (event := ast.unparse(call.args[0])).startswith("Event.")
    ]


def logged_at() -> dict[str, set[str]]:
    """The levels at which each event is logged by some code, by its name."""
    found: dict[str, set[str]] = defaultdict(set)
    for event, call in calls():
        found[event].add(ast.unparse(call.func).rpartition(".")[2])
    return dict(found)


def fields_of() -> dict[str, set[str]]:
    """The fields with which each event is logged by some code; one that is made elsewhere counts as `OPEN`."""
    found: dict[str, set[str]] = defaultdict(set)
    for event, call in calls():
        found[event] |= {keyword.arg or OPEN for keyword in call.keywords} - {"exc_info"}
    return dict(found)


def test_every_log_event_is_logged_at_the_level_that_the_reference_says():
    """Each event at its level, and at another one where the reference says when; none is only spoken of."""
    table = [row for row in rows("metrics.md", heading="Log events") if row[0].startswith("`")]
    stated = {row[0].strip("`"): LEVELS & set(re.findall("[a-z]+", row[1])) for row in table}
    assert stated == logged_at()


def test_every_log_event_has_the_fields_that_the_reference_says():
    """None is missing to who searches by it, none is there unsaid; where a line names what it finds, more may be stated."""
    table = [row for row in rows("metrics.md", heading="Log events") if row[0].startswith("`")]
    stated = {row[0].strip("`"): set(re.findall("`([a-z_]+)`", row[3])) for row in table}
    logged = fields_of()
    left_open = {name: stated[name] for name, fields in logged.items() if OPEN in fields}
    assert {name: fields - {OPEN} | left_open.get(name, set()) for name, fields in logged.items()} == stated
