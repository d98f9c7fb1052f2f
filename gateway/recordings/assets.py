"""Assets of boards: files by SHA-256 beside the recordings, the last used of them in memory."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from gateway.recordings.recording_store import RecordingStore, lost
from gateway.recordings.recordings import Recordings
from policies.errors import AssetMismatch, RecordingsUnavailable
from policies.opened_board import ASSET_BYTES

P = ParamSpec("P")
T = TypeVar("T")

CACHE_BYTES: Final = 4 * ASSET_BYTES
"""Memory for assets of each process that reads any."""

PART_BYTES: Final = 256 * 1024
"""Bytes that a stream reads from the store at once."""

LOOKED_UP: Final = 32
"""Assets that are looked up at once, so that a batch of boards neither waits long nor fills the queue."""

READERS: Final = 4
"""Downloads that ask the store at once: they take at most half of its threads from submissions."""


TURN_S: Final = 10.0
"""Time that a download waits for its turn: a store that stalls holds no download for longer."""


class Assets:
    """The assets of a deployment. Every method raises RecordingsUnavailable if the store fails."""

    def __init__(self, recordings: Recordings, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._recordings = recordings
        self._cache_bytes = cache_bytes
        self._at_hand: OrderedDict[bytes, bytes] = OrderedDict()
        self._used_bytes = 0
        self._readers = asyncio.Semaphore(READERS)

    async def store(self, content: bytes) -> bytes:
        """Store an asset durably, and return its digest. The content has 1 to `ASSET_BYTES` bytes."""
        digest = hashlib.sha256(content).digest()
        await self.store_as(digest, content)
        return digest

    async def store_as(self, digest: bytes, content: bytes) -> bool:
        """Store an asset durably, and return whether it was not stored yet.

        The content has 1 to `ASSET_BYTES` bytes. Raises AssetMismatch, and stores nothing, if it does not
        have the digest.
        """
        assert 0 < len(content) <= ASSET_BYTES
        return await self._recordings.off_loop(_store_checked, self._recordings.assets, digest, content)

    async def is_stored(self, digest: bytes) -> bool:
        """Return whether a board may be opened with this asset.

        One that is set aside to be removed may not: it has to be stored again.
        """
        size_bytes = await self._recordings.off_loop(self._recordings.assets.size_in_place, digest)
        return size_bytes is not None and 0 < size_bytes <= ASSET_BYTES

    async def unstored(self, digests: Collection[bytes]) -> set[bytes]:
        """Return those of the digests with which no board may be opened."""
        rest, unstored = list(digests), set[bytes]()
        while rest:
            group, rest = rest[:LOOKED_UP], rest[LOOKED_UP:]
            found = zip(group, await asyncio.gather(*map(self.is_stored, group)), strict=True)
            unstored.update(digest for digest, is_stored in found if not is_stored)
        return unstored

    async def size_bytes(self, digest: bytes) -> int:
        """Return the size of an asset that a board names. Raises RecordingLost if it is missing."""
        size_bytes = await self._in_turn(self._recordings.assets.size, digest)
        if size_bytes is None:
            raise lost(digest, "missing")
        if not 0 < size_bytes <= ASSET_BYTES:
            raise lost(digest, "altered")
        return size_bytes

    async def parts(self, digest: bytes, size_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield an asset of this size from the store, part by part. Nothing is kept in memory.

        The last part is yielded only if all of them have the digest. Raises RecordingLost if the asset is
        missing or altered.
        """
        assets, hashed, start = self._recordings.assets, hashlib.sha256(), 0
        while start < size_bytes:
            count = min(PART_BYTES, size_bytes - start)
            part = await self._in_turn(assets.part, digest, start, count)
            if part is None:
                raise lost(digest, "missing")
            hashed.update(part)
            start += len(part)
            if len(part) < count or (start == size_bytes and hashed.digest() != digest):
                raise lost(digest, "altered")
            yield part

    async def _in_turn(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return the result of a call of the store, made after others'.

        The turn lasts as long as the call keeps a thread, even if the store stalls and nobody waits any more.
        Raises RecordingsUnavailable after TURN_S.
        """
        loop = asyncio.get_running_loop()

        def leave() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a turn
                loop.call_soon_threadsafe(self._readers.release)

        try:
            async with asyncio.timeout(TURN_S):
                await self._readers.acquire()
        except TimeoutError:
            raise RecordingsUnavailable("too many downloads wait for the store of recordings") from None
        return await self._recordings.off_loop_until(leave, work, *arguments, **named)

    async def load(self, digest: bytes) -> bytes:
        """Return an asset that a board names. Raises RecordingLost if it is missing or altered."""
        content = self._at_hand.get(digest)
        if content is None:
            content = await self._recordings.off_loop(self._recordings.assets.load, digest, ASSET_BYTES)
            self._keep(digest, content)
        else:
            self._at_hand.move_to_end(digest)
        return content

    def _keep(self, digest: bytes, content: bytes) -> None:
        """Keep an asset at hand, and let go of those that were not used for longest."""
        if digest not in self._at_hand:
            self._at_hand[digest] = content
            self._used_bytes += len(content)
        while self._used_bytes > self._cache_bytes:
            _, oldest = self._at_hand.popitem(last=False)
            self._used_bytes -= len(oldest)


def _store_checked(store: RecordingStore, digest: bytes, content: bytes) -> bool:
    if hashlib.sha256(content).digest() != digest:
        raise AssetMismatch("the content does not have the digest")
    return store.store(digest, content)
