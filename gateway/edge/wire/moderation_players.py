"""The answers about players as moderators see them."""

from __future__ import annotations

from gateway.edge.wire.fields import Answer, PlayerId
from gateway.edge.wire.moderation_bans import BanShown


class PlayedSubmission(Answer):
    """A submission of the player, in brief. `reason` is why it has its state; `meaning` says it in words."""

    submission: str
    board: str
    score: int
    build: str
    state: str
    reason: str
    meaning: str
    received_at: str


class PlayedSubmissions(Answer):
    """Submissions on the moderator's boards, newest first; a page may be short though `next` has a cursor."""

    player: PlayerId
    submissions: list[PlayedSubmission]
    next: str | None


class PlayerProfile(Answer):
    """A player, as far as the moderator's boards reach.

    `states` and `builds` count the submissions among the player's newest 1,000; `is_whole` tells that there
    are no others. `name` and `created_at` are null for a player whom a studio's own tokens made.
    """

    player: PlayerId
    name: str | None
    created_at: str | None
    states: dict[str, int]
    builds: dict[str, int]
    boards: dict[str, int]
    is_whole: bool
    bans: list[BanShown]
