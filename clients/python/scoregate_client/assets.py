"""Assets: the files, such as maps, with which boards of families are played."""

from __future__ import annotations

from hashlib import sha256

import aiohttp

from .connection import Connection, board_path, segment
from .errors import DamagedAsset

ASSET_BYTES = 8 * 1024 * 1024
"""The size of the largest asset."""
DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=120, sock_connect=10)
"""As long as the gateway takes at most for the largest asset, and a while to store it."""
OCTETS = "application/octet-stream"


class AssetReads(Connection):
    """Downloads assets. Anybody may."""

    async def asset(self, board: str, digest: str) -> bytes:
        """Return the asset of a board by its digest, `sha256:` and 64 hexadecimal digits, which is compared.

        It never changes: keep it under its digest. Raises `ScoregateError`, or `DamagedAsset` if no attempt
        brought the file that was asked for.
        """
        name = digest.removeprefix("sha256:")

        async def read(response: aiohttp.ClientResponse) -> bytes:
            return await _file_of(response, name)

        url = self._url(f"{board_path(board)}/assets/{segment(name)}")
        return await self._download(url, read, DOWNLOAD_TIMEOUT)


async def _file_of(response: aiohttp.ClientResponse, name: str) -> bytes:
    """Return the file in an answer. Raises DamagedAsset if it is not the one of this digest."""
    content = bytearray()
    async for part in response.content.iter_any():
        content += part
        if len(content) > ASSET_BYTES:
            raise DamagedAsset(f"the file has more than {ASSET_BYTES} bytes")
    if sha256(content).hexdigest() != name:
        raise DamagedAsset("the file does not have its digest")
    return bytes(content)
