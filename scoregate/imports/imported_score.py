"""The shape that every source gives: who stands where with which score."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

EXACT: Final = 2**53
"""Numbers below this are the same number in every JSON parser."""

LONGEST: Final = 10**11
"""Entries of no leaderboard; as many milliseconds after the year 2000 are in the past."""

LONGEST_TEXT: Final = 100
"""Characters that are kept of a text; no player's id, no score and no time has as many."""

_WHOLE: Final = re.compile(r"\s*([+-]?[0-9]{1,17})(?:\.0*)?\s*")


class ImportedScore(NamedTuple):
    """A player's score. Without `achieved_at`, equal scores rank by `turn`.

    `place` says where it stands in its file, `fault` why it cannot be imported.
    """

    player: str
    score: object
    turn: int
    achieved_at: str | None = None
    stats: Mapping[str, Any] = MappingProxyType({})
    place: str | None = None
    fault: str | None = None


def text_of(value: object) -> str:
    """Return a text, or a whole number as one. Raises TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"a text, not {_shown(value)}")
    return str(value)


def turn_of(value: object) -> int:
    """Return a place in an order as a whole number. Raises TypeError for anything else."""
    if not isinstance(value, int) or not 0 <= value < LONGEST:
        raise TypeError(f"a place from 0 to {LONGEST}, not {_shown(value)}")
    return value


def whole_or_text(value: object) -> object:
    """Return the whole number that a value is; any other as text, for which only its row is refused."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and (match := _WHOLE.fullmatch(value)):
        value = int(match[1])
    is_exact = isinstance(value, int) and not isinstance(value, bool) and abs(value) < EXACT
    return value if is_exact else _shown(value)


def _shown(value: object) -> str:
    """Return a value as a short text; what is nested, which may be deep, as its kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return str(value)[:LONGEST_TEXT]
