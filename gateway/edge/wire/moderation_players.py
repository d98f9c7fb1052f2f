"""The answers about players as moderators see them."""

from __future__ import annotations

from gateway.edge.wire.board_answers import PlayerEntry
from gateway.edge.wire.fields import Answer, PlayerId
from gateway.edge.wire.moderation_bans import BanShown
from gateway.edge.wire.moderation_decisions import CaseClaim
from gateway.edge.wire.moderation_renames import RenameShown
from gateway.edge.wire.moderation_surroundings import EarlierDecision


class PlayerNamed(Answer):
    """A player who was found by name."""

    player: PlayerId
    name: str
    created_at: str


class PlayersNamed(Answer):
    """Players in the order of their names; a page may be short though `next` has a cursor."""

    players: list[PlayerNamed]
    next: str | None


class OpenCase(Answer):
    """A submission of the player that waits for a moderator, since when, and who is in it."""

    submission: str
    board: str
    reason: str
    meaning: str
    opened_at: str
    claim: CaseClaim | None


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


class AddressSharer(Answer):
    """Another player of the same address; `name` is null for who has none."""

    player: PlayerId
    name: str | None


class AddressShown(Answer):
    """An address that the player submitted from: the beginning of its keyed hash, never the address.

    It was seen there at `seen_at`, or within a day after. `players` are up to 20 others on the moderator's
    boards; `is_whole` tells that these are all.
    """

    address: str
    seen_at: str
    players: list[AddressSharer]
    is_whole: bool


class PlayerProfile(Answer):
    """A player, as far as the moderator's boards reach.

    `states` and `builds` count the submissions among the player's newest 1,000; `is_whole` tells that there
    are no others. `name` and `created_at` are null for a player whom a studio's own tokens made.
    `standings` are the entries in the longest window of each of up to 100 of these boards, `cases` up to 20
    that wait, the first of the queue, and `decisions` the newest 20 of moderators on the newest 200
    submissions. `renames` are the newest 20. `addresses` are null for who decides on none of these boards,
    and where none are kept.
    """

    player: PlayerId
    name: str | None
    created_at: str | None
    states: dict[str, int]
    builds: dict[str, int]
    boards: dict[str, int]
    is_whole: bool
    standings: list[PlayerEntry]
    cases: list[OpenCase]
    decisions: list[EarlierDecision]
    addresses: list[AddressShown] | None
    renames: list[RenameShown]
    bans: list[BanShown]
