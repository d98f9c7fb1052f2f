"""The gateway's answers as frozen dataclasses, without members that this version does not know."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


class _Document:
    """A dataclass that is read from a JSON object."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the object of a JSON document."""
        names = {item.name for item in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in document.items() if name in names})


@dataclass(frozen=True, slots=True)
class Player(_Document):
    """A player and the bearer token that acts for them."""

    player: str
    name: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Run(_Document):
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
class Submission(_Document):
    """A submission and its state. `reason` is a coarse class; `rank` is None while the score does not count.

    `reveal_by` (RFC 3339) is the deadline for its recording, None while the gateway does not request it.
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


@dataclass(frozen=True, slots=True)
class Reveal(_Document):
    """A recording that the gateway requests by its digest, with the deadline `reveal_by` (RFC 3339, UTC)."""

    submission: str
    board: str
    recording_digest: str
    recording_bytes: int
    reveal_by: str


@dataclass(frozen=True, slots=True)
class Entry(_Document):
    """A player's rank and score on a board."""

    rank: int
    player: str
    name: str
    score: int
    achieved_at: str | None = None
    submission: str | None = None


@dataclass(frozen=True, slots=True)
class EntryPage:
    """A page of a board's window, and the number of entries in the whole window."""

    board: str
    window: str
    total: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Family(_Document):
    """A family of boards: who opens them, the type of each metadata field to filter by, and its rollups."""

    family: str
    title: str
    opened_by: str
    filters: Mapping[str, str]
    rollups: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the family of a JSON document."""
        return super(Family, cls).from_json({**document, "rollups": tuple(document["rollups"])})


@dataclass(frozen=True, slots=True)
class FamilyBoard(_Document):
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
class FamilyBoardPage:
    """A page of a family's boards, and the cursor of the next one, None after the last."""

    boards: tuple[FamilyBoard, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class BoardStanding(_Document):
    """A player's rank and score on one board, among `total` entries."""

    board: str
    title: str
    rank: int
    score: int
    total: int
    achieved_at: str | None = None
    submission: str | None = None


@dataclass(frozen=True, slots=True)
class StandingPage:
    """A page of a player's standings in a window, and the cursor of the next one, None after the last."""

    window: str
    standings: tuple[BoardStanding, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class BoardEntry(_Document):
    """A player on one of the boards that were asked for.

    `status` is `ranked`, `unranked`, `no-board`, `no-window` or `rebuilding`; only with the first is there a
    `standing`.
    """

    board: str
    status: str
    window: str | None = None
    standing: BoardStanding | None = None

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the entry of a JSON document."""
        standing = document.get("standing")
        read = BoardStanding.from_json(standing) if standing else None
        return super(BoardEntry, cls).from_json({**document, "standing": read})


@dataclass(frozen=True, slots=True)
class BoardOutcome:
    """The outcome of one operation on a board: `opened`, `changed`, `same` or `refused`.

    `board` is the board as it is now, if there is one; `problem` says why it was refused.
    """

    status: str
    board: FamilyBoard | None = None
    problem: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the outcome of a JSON document."""
        board = document.get("board")
        read = FamilyBoard.from_json(board) if board else None
        return cls(document["status"], read, document.get("problem"))
