"""The gateway's answers to games and servers."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from .documents import Document

KEY_BYTES: Final = 32
TICKET: Final = re.compile(r"[!#-\[\]-~]{1,1024}")
"""What a signature can name as its key."""
_TOKEN: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Player(Document):
    """A player and the bearer token that acts for them."""

    player: str
    name: str
    token: str = field(repr=False)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the player of a JSON document."""
        player = super(Player, cls).read(document)
        if not _TOKEN.fullmatch(player.token):
            raise ValueError("no token of a player")
        return player


@dataclass(frozen=True, slots=True)
class Run(Document):
    """An open run: seed for the game, ticket and key for the submission. Times are RFC 3339, UTC.

    `parameters` is the text of the board's parameters in JSON, `asset` the digest of its asset, and
    `asset_url` the path of its download; None if the board has none.
    """

    run: str
    ticket: str = field(repr=False)
    key: bytes = field(repr=False)
    seed: int
    board: str
    player: str
    build: str
    simulator: str
    ticks_per_second: int
    checkpoint_ticks: int
    issued_at: str
    expires_at: str
    parameters: str | None = None
    asset: str | None = None
    asset_url: str | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the run of a JSON document, where the key is base64 and the seed a decimal string."""
        decoded = {"key": b64decode(document["key"], validate=True), "seed": int(document["seed"])}
        run = super(Run, cls).read({**document, **decoded})
        if not TICKET.fullmatch(run.ticket) or len(run.key) != KEY_BYTES:
            raise ValueError("neither ticket nor key of a run")
        return run


@dataclass(frozen=True, slots=True)
class Question(Document):
    """A moderator's question, and until when (RFC 3339) the submission waits for the answer."""

    text: str
    asked_at: str
    answer_by: str


@dataclass(frozen=True, slots=True)
class Appeal(Document):
    """What can be done against a decision: `possible` until a time, `open`, or `denied`."""

    state: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Submission(Document):
    """A submission and its state. `reason` is a coarse class; `rank` is None while the score does not count.

    `reveal_by` (RFC 3339) is the deadline for its recording, None while the gateway does not request it.
    `message` is what a moderator says of the decision, `question` what one asks, and `appeal` what can be
    done against the decision.
    """

    submission: str
    board: str
    player: str
    score: int
    state: str
    reason: str | None = None
    rank: int | None = None
    received_at: str | None = None
    divergent_tick: int | None = None
    verified: bool | None = None
    reveal_by: str | None = None
    message: str | None = None
    question: Question | None = None
    appeal: Appeal | None = None


@dataclass(frozen=True, slots=True)
class Reveal(Document):
    """A recording that the gateway requests by its digest, with the deadline `reveal_by` (RFC 3339, UTC)."""

    submission: str
    board: str
    recording_digest: str
    recording_bytes: int
    reveal_by: str


@dataclass(frozen=True, slots=True)
class RevealPage(Document):
    """The recordings that the gateway requests from a player."""

    reveals: tuple[Reveal, ...]


@dataclass(frozen=True, slots=True)
class Build(Document):
    """A build of the game: its status, and its simulator's digest, None if its runs are not replayed."""

    build: str
    status: str
    simulator: str | None = None


@dataclass(frozen=True, slots=True)
class Board(Document):
    """A board as games need to know it.

    `ranks` are the kinds of rank, its default first. With `reveal_s` a run may be committed first, and its
    recording sent within that many seconds of a request. `opened` has what a board of a family has besides.
    """

    board: str
    title: str
    order: str
    operator: str
    windows: tuple[str, ...]
    time_zone: str
    decimals: int
    ranks: tuple[str, ...]
    writes: str
    builds: tuple[Build, ...]
    ticks_per_second: int
    season: str | None = None
    reveal_s: int | None = None
    opened: FamilyBoard | None = None


@dataclass(frozen=True, slots=True)
class BoardPage(Document):
    """A page of the gateway's boards, and the cursor of the next one, None after the last."""

    boards: tuple[Board, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Entry(Document):
    """A player's rank and score on a board.

    `rank` is None below the ranks that a board keeps exactly. On a filtered page it is the rank among those
    who remain, and `global_rank` the one among all. An entry that was read by itself has its place among
    `total` entries, and the `gap` to the next better score.
    """

    rank: int | None
    player: str
    name: str
    score: int
    achieved_at: str | None = None
    submission: str | None = None
    global_rank: int | None = None
    total: int | None = None
    percentile: float | None = None
    percentile_error: float | None = None
    gap: int | None = None


@dataclass(frozen=True, slots=True)
class EntryPage(Document):
    """A page of a board's window, and the number of entries in the whole window.

    `next` and `previous` are cursors of the pages beside it, None if there is nothing more. `unranked`
    are the players that were asked for and have no entry.
    """

    board: str
    window: str
    total: int
    entries: tuple[Entry, ...]
    next: str | None = None
    previous: str | None = None
    unranked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Friend(Document):
    """A player whom another one follows."""

    player: str
    name: str


@dataclass(frozen=True, slots=True)
class Friends(Document):
    """The players that a player follows."""

    player: str
    total: int
    friends: tuple[Friend, ...] = ()


@dataclass(frozen=True, slots=True)
class Memberships(Document):
    """The groups of a player on a board: the value of each segment."""

    board: str
    player: str
    segments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Joined(Document):
    """Whether a player is on a board that has to be joined."""

    board: str
    player: str
    joined: bool


@dataclass(frozen=True, slots=True)
class Family(Document):
    """A family of boards: who opens them, the type of each metadata field to filter by, and its rollups."""

    family: str
    title: str
    opened_by: str
    filters: Mapping[str, str]
    rollups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FamilyPage(Document):
    """A page of the gateway's families, and the cursor of the next one, None after the last."""

    families: tuple[Family, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class FamilyBoard(Document):
    """A board of a family as it was opened. `version` counts its changes; times are RFC 3339, UTC.

    `asset` is the SHA-256 of its asset, as `sha256:…`. `opened_at` is None before it was opened.
    """

    board: str
    family: str
    title: str
    state: str
    version: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    asset: str | None = None
    asset_url: str | None = None
    bounds: Mapping[str, Any] | None = None
    opens_at: str | None = None
    closes_at: str | None = None
    opened_at: str | None = None


@dataclass(frozen=True, slots=True)
class FamilyBoardPage(Document):
    """A page of a family's boards, and the cursor of the next one, None after the last."""

    boards: tuple[FamilyBoard, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class BoardStanding(Document):
    """A player's rank and score on one board, among `total` entries."""

    board: str
    title: str
    rank: int
    score: int
    total: int
    achieved_at: str | None = None
    submission: str | None = None


@dataclass(frozen=True, slots=True)
class StandingPage(Document):
    """A page of a player's standings in a window, and the cursor of the next one, None after the last."""

    window: str
    standings: tuple[BoardStanding, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class BoardEntry(Document):
    """A player on one of the boards that were asked for.

    `status` is `ranked`, `unranked`, `no-board`, `no-window` or `rebuilding`; only with the first is there a
    `standing`.
    """

    board: str
    status: str
    window: str | None = None
    standing: BoardStanding | None = None


@dataclass(frozen=True, slots=True)
class EntryList(Document):
    """A player on the boards that were asked for, in their order."""

    entries: tuple[BoardEntry, ...]


@dataclass(frozen=True, slots=True)
class Operated(Document):
    """The answer to each of several operations, in their order."""

    results: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Removed(Document):
    """The ids of submissions that no longer count."""

    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredAsset(Document):
    """The digest of a stored file, with which boards are opened."""

    asset: str


@dataclass(frozen=True, slots=True)
class BoardOutcome(Document):
    """The outcome of one operation on a board: `opened`, `changed`, `same` or `refused`.

    `board` is the board as it is now, if there is one; `problem` says why it was refused.
    """

    status: str
    board: FamilyBoard | None = None
    problem: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BoardOutcomes(Document):
    """The outcome of each operation on boards, in their order."""

    results: tuple[BoardOutcome, ...]
