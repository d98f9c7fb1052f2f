"""Handles downloads of assets: a board's file, streamed as it was stored."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from aiohttp import web

from gateway.edge.assets.upload import digest_of
from gateway.edge.context import EDGE
from gateway.edge.http.request import board_of, client_names
from gateway.edge.problems import COMMON_HEADERS, Problem, ProblemType
from policies.errors import RecordingLost, RecordingsUnavailable

HARMLESS: Final = {
    **COMMON_HEADERS,
    "Content-Type": "application/octet-stream",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}
"""Headers under which no browser runs or shows a file that somebody made to attack readers."""

FOR_EVER: Final = "public, max-age=31536000, immutable"
"""The bytes at a path that has their digest never change."""


async def send_asset(request: web.Request) -> web.StreamResponse:
    """Return the file of a board, whose SHA-256 is in the path.

    A connection that ends before the announced length has met a damaged file.
    """
    edge, board, digest = request.app[EDGE], await board_of(request), digest_of(request)
    if board.opened is None or board.opened.asset != digest:
        raise Problem(ProblemType.NOT_FOUND, "the board has no asset with this digest")
    tag = digest.hex()
    cached = {"Cache-Control": FOR_EVER, "ETag": f'"{tag}"'}
    if any(etag.value in {tag, "*"} for etag in request.if_none_match or ()):
        return web.Response(status=web.HTTPNotModified.status_code, headers=cached)
    names = client_names(edge, request)
    with edge.asset_traffic.downloading(names):
        try:
            if request.method == "HEAD":
                await edge.asset_traffic.charge_download(names, 0)
            size_bytes = await edge.assets.size_bytes(digest)
            if request.method != "HEAD":
                await edge.asset_traffic.charge_download(names, size_bytes)
            response = web.StreamResponse(headers=HARMLESS | cached | _described(digest))
            response.content_length = size_bytes
            async with aclosing(edge.assets.parts(digest, size_bytes)) as parts:
                await _copy(request, response, parts)
        except RecordingLost:
            detail = "the file is lost: the board's game server has to store it again"
            raise Problem(ProblemType.NOT_FOUND, detail) from None
    return response


def _described(digest: bytes) -> dict[str, str]:
    return {
        "Accept-Ranges": "none",
        "Content-Disposition": f'attachment; filename="{digest.hex()}.bin"',
        "Content-Digest": f"sha-256=:{base64.b64encode(digest).decode()}:",
    }


async def _copy(
    request: web.Request, response: web.StreamResponse, parts: AsyncGenerator[bytes, None]
) -> None:
    """Send a file part by part. Cut the connection if it turns out damaged after its first part.

    Raises RecordingLost and RecordingsUnavailable before anything is sent.
    """
    if request.method == "HEAD":
        await response.prepare(request)
        return
    part = await anext(parts)
    await response.prepare(request)
    await response.write(part)
    try:
        async for part in parts:
            await response.write(part)
    except (RecordingLost, RecordingsUnavailable):
        if request.transport:  # the reader may have left
            request.transport.abort()
