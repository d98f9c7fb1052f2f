"""Assets: the files, such as maps, with which boards of families are played."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from .connection import Connection, board_path, segment
from .errors import DamagedAsset
from .transport import HttpAnswer, HttpRequest

ASSET_BYTES: Final = 8 * 1024 * 1024
"""The size of the largest asset."""
DOWNLOAD_S: Final = 600.0
SILENCE_S: Final = 30.0
UPLOAD_S: Final = 120.0
"""As long as the gateway takes at most for the largest asset, and a while to store it."""
OCTETS: Final = "application/octet-stream"


class AssetReads(Connection):
    """Downloads assets. Anybody may."""

    async def asset(self, board: str, digest: str) -> bytes:
        """Return the asset of a board by its digest, `sha256:` and 64 hexadecimal digits, which is compared.

        It never changes: keep it under its digest. Raises `ScoregateError`, or `DamagedAsset` if no attempt
        brought the file that was asked for.
        """
        name = digest.removeprefix("sha256:")
        url = str(self._url(f"{board_path(board)}/assets/{segment(name)}"))
        request = HttpRequest("GET", url, within_s=DOWNLOAD_S, silence_s=SILENCE_S, most_bytes=ASSET_BYTES)
        return await self._sent_until_answered(lambda: request, lambda answer: _file_of(answer, name))


def _file_of(answer: HttpAnswer, name: str) -> bytes:
    """Return the file in an answer. Raises DamagedAsset if it is not the one of this digest."""
    if not answer.is_whole:
        raise DamagedAsset(f"the file has more than {ASSET_BYTES} bytes")
    if sha256(answer.body).hexdigest() != name:
        raise DamagedAsset("the file does not have its digest")
    return answer.body
