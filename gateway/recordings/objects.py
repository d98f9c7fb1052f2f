"""Blobs as objects in an S3 bucket, through obstore."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from gateway.recordings.blobs import CLOCK, Blob
from gateway.runtime.boundary import FAULTS, boundary
from gateway.runtime.unexpected import FaultPlace
from policies.errors import RecordingsUnavailable, SettingsError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

RETRIES: Final = 2


class ObjectBlobs:
    """Blobs in a bucket, each put with `If-None-Match: *`. See `Blobs` for the methods."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def put(self, name: str, body: bytes) -> bool:
        """Put an object; return False if the name is taken."""
        with _faults():
            try:
                obstore.put(self._store, name, body, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def replace(self, name: str, body: bytes) -> None:
        """Put an object over whatever has its name."""
        with _faults():
            obstore.put(self._store, name, body, mode="overwrite", use_multipart=False)

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        """Return the object's bytes, or None."""
        with _faults():
            try:
                blob = obstore.get(self._store, name)
                if blob.meta["size"] > limit_bytes:
                    return obstore.get_range(self._store, name, start=0, end=limit_bytes + 1).to_bytes()
                return blob.bytes().to_bytes()
            except FileNotFoundError:
                return None

    def size(self, name: str) -> int | None:
        """Return the size of the object, or None."""
        with _faults():
            try:
                return int(obstore.head(self._store, name)["size"])
            except FileNotFoundError:
                return None

    def part(self, name: str, start: int, count: int) -> bytes | None:
        """Return bytes of the object from `start`, or None."""
        with _faults():
            try:
                return obstore.get_range(self._store, name, start=start, length=count).to_bytes()
            except FileNotFoundError:
                return None

    def move(self, name: str, to: str) -> None:
        """Copy an object, then remove it: in between it has both names."""
        with _faults():
            try:
                obstore.copy(self._store, name, to)
            except FileNotFoundError:
                return
        self.remove(name)

    def remove(self, name: str) -> None:
        """Remove the object."""
        with _faults():
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

    def now_ms(self) -> int:
        """Return the date of an object that is put for this."""
        self.replace(CLOCK, b"")
        with _faults():
            return int(obstore.head(self._store, CLOCK)["last_modified"].timestamp() * 1000)

    def page(self, after: str, count: int) -> list[Blob]:
        """Return objects in the order of their names, in which S3 lists them."""
        with _faults():
            pages = obstore.list(self._store, offset=after or None, chunk_size=count)
            page = next(iter(pages), [])
        return [Blob(facts["path"], int(facts["last_modified"].timestamp() * 1000)) for facts in page]


def bucket(url: str, timeout_s: float) -> ObjectBlobs:
    """Return the blobs at `s3://bucket/prefix`. The `AWS_*` variables set region, endpoint and credentials.

    Raises SettingsError for a URL or a variable that obstore refuses.
    """
    timeout = timedelta(seconds=timeout_s)
    try:
        store = S3Store.from_url(
            url,
            client_options={"timeout": timeout, "connect_timeout": timeout, "allow_http": True},
            retry_config={"max_retries": RETRIES, "retry_timeout": timeout},
        )
    except (BaseError, ValueError) as error:
        summary = str(error).partition("\n")[0]
        raise SettingsError(f"SCOREGATE_RECORDINGS_URL: {summary}") from None
    return ObjectBlobs(store)


def _faults() -> AbstractContextManager[None]:
    """Turn the bucket's refusals and timeouts into RecordingsUnavailable."""
    return boundary(FaultPlace.RECORDINGS, _unavailable, known=(*FAULTS, BaseError))


def _unavailable(message: str) -> RecordingsUnavailable:
    return RecordingsUnavailable(f"the bucket of recordings: {message}")
