"""Checks display names, and other short texts that are displayed on one line."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from gateway.edge.problems import Problem, ProblemType

MOST_CHARACTERS: Final = 24
MOST_BYTES: Final = 96
"""Both limits are for the name in NFC. A character of UTF-8 has at most four bytes."""

MOST_MARKS: Final = 3
"""Combining marks on one character. No script needs more, and a tower of marks covers other lines."""

_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that are invisible, turn the direction of a line, or break it."""

_VISIBLE: Final = frozenset({"L", "N", "P", "S"})
"""Major categories of characters that are visible by themselves."""

_BLANK: Final = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
"""Invisible in spite of their category: fillers, blank Braille, selectors (Default_Ignorable_Code_Point)."""

_DRAWING: Final = re.compile(r"[\ufe0e\ufe0f]")
"""Selectors of how the character before is drawn; alone they are invisible."""


def display_name(wish: str) -> str:
    """Return the name in NFC, with plain spaces. Raises `schema-violation` if it cannot be displayed."""
    name = _composed(wish)
    if len(name) > MOST_CHARACTERS or len(name.encode(errors="replace")) > MOST_BYTES:
        raise _refusal("name", f"expected at most {MOST_CHARACTERS} characters and {MOST_BYTES} bytes")
    return displayed(name, "name")


def displayed(text: str, field: str) -> str:
    """Return a text of any length in NFC, with plain spaces. Raises `schema-violation` as for a name."""
    shown = _composed(text)
    if any(unicodedata.category(char) in _REFUSED for char in shown) or _BLANK.search(shown):
        raise _refusal(field, "control and invisible characters are not allowed")
    if not any(unicodedata.category(char)[0] in _VISIBLE for char in shown):
        raise _refusal(field, "expected a visible character")
    if _marks_in_a_row(shown) > MOST_MARKS:
        raise _refusal(field, f"expected at most {MOST_MARKS} marks on one character")
    return shown


def _marks_in_a_row(name: str) -> int:
    longest = run = 0
    for char in _DRAWING.sub("", name):
        run = run + 1 if unicodedata.category(char)[0] == "M" else 0
        longest = max(longest, run)
    return longest


def _composed(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    return "".join(" " if unicodedata.category(char) == "Zs" else char for char in composed).strip()


def _refusal(field: str, why: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, f"{field}: {why}")
