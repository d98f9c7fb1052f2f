"""The gateway's answers to games and servers."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from .documents import Document


@dataclass(frozen=True, slots=True)
class Player(Document):
    """A player and the bearer token that acts for them."""

    player: str
    name: str
    token: str = field(repr=False)


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
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the run of a JSON document, where the key is base64 and the seed a decimal string."""
        decoded = {"key": b64decode(document["key"], validate=True), "seed": int(document["seed"])}
        return super(Run, cls).from_json({**document, **decoded})


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
class Entry(Document):
    """A player's rank and score on a board."""

    rank: int
    player: str
    name: str
    score: int
    achieved_at: str | None = None
    submission: str | None = None


@dataclass(frozen=True, slots=True)
class EntryPage(Document):
    """A page of a board's window, and the number of entries in the whole window."""

    board: str
    window: str
    total: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Family(Document):
    """A family of boards: who opens them, the type of each metadata field to filter by, and its rollups."""

    family: str
    title: str
    opened_by: str
    filters: Mapping[str, str]
    rollups: tuple[str, ...] = ()


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
class BoardOutcome(Document):
    """The outcome of one operation on a board: `opened`, `changed`, `same` or `refused`.

    `board` is the board as it is now, if there is one; `problem` says why it was refused.
    """

    status: str
    board: FamilyBoard | None = None
    problem: Mapping[str, Any] | None = None
