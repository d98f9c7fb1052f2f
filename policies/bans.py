"""Why moderators ban players: a closed list, so that bans can be counted."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class BanCode(StrEnum):
    """The kinds of reasons for a ban."""

    def __new__(cls, value: str, meaning: str) -> Self:
        """Create a member from its name and its meaning for moderators."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    meaning: str

    CHEATING = "cheating", "The player's runs were manipulated."
    BOOSTING = "boosting", "Others played for the player, or let the player win."
    SHARED_ACCOUNT = "shared-account", "Several people play as the player."
    EVASION = "evasion", "The player is somebody who is banned under another id."
    NAME = "name", "The player's name is abusive."
    CONDUCT = "conduct", "The player's conduct towards others."
    OTHER = "other", "Another reason, which the note tells."
