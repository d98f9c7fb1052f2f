"""The gateway's answers about batches and the trail. Times are RFC 3339, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .documents import Document


@dataclass(frozen=True, slots=True)
class BatchOnBoard(Document):
    """How many submissions of a batch are on a board."""

    board: str
    items: int


@dataclass(frozen=True, slots=True)
class PodiumChange(Document):
    """A window of a board whose first three a batch would change."""

    board: str
    window: str


@dataclass(frozen=True, slots=True)
class Batch(Document):
    """A decision on many submissions, with what its preview says.

    `items` counts what was selected, `outcomes` what became of how many. `in_cases` counts the cases that a
    colleague is in, `left_out` what is left as it is, by reason. `detail` says what holds it up, or is None.
    """

    batch: str
    state: str
    by: str
    action: str
    code: str
    scopes: tuple[str, ...]
    selection: Mapping[str, Any]
    items: int
    boards: tuple[BatchOnBoard, ...]
    board_count: int
    podiums: tuple[PodiumChange, ...]
    podium_count: int
    in_cases: int
    left_out: Mapping[str, int]
    outcomes: Mapping[str, int]
    detail: str | None
    created_at: str
    expires_at: str | None
    etag: str
    note: str = ""
    message: str | None = None
    applied_by: str | None = None
    reversed_by: str | None = None


@dataclass(frozen=True, slots=True)
class ReadBatch(Document):
    """A batch that was read with some of its items."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class BatchItem(Document):
    """A submission of a batch: its newest event at the preview, and what the batch did, by which event."""

    submission: str
    board: str
    player: str
    newest_event: int
    outcome: str
    why: str | None
    event: int | None


@dataclass(frozen=True, slots=True)
class TrailEvent(Document):
    """Something a moderator did: the event `seq` of the sealed log."""

    seq: int
    at: str
    moderator: str
    reason: str
    meaning: str
    from_state: str
    to_state: str
    board: str | None
    player: str | None
    submission: str | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrailFile:
    """Rows of the audit trail as CSV, and the cursor of the next file, None after the last."""

    content: bytes
    next: str | None
