"""The gateway's answers about players and moderators. Times are RFC 3339, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .documents import Document
from .models import BoardEntry
from .moderation_models import CaseClaim, EarlierDecision


@dataclass(frozen=True, slots=True)
class Ban(Document):
    """A ban on a board, on a family, or, if both are None, everywhere.

    `followed` is how many submissions were taken off, or came back after `lifted_at`; `is_settled` is false
    while the gateway goes on with others.
    """

    ban: str
    player: str
    board: str | None
    family: str | None
    code: str
    note: str
    message: str
    by: str
    began_at: str
    until: str | None
    lifted_by: str | None
    lifted_at: str | None
    followed: int
    is_settled: bool
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class PlayedSubmission(Document):
    """A submission of a player, in brief. `meaning` says in words why it has its state."""

    submission: str
    board: str
    score: int
    build: str
    state: str
    reason: str
    meaning: str
    received_at: str


@dataclass(frozen=True, slots=True)
class NamedPlayer(Document):
    """A player who was found by name."""

    player: str
    name: str
    created_at: str


@dataclass(frozen=True, slots=True)
class OpenCase(Document):
    """A submission of a player that waits for a moderator, since when, and who is in it."""

    submission: str
    board: str
    reason: str
    meaning: str
    opened_at: str
    claim: CaseClaim | None


@dataclass(frozen=True, slots=True)
class Rename(Document):
    """A name that a moderator gave to a player, and who took it back, if anybody did."""

    player: str
    was: str
    name: str
    code: str
    note: str
    by: str
    at: str
    undone_by: str | None
    undone_at: str | None


@dataclass(frozen=True, slots=True)
class Identity(Document):
    """Something by which a player can sign in."""

    identity: str
    provider: str
    added_at: str


@dataclass(frozen=True, slots=True)
class Merge(Document):
    """A merge of the player `source` into `target`, who asked for it, and who undid it when, if anybody did.

    `moved` is how many runs have moved there, or back; `is_done` is false while others follow.
    """

    merge: str
    source: str
    target: str
    by: str
    began_at: str
    undone_by: str | None
    undone_at: str | None
    moved: int
    is_done: bool


@dataclass(frozen=True, slots=True)
class Profile(Document):
    """A player, as far as the moderator's boards reach.

    `states`, `builds` and `boards` count the submissions among the newest 1,000; `is_whole` tells that there
    are no others.
    """

    player: str
    name: str | None
    created_at: str | None
    states: Mapping[str, int]
    builds: Mapping[str, int]
    boards: Mapping[str, int]
    is_whole: bool
    bans: tuple[Ban, ...]
    standings: tuple[BoardEntry, ...]
    cases: tuple[OpenCase, ...]
    decisions: tuple[EarlierDecision, ...]
    renames: tuple[Rename, ...]
    addresses: tuple[Address, ...] | None = None


@dataclass(frozen=True, slots=True)
class AddressSharer(Document):
    """Another player of the same address."""

    player: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Address(Document):
    """An address that a player submitted from, as the beginning of its hash, and others who did."""

    address: str
    seen_at: str
    players: tuple[AddressSharer, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Person(Document):
    """A moderator's account: roles by scope, own players, and how they log in. A change names its `etag`."""

    moderator: str
    grants: Mapping[str, str]
    players: tuple[str, ...]
    has_password: bool
    has_identity: bool
    second_factor: bool
    created_at: str
    etag: str
    disabled_at: str | None = None


@dataclass(frozen=True, slots=True)
class Invitation(Document):
    """An invitation, which is shown this once: the page of the gateway on which it is accepted."""

    moderator: str
    page: str = field(repr=False)
    expires_at: str
    etag: str


@dataclass(frozen=True, slots=True)
class WhoAmI(Document):
    """Whom the token acts for, with what role on which scope, until when."""

    moderator: str
    grants: Mapping[str, str]
    players: tuple[str, ...]
    expires_at: str
