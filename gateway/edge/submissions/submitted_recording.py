"""Reads the recording of a submission: the bytes themselves, or only their digest and size."""

from __future__ import annotations

import binascii
import hashlib
from typing import Final

from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies
from policies.loader import Board

OVERHEAD_BYTES: Final = 4_096
"""Room in a body for everything but the recording."""

OPEN_RECORDING_BYTES: Final = 65_536
"""Most bytes of a recording on a board that does not replay it."""


def body_limit(board: Board) -> int:
    """Return how many bytes a submission's body may have: its recording in base64, and some room."""
    return _recording_limit(board) * 4 // 3 + OVERHEAD_BYTES


def recording_of(body: bodies.ScoreBody, board: Board) -> tuple[bytes | None, bytes | None, int]:
    """Return the recording, its SHA-256 and its size.

    Of a recording that comes later there are only the claimed digest and size.
    Raises `schema-violation` and `payload-too-large`.
    """
    if body.recording_digest is None and body.recording_bytes is None:
        recording = _decode_recording(body.recording, board)
        digest = None if recording is None else hashlib.sha256(recording).digest()
        return recording, digest, len(recording or b"")
    if not board.policy.verification.reveal_s:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "recording_digest: this board needs the recording itself")
    if body.recording is not None:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "recording_digest: omit it when you send a recording")
    if body.recording_digest is None or body.recording_bytes is None:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, "send both recording_digest and recording_bytes, or neither"
        )
    _refuse_too_large(body.recording_bytes, board)
    return None, bytes.fromhex(body.recording_digest.removeprefix("sha256:")), body.recording_bytes


def reveal_ms(board: Board) -> int | None:
    """Return how long a player has to send a requested recording; None on a board that requests none."""
    reveal_s = board.policy.verification.reveal_s
    return None if reveal_s is None else reveal_s * 1000


def _recording_limit(board: Board) -> int:
    return board.policy.replay.recording_bytes if board.policy.replay else OPEN_RECORDING_BYTES


def _refuse_too_large(size_bytes: int, board: Board) -> None:
    if size_bytes > _recording_limit(board):
        limit = _recording_limit(board)
        raise Problem(ProblemType.PAYLOAD_TOO_LARGE, f"a recording may have at most {limit} bytes")


def _decode_recording(text: str | None, board: Board) -> bytes | None:
    if text is None:
        return None
    try:
        recording = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "recording: expected base64") from None
    _refuse_too_large(len(recording), board)
    return recording
