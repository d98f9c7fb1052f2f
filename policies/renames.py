"""Why moderators rename players: a closed list, so that renames can be counted."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class RenameCode(StrEnum):
    """The kinds of reasons for another name."""

    def __new__(cls, value: str, meaning: str) -> Self:
        """Create a member from its name and its meaning for moderators."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    meaning: str

    ABUSIVE = "abusive", "The name insults, threatens or sexualizes."
    IMPERSONATION = "impersonation", "The name passes for somebody else's."
    PERSONAL_DATA = "personal-data", "The name tells who or where a person is."
    ADVERTISING = "advertising", "The name advertises something."
    ON_REQUEST = "on-request", "The player asked for another name."
    OTHER = "other", "Another reason, which the note tells."
