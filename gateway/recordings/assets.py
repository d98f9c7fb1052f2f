"""Assets of boards: files by SHA-256 in the store of recordings, the last used of them in memory."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from gateway.recordings.recordings import Recordings
from policies.opened_board import ASSET_BYTES

CACHE_BYTES: Final = 4 * ASSET_BYTES
"""Memory for assets of each process that reads any."""


class Assets:
    """The assets of a deployment. Every method raises RecordingsUnavailable if the store fails."""

    def __init__(self, recordings: Recordings, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._recordings = recordings
        self._cache_bytes = cache_bytes
        self._at_hand: OrderedDict[bytes, bytes] = OrderedDict()
        self._used_bytes = 0

    async def store(self, content: bytes) -> bytes:
        """Store an asset durably, and return its digest. The content has 1 to `ASSET_BYTES` bytes."""
        assert 0 < len(content) <= ASSET_BYTES
        digest = hashlib.sha256(content).digest()
        await self._recordings.store(digest, content)
        return digest

    async def is_stored(self, digest: bytes) -> bool:
        """Return whether a board may be opened with this asset.

        One that is set aside to be removed may not: it has to be stored again.
        """
        return await self._recordings.off_loop(self._recordings.large.has, digest)

    async def load(self, digest: bytes) -> bytes:
        """Return an asset that a board names. Raises RecordingLost if it is missing or altered."""
        content = self._at_hand.get(digest)
        if content is None:
            content = await self._recordings.off_loop(self._recordings.large.load, digest, ASSET_BYTES)
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
