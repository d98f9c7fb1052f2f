"""Keeps a large recording in the store before the ledger names it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.edge.context import Edge
from gateway.runtime.deadline import aside
from gateway.runtime.failpoints import Point, reach

T = TypeVar("T")

LATE_MS: Final = 60_000
"""After a commit this slow the recording is stored again: it may have been collected as unnamed."""


async def write_behind_recording(
    edge: Edge,
    digest: bytes,
    recording: bytes,
    write: Callable[[], Awaitable[T]],
    is_new: Callable[[T], bool],
) -> T:
    """Store a recording, then write the row that names it, and return what `write` returns.

    Raises RecordingsUnavailable and whatever `write` raises.
    """
    # Stored first, or a crash in between would lose it. Stored again if a new row took long:
    # `gateway.steward.recordings.collecting` may have deleted it as unnamed.
    stored_at_ms = edge.clock()
    with aside():
        await edge.recordings.store(digest, recording)
    reach(Point.AFTER_STORE)
    result = await write()
    if is_new(result) and edge.clock() - stored_at_ms > LATE_MS:
        with aside():
            await edge.recordings.store(digest, recording)
    return result
