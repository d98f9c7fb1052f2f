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

    `parameters` is the text of the board's parameters in JSON and `asset` the digest of its asset, or None.
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
