"""The shape that every source gives: who stands where with which score."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

EXACT: Final = 2**53
"""Numbers below this are the same number in every JSON parser."""

LONGEST: Final = 10**11
"""Entries of no leaderboard; as many milliseconds after the year 2000 are in the past."""


class ImportedScore(NamedTuple):
    """A player's score. Without `achieved_at`, equal scores rank by `turn`."""

    player: str
    score: object
    turn: int
    achieved_at: str | None = None
    stats: Mapping[str, Any] = MappingProxyType({})


def turn_of(value: object) -> int:
    """Return a place in an order as a whole number. Raises TypeError for anything else."""
    if not isinstance(value, int) or not 0 <= value < LONGEST:
        raise TypeError(f"a place from 0 to {LONGEST}, not {str(value)[:40]}")
    return value


def whole_or_text(value: object) -> object:
    """Return the whole number that a value is; any other as text, for which only its row is refused."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return value
    is_exact = isinstance(value, int) and not isinstance(value, bool) and abs(value) < EXACT
    return value if is_exact else str(value)
