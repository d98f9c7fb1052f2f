"""Recordings by their SHA-256, on blobs: written once, checked at every read, set aside before they are removed.

A recording is `ab/cd/<digest>`. Collecting moves it to `condemned/<digest>`, where it is still read, and removes it
from there later: whoever found it in its place just before has long since named it in the ledger, or never will.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gateway.recordings.blobs import Blob, Blobs
from gateway.runtime.telemetry import RECORDING_FAULTS, Event, logger
from policies.errors import RecordingLost

_KEPT: Final = re.compile(r"([0-9a-f]{2})/([0-9a-f]{2})/(\1\2[0-9a-f]{60})")
_CONDEMNED: Final = re.compile(r"condemned/([0-9a-f]{64})")

_log = logger()


class RecordingStore:
    """Large recordings. It blocks; raises RecordingsUnavailable when its blobs cannot be had."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def store(self, digest: bytes, body: bytes) -> None:
        """Returns once the recording is durable. One that is there and damaged is put right with these bytes."""
        name = kept_name(digest)
        if self._blobs.put(name, body):
            return
        found = self._blobs.get(name, len(body))
        if found == body:
            return
        if found is not None:
            RECORDING_FAULTS.labels("healed").inc()
            _log.error(Event.RECORDING_FAULT, recording=digest.hex(), fault="healed")
        self._blobs.replace(name, body)

    def load(self, digest: bytes, size_bytes: int) -> bytes:
        """The recording, which has this digest. Raises RecordingLost if it is gone, or is no longer what it was."""
        seen = None
        # Its place is looked at again, for it may be on its way back there.
        for name in (kept_name(digest), condemned_name(digest), kept_name(digest)):
            found = self._blobs.get(name, size_bytes)
            if found is not None and hashlib.sha256(found).digest() == digest:
                return found
            seen = found if found is not None else seen
        raise lost(digest, "missing" if seen is None else "altered")

    def now_ms(self) -> int:
        """The time by the clock of the store (Unix milliseconds)."""
        return self._blobs.now_ms()

    def page(self, after: str, count: int) -> list[Blob]:
        """Up to `count` of whatever is in the store, in the order of names, after such a name."""
        return self._blobs.page(after, count)

    def condemn(self, digest: bytes) -> None:
        """Sets a recording aside. It can still be read."""
        self._blobs.move(kept_name(digest), condemned_name(digest))

    def reprieve(self, digest: bytes) -> None:
        """Puts a recording back that was set aside."""
        self._blobs.move(condemned_name(digest), kept_name(digest))

    def remove(self, name: str) -> None:
        """Removes what was set aside, or was left by a crash."""
        self._blobs.remove(name)


def checked(digest: bytes, body: bytes) -> bytes:
    """The recording, if it has the digest. Raises RecordingLost."""
    if hashlib.sha256(body).digest() != digest:
        raise lost(digest, "altered")
    return body


def lost(digest: bytes, fault: str) -> RecordingLost:
    """The error of a recording that is `missing` or `altered`, logged and counted."""
    RECORDING_FAULTS.labels(fault).inc()
    _log.error(Event.RECORDING_FAULT, recording=digest.hex(), fault=fault)
    return RecordingLost(f"the recording {digest.hex()} is {fault}")


def kept_name(digest: bytes) -> str:
    """Where a recording is kept."""
    name = digest.hex()
    return f"{name[:2]}/{name[2:4]}/{name}"


def condemned_name(digest: bytes) -> str:
    """Where a recording is set aside."""
    return f"condemned/{digest.hex()}"


def kept_digest(name: str) -> bytes | None:
    """The digest of a recording in its place, None for any other name."""
    found = _KEPT.fullmatch(name)
    return bytes.fromhex(found[3]) if found else None


def condemned_digest(name: str) -> bytes | None:
    """The digest of a recording that is set aside, None for any other name."""
    found = _CONDEMNED.fullmatch(name)
    return bytes.fromhex(found[1]) if found else None
