"""Bounds on uploads and downloads of assets: how many at once, and how many bytes for each caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from redis.asyncio import Redis

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.rate_limits import BYTES, quota_exceeded
from gateway.edge.admission.seats import Seats
from gateway.edge.problems import Problem, ProblemType
from gateway.index import keys
from gateway.index.limits.transfer_limit import TransferLimit, TransferQuota
from policies.limits import NETWORK_SHARE, Rate

UPLOADS: Final = 8
"""Uploads of all servers at once, each of which may hold a whole asset in memory."""

UPLOADS_PER_KEY: Final = 2
"""Uploads of one key at once, so that slow ones leave places to the servers of other studios."""

DOWNLOADS: Final = 256
"""Downloads at once, each of which holds a part of an asset (`PART_BYTES`) in memory."""

DOWNLOADS_PER_ADDRESS: Final = 32
DOWNLOADS_PER_NETWORK: Final = 128

UPLOAD_RATE: Final = Rate(per_minute=600, burst=1200)
UPLOAD_KIB: Final = Rate(per_minute=65_536, burst=524_288)
"""Uploads of one key, and their KiB: 512 MiB at once, and 64 MiB a minute."""

DOWNLOAD_RATE: Final = Rate(per_minute=600, burst=1200)
DOWNLOAD_KIB: Final = Rate(per_minute=65_536, burst=262_144)
"""Downloads of one address, and their KiB: 256 MiB at once, and 64 MiB a minute.

A network gets `NETWORK_SHARE` times as many of both, but no more than 976 MiB at once,
which is the most that a rate allows.
"""


class AssetTraffic:
    """The uploads and downloads of one edge that are under way, and the limits that all edges share."""

    def __init__(self, client: Redis) -> None:
        self._limit = TransferLimit(client)
        self._seats = Seats(DOWNLOADS_PER_ADDRESS, DOWNLOADS_PER_NETWORK)
        self._uploads: Counter[str] = Counter()
        self.downloads = 0

    async def charge_upload(self, key_id: str, size_bytes: int) -> None:
        """Count an upload of a server. Raises `quota-exceeded` if its key has sent too much."""
        quota = TransferQuota("upload", keys.uploads(key_id), UPLOAD_RATE, UPLOAD_KIB)
        await self._charge(size_bytes, quota)

    async def charge_download(self, names: ClientName, size_bytes: int) -> None:
        """Count a download; one without a byte, for a head, counts as one of 1 KiB.

        Raises `quota-exceeded` if the address or its network has read too much.
        """
        of_network = (DOWNLOAD_RATE.times(NETWORK_SHARE), DOWNLOAD_KIB.times(NETWORK_SHARE))
        of_address = keys.downloads(names.network, names.address)
        await self._charge(
            size_bytes,
            TransferQuota("address-download", of_address, DOWNLOAD_RATE, DOWNLOAD_KIB),
            TransferQuota("network-download", keys.downloads(names.network, ""), *of_network),
        )

    async def _charge(self, size_bytes: int, *quotas: TransferQuota) -> None:
        refusal = await self._limit.charge(size_bytes, *quotas)
        if refusal is None:
            return
        quota = refusal.quota
        if refusal.is_of_kib:
            raise quota_exceeded(f"{quota.name}-bytes", quota.kib, refusal.wait_ms, unit=BYTES)
        raise quota_exceeded(f"{quota.name}s", quota.requests, refusal.wait_ms)

    @property
    def uploads(self) -> int:
        """Return how many uploads are under way."""
        return self._uploads.total()

    @contextmanager
    def uploading(self, key_id: str) -> Iterator[None]:
        """Count an upload of a server during the block.

        Raises `quota-exceeded` if its key has too many, `temporary-reduced-capacity` if the edge has.
        """
        if self.uploads >= UPLOADS:
            raise Problem(ProblemType.REDUCED_CAPACITY, "too many uploads are under way")
        if self._uploads[key_id] >= UPLOADS_PER_KEY:
            detail = f"your key has {UPLOADS_PER_KEY} uploads under way: send one after the other"
            raise Problem(ProblemType.QUOTA_EXCEEDED, detail)
        self._uploads[key_id] += 1
        try:
            yield
        finally:
            self._uploads[key_id] -= 1
            if not self._uploads[key_id]:
                del self._uploads[key_id]

    @contextmanager
    def downloading(self, names: ClientName) -> Iterator[None]:
        """Count a download during the block.

        Raises `quota-exceeded` if the client has too many, `temporary-reduced-capacity` if the edge has.
        """
        if self.downloads >= DOWNLOADS:
            raise Problem(ProblemType.REDUCED_CAPACITY, "too many downloads are under way")
        if not self._seats.enter(names):
            detail = "your address, or its network, has too many downloads under way"
            raise Problem(ProblemType.QUOTA_EXCEEDED, detail)
        self.downloads += 1
        try:
            yield
        finally:
            self.downloads -= 1
            self._seats.leave(names)
