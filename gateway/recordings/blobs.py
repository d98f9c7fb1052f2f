"""Named blobs for large recordings, in a directory or a bucket. Both block their caller."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

CLOCK: Final = "clock"
"""The name of an empty blob whose date is the store's time."""


class Blob(NamedTuple):
    """A blob, and when it was put or moved to its name (Unix milliseconds by the store's clock)."""

    name: str
    modified_ms: int


class Blobs(Protocol):
    """Named blobs. Every method fails closed with RecordingsUnavailable, and writes all or nothing."""

    def put(self, name: str, body: bytes) -> bool:
        """Write a blob durably; return False, and write nothing, if the name is taken."""
        ...

    def replace(self, name: str, body: bytes) -> None:
        """Write a blob durably over whatever has its name."""
        ...

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        """Return at most `limit_bytes` + 1 bytes of a blob, or None if there is none."""
        ...

    def size(self, name: str) -> int | None:
        """Return the number of bytes of a blob, or None if there is none."""
        ...

    def part(self, name: str, start: int, count: int) -> bytes | None:
        """Return up to `count` (1 or more) bytes of a blob from byte `start`, or None if there is no blob.

        `start` is less than the blob's size.
        """
        ...

    def move(self, name: str, to: str) -> None:
        """Rename a blob and date it now. It always has one of the names. Do nothing if it is gone."""
        ...

    def remove(self, name: str) -> None:
        """Remove a blob. Do nothing if it is gone."""
        ...

    def now_ms(self) -> int:
        """Return the time of the clock that dates the blobs, which need not be ours."""
        ...

    def page(self, after: str, count: int) -> list[Blob]:
        """Return up to `count` blobs in the order of their names, after the name `after`."""
        ...
