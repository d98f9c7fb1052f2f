"""Lanes: the unit of order, of placement and of parallel background work."""

from __future__ import annotations

from typing import Final
from zlib import crc32

LANES: Final = 256
"""How many lanes a deployment has.

It never changes: rows of the ledger and keys of the index name their lane. 256 allow as many stewards and
nodes to share the work, and a walk over all of them is still cheap.
"""

ALL_LANES: Final = frozenset(range(LANES))


def lane_of(board: str) -> int:
    """Return the lane of a board: the CRC-32 of its name (ISO 3309, as in zlib and gzip), modulo `LANES`.

    Python's `hash()` would not do: for strings it differs from process to process (PYTHONHASHSEED), and every
    process must find the same lane, in any version and on any machine. A cryptographic hash would cost more
    and gain nothing: whoever may name boards so that they share a lane may also use one board as much.
    """
    return crc32(board.encode()) % LANES
