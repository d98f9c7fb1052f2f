"""Runs that wait to be submitted, as text that every client reads. Nothing here touches a disk."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from .documents import document_of, json_bytes
from .errors import ScoregateError
from .models import KEY_BYTES, TICKET, Submission

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A run that was played, and the exact body that submits it. `written_at` is in Unix seconds.

    `recording` is that of a committed run, which is kept until the gateway has verified it or asks for it no
    more. `submission` is set once the gateway has taken the run.
    """

    board: str
    ticket: str = field(repr=False)
    key: bytes = field(repr=False)
    body: str = field(repr=False)
    written_at: int
    recording: bytes | None = field(default=None, repr=False)
    submission: str | None = None

    def same_run(self, other: QueueEntry) -> bool:
        """Tell whether both submit the same body for the same run."""
        return (self.ticket, self.body) == (other.ticket, other.body)

    def encoded(self) -> bytes:
        """Return the content of its file."""
        document = {
            "version": VERSION,
            "board": self.board,
            "ticket": self.ticket,
            "key": b64encode(self.key).decode(),
            "body": self.body,
            "written_at": self.written_at,
        }
        if self.recording is not None:
            document["recording"] = b64encode(self.recording).decode()
        if self.submission is not None:
            document["submission"] = self.submission
        return json_bytes(document)

    @classmethod
    def decoded(cls, content: bytes) -> QueueEntry:
        """Return the entry of a file. Raises ValueError for a damaged one."""
        document = document_of(content)
        if document.get("version") != VERSION:
            raise ValueError(f"no entry of version {VERSION}")
        ticket, body = _text(document, "ticket"), _text(document, "body")
        key = b64decode(_text(document, "key"), validate=True)
        if not TICKET.fullmatch(ticket) or len(key) != KEY_BYTES or not document_of(body.encode()):
            raise ValueError("ticket, key or body are not those of a run")
        written_at = document.get("written_at")
        if not isinstance(written_at, int | float) or not 0 <= written_at < 1 << 40:
            raise ValueError("no time at which it was written")
        recording = (
            b64decode(_text(document, "recording"), validate=True) if "recording" in document else None
        )
        submission = _text(document, "submission") if "submission" in document else None
        return cls(_text(document, "board"), ticket, key, body, int(written_at), recording, submission)


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """What became of an entry in a flush.

    `outcome` is `accepted` with a `receipt`, `refused` with a `problem`, `kept` with the problem if it was
    sent, `expired` after seven days, or `damaged`: the file, which is no entry, was set aside as `file`.
    """

    outcome: str
    file: str
    entry: QueueEntry | None = None
    receipt: Submission | None = None
    problem: ScoregateError | None = None


@dataclass(frozen=True, slots=True)
class Flushed:
    """The outcomes of a flush, the oldest entry first, and the submissions whose recordings were sent."""

    outcomes: tuple[QueueOutcome, ...] = ()
    revealed: tuple[str, ...] = ()


def digest_of(ticket: str) -> str:
    """Return the part of a file's name that is the same for all entries of a run."""
    return sha256(ticket.encode()).hexdigest()[:8]


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise ValueError(f"no {name}")  # noqa: TRY004 - what is damaged is a value, not a type of ours
    value.encode()  # half a surrogate pair is no text that could be sent
    return value
