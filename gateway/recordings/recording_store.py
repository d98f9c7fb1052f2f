"""Recordings by SHA-256 on blobs: written once, checked at every read, condemned before they are removed.

Assets of boards are stored as recordings are, in the folder `assets/`: no digest of a recording is an asset.

A recording is the blob `ab/cd/<digest>`. Collecting moves it to `condemned/<digest>`, where it can still be
read, and removes it from there later. By then, a submission that found it in its place has named it in the
ledger, or never will.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gateway.recordings.blobs import Blob, Blobs
from gateway.recordings.folder import BlobFolder
from gateway.runtime.telemetry import RECORDING_FAULTS, Event, logger
from policies.errors import RecordingLost

ASSETS: Final = "assets/"
"""The folder of assets. No recording has a name in it."""

_KEPT: Final = re.compile(r"([0-9a-f]{2})/([0-9a-f]{2})/(\1\2[0-9a-f]{60})")
_CONDEMNED: Final = re.compile(r"condemned/([0-9a-f]{64})")

_log = logger()


class RecordingStore:
    """Large recordings. Every method blocks, and raises RecordingsUnavailable if the blobs fail."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def of_assets(self) -> RecordingStore:
        """Return the store of assets on the same blobs."""
        return RecordingStore(BlobFolder(self._blobs, ASSETS))

    def store(self, digest: bytes, body: bytes) -> bool:
        """Store a recording durably, and return whether it was not stored yet. A damaged copy is replaced."""
        name = kept_name(digest)
        if self._blobs.put(name, body):
            return True
        stored = self._blobs.get(name, len(body))
        if stored == body:
            return False
        if stored is not None:
            RECORDING_FAULTS.labels("healed").inc()
            _log.error(Event.RECORDING_FAULT, recording=digest.hex(), fault="healed")
        self._blobs.replace(name, body)
        return True

    def load(self, digest: bytes, size_bytes: int) -> bytes:
        """Return the recording with this digest. Raises RecordingLost if it is missing or altered."""
        is_there = False
        for name in _names_of(digest):
            body = self._blobs.get(name, size_bytes)
            if body is not None and hashlib.sha256(body).digest() == digest:
                return body
            is_there = is_there or body is not None
        raise lost(digest, "altered" if is_there else "missing")

    def size_in_place(self, digest: bytes) -> int | None:
        """Return the bytes of whatever is in the recording's place, without reading it; None for nothing."""
        return self._blobs.size(kept_name(digest))

    def size(self, digest: bytes) -> int | None:
        """Return the bytes of a recording, in its place or condemned; None if it is missing."""
        sizes = map(self._blobs.size, _names_of(digest))
        return next((size for size in sizes if size is not None), None)

    def part(self, digest: bytes, start: int, count: int) -> bytes | None:
        """Return up to `count` unchecked bytes of a recording from `start`; None if it is missing."""
        parts = (self._blobs.part(name, start, count) for name in _names_of(digest))
        return next((part for part in parts if part is not None), None)

    def now_ms(self) -> int:
        """Return the time by the store's clock (Unix milliseconds)."""
        return self._blobs.now_ms()

    def page(self, after: str, count: int) -> list[Blob]:
        """Return up to `count` blobs of any kind in the order of their names, after the name `after`."""
        return self._blobs.page(after, count)

    def condemn(self, digest: bytes) -> None:
        """Set a recording aside. It can still be read."""
        self._blobs.move(kept_name(digest), condemned_name(digest))

    def reprieve(self, digest: bytes) -> None:
        """Put a condemned recording back."""
        self._blobs.move(condemned_name(digest), kept_name(digest))

    def remove(self, name: str) -> None:
        """Remove a condemned recording, or a file that a crash left."""
        self._blobs.remove(name)


def checked(digest: bytes, body: bytes) -> bytes:
    """Return a recording that has the digest. Raises RecordingLost if it does not."""
    if hashlib.sha256(body).digest() != digest:
        raise lost(digest, "altered")
    return body


def lost(digest: bytes, fault: str) -> RecordingLost:
    """Log and count a recording that is `missing` or `altered`, and return its error."""
    RECORDING_FAULTS.labels(fault).inc()
    _log.error(Event.RECORDING_FAULT, recording=digest.hex(), fault=fault)
    return RecordingLost(f"the recording {digest.hex()} is {fault}")


def kept_name(digest: bytes) -> str:
    """Return the name of a recording in its place."""
    name = digest.hex()
    return f"{name[:2]}/{name[2:4]}/{name}"


def condemned_name(digest: bytes) -> str:
    """Return the name of a condemned recording."""
    return f"condemned/{digest.hex()}"


def _names_of(digest: bytes) -> tuple[str, ...]:
    """Return the names under which a recording is looked for.

    The first is tried twice, since a reprieve may move the recording back between two reads.
    """
    return (kept_name(digest), condemned_name(digest), kept_name(digest))


def kept_digest(name: str) -> bytes | None:
    """Return the digest in the name of a recording in its place, None for any other name."""
    match = _KEPT.fullmatch(name)
    return bytes.fromhex(match[3]) if match else None


def condemned_digest(name: str) -> bytes | None:
    """Return the digest in the name of a condemned recording, None for any other name."""
    match = _CONDEMNED.fullmatch(name)
    return bytes.fromhex(match[1]) if match else None
