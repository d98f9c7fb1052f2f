"""Display names: what may be one."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from gateway.edge.problems import Problem, ProblemType

MOST_CHARACTERS: Final = 24
MOST_BYTES: Final = 96
"""Both of the name in NFC; four bytes are the longest character of UTF-8."""

MOST_MARKS: Final = 3
"""Combining marks on one character: no script of people needs more, and a tower of them covers other lines."""

_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of what is not shown, turns the direction of a line, or breaks it."""

_VISIBLE: Final = frozenset({"L", "N", "P", "S"})
"""Major categories of what is seen by itself."""

_BLANK: Final = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
"""What shows nothing in spite of its category: fillers, blank Braille, selectors (Unicode's Default_Ignorable_Code_Point)."""

_DRAWING: Final = re.compile(r"[\ufe0e\ufe0f]")
"""Selectors of how the character before is drawn; alone they are nothing."""


def display_name(wish: str) -> str:
    """The name in NFC, with plain spaces. Raises `schema-violation` for what cannot be shown as one."""
    composed = unicodedata.normalize("NFC", wish)
    name = "".join(" " if unicodedata.category(each) == "Zs" else each for each in composed).strip()
    if len(name) > MOST_CHARACTERS or len(name.encode(errors="replace")) > MOST_BYTES:
        raise _refusal(f"expected at most {MOST_CHARACTERS} characters and {MOST_BYTES} bytes")
    if any(unicodedata.category(each) in _REFUSED for each in name) or _BLANK.search(name):
        raise _refusal("control and invisible characters are not allowed")
    if not any(unicodedata.category(each)[0] in _VISIBLE for each in name):
        raise _refusal("expected a character that can be seen")
    if _marks_in_a_row(name) > MOST_MARKS:
        raise _refusal(f"expected at most {MOST_MARKS} marks on one character")
    return name


def _marks_in_a_row(name: str) -> int:
    longest = run = 0
    for each in _DRAWING.sub("", name):
        run = run + 1 if unicodedata.category(each)[0] == "M" else 0
        longest = max(longest, run)
    return longest


def _refusal(why: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, f"name: {why}")
