"""The base of the closed lists of reasons from which moderators choose."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Code(StrEnum):
    """A reason, so that what is decided for it can be counted. `meaning` tells moderators what it is."""

    def __new__(cls, value: str, meaning: str) -> Self:
        """Create a member from its name and its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    meaning: str
