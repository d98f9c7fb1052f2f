"""How the console writes numbers, times and the names of things."""

from __future__ import annotations

import math
import re
from typing import Final

from gateway.edge.problems import Problem
from gateway.runtime.clock import duration_text, parse_rfc3339

_UNBREAKABLE: Final = "\N{NARROW NO-BREAK SPACE}"

STATES: Final = {
    "received": "Received",
    "pending": "Being verified",
    "held": "Held",
    "promoted": "On the board",
    "rejected": "Rejected",
    "revoked": "Revoked",
    "superseded": "Superseded",
}


def number(value: float | None, decimals: int = 0) -> str:
    """Return a number with its thousands set apart; an em dash for none.

    `decimals` is how many of its last digits come after the point, as a board's policy says for its scores.
    """
    if value is None:
        return "—"
    if isinstance(value, int):
        return f"{value / 10**decimals:,.{decimals}f}" if decimals else f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    digits = 0 if abs(value) >= 1000 or value == int(value) else 3  # noqa: PLR2004 - as many as tell something
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def day_and_time(moment: str) -> str:
    """Return a moment (RFC 3339) as a person reads it, to the second, in UTC."""
    return moment[:19].replace("T", " ")


def since(moment: str, now_ms: int) -> str:
    """Return how long ago a moment (RFC 3339) was."""
    at_ms = parse_rfc3339(moment)
    return "" if at_ms is None else span(max(0, now_ms - at_ms))


def span(milliseconds: int) -> str:
    """Return a span of time in its two largest units, milliseconds below ten seconds."""
    if milliseconds < 10_000:  # noqa: PLR2004
        return f"{milliseconds / 1000:.1f} s".replace(" ", _UNBREAKABLE)
    return duration_text(milliseconds // 1000).replace(" ", _UNBREAKABLE)


def state_name(state: str) -> str:
    """Return a state of a submission in words; other text as it is."""
    return STATES.get(state, state)


def actor_name(actor: str) -> str:
    """Return who acted: a moderator's name, or the part of Scoregate."""
    return actor.removeprefix("moderator:")


def phrase(name: str) -> str:
    """Return a name of the code, such as `score-too-fast`, as words."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def window_name(window: str) -> str:
    """Return a window of a board, such as `daily:20261123`, in words."""
    kind, _, name = window.partition(":")
    if kind == "daily" and len(name) == len("20261123"):
        return f"Day {name[:4]}-{name[4:6]}-{name[6:]}"
    if kind == "monthly" and len(name) == len("202611"):
        return f"Month {name[:4]}-{name[4:]}"
    words = {"alltime": "All time", "weekly": "Week", "season": "Season"}.get(kind, phrase(kind))
    return f"{words} {name.replace('W', '-W')}" if name else words


def browser_name(description: str) -> str:
    """Return a browser by what it calls itself, or that text if it is none of the common ones."""
    for mark, name in _BROWSERS:
        if found := re.search(rf"{mark}/(\d+)", description):
            system = next((system for mark, system in _SYSTEMS if mark in description), "")
            return f"{name} {found[1]}" + (f" on {system}" if system else "")
    return description or "A program without a name"


_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("(?:Headless)?Chrome", "Chrome"),
    ("Version", "Safari"),
)
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)
"""What browsers call themselves by, the more special ones first, since each names those that it resembles."""


_FIELD: Final = re.compile(r"[A-Za-z_]\w*(\..{1,200})?", re.DOTALL)
"""A field of a body as refusals name it, such as `scopes.0`."""


def without_field(problem: Problem | None) -> str:
    """Return a refusal for who filled in a form, without the field's name that begins it; empty for none."""
    if problem is None:
        return ""
    words = problem.detail or problem.kind.title
    field, colon, rest = words.partition(": ")
    words = rest if colon and _FIELD.fullmatch(field) else words
    return words[:1].upper() + words[1:]
