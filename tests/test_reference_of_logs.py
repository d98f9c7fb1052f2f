"""The reference of log events is true of the code: an operator who filters by level finds what is said to be there."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from gateway.runtime.telemetry import Event
from tests.test_docs import rows

ROOT = Path(__file__).parents[1]
LEVELS = {"debug", "info", "warning", "error"}


def logged_at() -> dict[str, set[str]]:
    """The levels at which each event is logged by some code, by its name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (path for room in ("gateway", "replay", "scoregate") for path in (ROOT / room).rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
                continue
            event = ast.unparse(call.args[0])
            if call.func.attr in LEVELS and event.startswith("Event."):
                found[getattr(Event, event.removeprefix("Event."))].add(call.func.attr)
    return dict(found)


def test_every_log_event_is_logged_at_the_level_that_the_reference_says():
    """Each event at its level, and at another one where the reference says when; none is only spoken of."""
    table = [row for row in rows("metrics.md", heading="Log events") if row[0].startswith("`")]
    stated = {row[0].strip("`"): LEVELS & set(re.findall("[a-z]+", row[1])) for row in table}
    assert stated == logged_at()
