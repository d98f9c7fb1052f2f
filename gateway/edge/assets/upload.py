"""Handles uploads of assets by trusted servers."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from gateway.edge.admission.rate_limits import refuse_large
from gateway.edge.auth.trusted_servers import authenticate_upload
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import announced_octets, read_octets
from gateway.edge.http.request import family_of
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.board_answers import AssetStored
from gateway.runtime.deadline import aside
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.telemetry import Event, logger
from policies.errors import AssetMismatch
from policies.opened_board import ASSET_BYTES

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_log = logger()


async def store_asset(request: web.Request) -> web.Response:
    """Answer 201 once the file is durable, 200 if it already was. Boards of the family may then name it.

    The signature covers the digest, and is verified before the body is read. Nothing is written before the
    whole body is there and has the digest.
    """
    edge, family, digest = request.app[EDGE], family_of(request), digest_of(request)
    server = await authenticate_upload(request, family.name, digest)
    size_bytes = announced_octets(request, ASSET_BYTES)
    refuse_large(edge, size_bytes)
    with edge.asset_traffic.uploading(server.key_id):
        await edge.asset_traffic.charge_upload(server.key_id, size_bytes)
        content = await read_octets(request, ASSET_BYTES, is_counted=False)  # `uploading` bounds them
        is_new = await _store(edge, digest, content)
    reach(Point.AFTER_STORE)
    named = f"sha256:{digest.hex()}"
    if is_new:
        _log.info(Event.ASSET_STORED, family=family.name, key=server.key_id, asset=named, bytes=len(content))
    answer = AssetStored(family=family.name, asset=named, asset_bytes=len(content))
    return json_response(answer, status=201 if is_new else 200, headers=replay_header(is_replay=not is_new))


def digest_of(request: web.Request) -> bytes:
    """Return the digest in the path. Raises `not-found` for what is none."""
    text = request.match_info["digest"]
    if not _DIGEST.fullmatch(text):
        raise Problem(ProblemType.NOT_FOUND, "a digest has 64 lower-case hexadecimal digits")
    return bytes.fromhex(text)


async def _store(edge: Edge, digest: bytes, content: bytes) -> bool:
    """Store a file, and return whether it was not stored yet."""
    if not content:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"body: expected 1 to {ASSET_BYTES} bytes")
    try:
        with aside():
            return await edge.assets.store_as(digest, content)
    except AssetMismatch:
        detail = "the SHA-256 of the body is not the digest in the path"
        raise Problem(ProblemType.ASSET_MISMATCH, detail) from None
