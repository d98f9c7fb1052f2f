"""Why moderators ban players: a closed list, so that bans can be counted."""

from __future__ import annotations

from policies.codes import Code


class BanCode(Code):
    """The kinds of reasons for a ban."""

    CHEATING = "cheating", "The player's runs were manipulated."
    BOOSTING = "boosting", "Others played for the player, or let the player win."
    SHARED_ACCOUNT = "shared-account", "Several people play as the player."
    EVASION = "evasion", "The player is somebody who is banned under another id."
    NAME = "name", "The player's name is abusive."
    CONDUCT = "conduct", "The player's conduct towards others."
    OTHER = "other", "Another reason, which the note tells."
