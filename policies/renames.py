"""Why moderators rename players: a closed list, so that renames can be counted."""

from __future__ import annotations

from policies.codes import Code


class RenameCode(Code):
    """The kinds of reasons for another name."""

    ABUSIVE = "abusive", "The name insults, threatens or sexualizes."
    IMPERSONATION = "impersonation", "The name passes for somebody else's."
    PERSONAL_DATA = "personal-data", "The name tells who or where a person is."
    ADVERTISING = "advertising", "The name advertises something."
    ON_REQUEST = "on-request", "The player asked for another name."
    OTHER = "other", "Another reason, which the note tells."
