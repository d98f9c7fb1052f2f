"""The seeds of runs: one for each run, or one for all runs of a board."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

SEED_BITS: Final = 63
"""Bits of a seed: it is non-negative in every signed 64-bit column and in `i64`."""

_DOMAIN: Final = b"scoregate/board-seed/1\n"


class SeedOf(StrEnum):
    """What has a seed of its own: each run, or each board, whose players then all play the same course."""

    RUN = "run"
    BOARD = "board"


def board_seed(family: str, board: str, content_digest: bytes) -> int:
    """Return a board's seed: the first 63 bits of the SHA-256 of its family, its name and its content digest.

    `family` is empty for a board of a file. Anybody can compute it; parameters that nobody can guess keep it
    unknown until the board opens.
    """
    parts = (family.encode(), board.encode(), content_digest)
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    digest = hashlib.sha256(_DOMAIN + text).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)
