"""The bodies of submissions: made once, and sent as these bytes however often."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from .documents import json_bytes
from .recording import recording_digest


def claim(score: int, ticks: int, stats: Mapping[str, int], recording: bytes | None = None) -> bytes:
    """Return the body of a submission, with the statistics in their order, with or without a recording."""
    encoded = {} if recording is None else {"recording": b64encode(recording).decode("ascii")}
    return json_bytes({"score": score, "ticks": ticks, "stats": dict(stats), **encoded})


def commitment(score: int, ticks: int, stats: Mapping[str, int], recording: bytes) -> bytes:
    """Return the body of a submission that has the digest of its recording in the place of the recording."""
    digest = {"recording_digest": recording_digest(recording), "recording_bytes": len(recording)}
    return json_bytes({"score": score, "ticks": ticks, "stats": dict(stats), **digest})
