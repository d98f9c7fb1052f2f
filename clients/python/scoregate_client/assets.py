"""Assets: the files, such as maps, with which boards of families are played."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from http import HTTPStatus

import aiohttp

from .connection import FIRST_PAUSE_S, LONGEST_PAUSE_S, Connection, board_path, document_of, segment
from .errors import UNREACHED, DamagedAsset, ScoregateError, no_answer

ASSET_BYTES = 8 * 1024 * 1024
"""The size of the largest asset."""
DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
OCTETS = "application/octet-stream"


class AssetReads(Connection):
    """Downloads assets. Anybody may."""

    async def asset(self, board: str, digest: str) -> bytes:
        """Return the asset of a board by its digest, `sha256:` and 64 hexadecimal digits, which is compared.

        It never changes: keep it under its digest. Raises `ScoregateError`, or `DamagedAsset` if no attempt
        brought the file that was asked for.
        """
        name = digest.removeprefix("sha256:")
        for attempt in range(1, self._attempts + 1):
            is_last = attempt == self._attempts
            try:
                return await self._downloaded(f"{board_path(board)}/assets/{segment(name)}", name)
            except UNREACHED as error:
                if is_last:
                    raise no_answer(error) from error
            except DamagedAsset:
                if is_last:
                    raise
            except ScoregateError as refusal:
                if refusal.status != HTTPStatus.SERVICE_UNAVAILABLE or is_last:
                    raise
            await asyncio.sleep(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))
        raise AssertionError("unreachable")

    async def _downloaded(self, path: str, name: str) -> bytes:
        request = self._opened().get(self._url(path), timeout=DOWNLOAD_TIMEOUT, allow_redirects=False)
        async with request as response:
            if response.status != HTTPStatus.OK:
                raise ScoregateError(response.status, document_of(await response.read()))
            content = bytearray()
            async for part in response.content.iter_any():
                content += part
                if len(content) > ASSET_BYTES:
                    raise DamagedAsset(f"the file has more than {ASSET_BYTES} bytes")
        if sha256(content).hexdigest() != name:
            raise DamagedAsset("the file does not have its digest")
        return bytes(content)
