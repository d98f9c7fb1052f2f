"""What keeps large recordings: named blobs, each written once. A directory or a bucket; both block their caller."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

CLOCK: Final = "clock"
"""Name of an empty blob that is there to be dated."""


class Blob(NamedTuple):
    """A blob that is there, and when it was put or moved there (Unix milliseconds, by the clock of the place)."""

    name: str
    modified_ms: int


class Blobs(Protocol):
    """Named blobs. Every method fails closed with RecordingsUnavailable, and then nothing is half written."""

    def put(self, name: str, body: bytes) -> bool:
        """True once the blob is durable; False, and nothing is written, if there is one of the name."""
        ...

    def replace(self, name: str, body: bytes) -> None:
        """Makes the blob this one, whatever was there; durable on return."""
        ...

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        """The blob, or None. Of one that is longer than `limit_bytes` no more than one byte beyond is read."""
        ...

    def move(self, name: str, to: str) -> None:
        """Has the blob under another name and dated now; at no moment is it under neither. Nothing if it is gone."""
        ...

    def remove(self, name: str) -> None:
        """Removes the blob. Nothing if it is gone."""
        ...

    def now_ms(self) -> int:
        """The time by the clock that dates the blobs: it need not be ours."""
        ...

    def page(self, after: str, count: int) -> list[Blob]:
        """Up to `count` blobs in the order of their names, after such a name; `""` begins."""
        ...
