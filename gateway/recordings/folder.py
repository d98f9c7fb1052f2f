"""A folder of blobs: names with a prefix, which no name outside of it has."""

from __future__ import annotations

from gateway.recordings.blobs import Blob, Blobs


class BlobFolder:
    """The blobs whose names begin with `prefix`, named without it. See `Blobs` for the methods."""

    def __init__(self, blobs: Blobs, prefix: str) -> None:
        self._blobs = blobs
        self._prefix = prefix

    def put(self, name: str, body: bytes) -> bool:
        """Write a blob of the folder; return False if the name is taken."""
        return self._blobs.put(self._prefix + name, body)

    def replace(self, name: str, body: bytes) -> None:
        """Write a blob of the folder over whatever has its name."""
        self._blobs.replace(self._prefix + name, body)

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        """Return the bytes of a blob of the folder, or None."""
        return self._blobs.get(self._prefix + name, limit_bytes)

    def size(self, name: str) -> int | None:
        """Return the size of a blob of the folder, or None."""
        return self._blobs.size(self._prefix + name)

    def part(self, name: str, start: int, count: int) -> bytes | None:
        """Return bytes of a blob of the folder from `start`, or None."""
        return self._blobs.part(self._prefix + name, start, count)

    def move(self, name: str, to: str) -> None:
        """Rename a blob within the folder."""
        self._blobs.move(self._prefix + name, self._prefix + to)

    def remove(self, name: str) -> None:
        """Remove a blob of the folder."""
        self._blobs.remove(self._prefix + name)

    def now_ms(self) -> int:
        """Return the time of the store that has the folder."""
        return self._blobs.now_ms()

    def page(self, after: str, count: int) -> list[Blob]:
        """Return blobs of the folder in the order of their names."""
        inside = self._blobs.page(self._prefix + after, count)
        names = ((blob.name, blob.modified_ms) for blob in inside if blob.name.startswith(self._prefix))
        return [Blob(name.removeprefix(self._prefix), modified_ms) for name, modified_ms in names]
