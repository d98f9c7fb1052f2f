"""Removes large recordings that no submission names: left by a crash, a lost race, or a commit that failed.

Assets lie beside them. One is removed when no board names it: nobody opened a board with it, or its board was
deleted and the name opened anew. For assets, "submission" below means such a board.

No recording is removed that a submission names or will name:

- A recording is in the store before the commit that names it. A late commit stores it again before it is
  acknowledged (`gateway.edge.submissions.large_recordings.LATE_MS`).
- An unnamed recording older than the grace (hours) is set aside, not removed. It can still be read there.
- After another grace it is removed, if it is still unnamed. An edge that found it in its place before, and
  therefore did not write it, has long since committed the row that names it; then it is put back instead.
- A later edge does not find it in its place, and writes it.
- Rows are never removed, so a named recording stays named.
- The store's own clock tells ages, so a wrong clock here makes nothing old.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gateway.ledger.ledger import Ledger
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Operation
from gateway.recordings.directory import INCOMING
from gateway.recordings.recording_store import ASSETS, RecordingStore, condemned_digest, kept_digest
from gateway.recordings.recordings import Recordings
from gateway.runtime.telemetry import RECORDINGS_COLLECTED, Event, logger

SLICE: Final = 1000
"""Blobs examined in one step, as many as a bucket lists at once: bounds the memory and the ledger's work."""

_log = logger()


class Space(NamedTuple):
    """Recordings or assets: the folder they are in, their store, and which of their digests nothing names."""

    folder: str
    store: RecordingStore
    unknown: Callable[[Sequence[bytes]], Operation[set[bytes]]]


class Collector:
    """Walks the store of recordings and assets again and again, a slice at a time."""

    def __init__(self, ledger: Ledger, recordings: Recordings, *, grace_ms: int) -> None:
        self._ledger = ledger
        self._recordings = recordings
        self._store = recordings.large
        self._grace_ms = grace_ms
        self._after = ""
        self._spaces = (
            Space(ASSETS, recordings.assets, work.unknown_assets),
            Space("", recordings.large, work.unknown_recordings),
        )

    async def step(self) -> int:
        """Collect one slice; return how many blobs were set aside, put back or removed."""
        page = await self._recordings.off_loop(self._store.page, self._after, SLICE)
        self._after = page[-1].name if len(page) == SLICE else ""
        if not page:
            return 0
        cutoff_ms = await self._recordings.off_loop(self._store.now_ms) - self._grace_ms
        old = [blob.name for blob in page if blob.modified_ms < cutoff_ms]
        actions = []
        for space in self._spaces:
            own = [name.removeprefix(space.folder) for name in old if self._space_of(name) is space]
            actions += [*await self._condemn(space, own), *await self._end(space, own)]
        for action in actions:
            RECORDINGS_COLLECTED.labels(action).inc()
        if actions:
            _log.info(Event.COLLECTED, **{action: actions.count(action) for action in sorted(set(actions))})
        return len(actions)

    def _space_of(self, name: str) -> Space:
        return next(space for space in self._spaces if name.startswith(space.folder))

    async def _condemn(self, space: Space, old: Sequence[str]) -> list[str]:
        """Set aside what is in its place and no row names."""
        kept = [digest for name in old if (digest := kept_digest(name))]
        unnamed = await self._ledger.read(space.unknown(kept)) if kept else set()
        for digest in unnamed:
            await self._recordings.off_loop(space.store.condemn, digest)
        return ["condemned"] * len(unnamed)

    async def _end(self, space: Space, old: Sequence[str]) -> list[str]:
        """Remove or put back blobs that were set aside, and remove uploads that a crash left unfinished."""
        ended = []
        for name in old:
            digest = condemned_digest(name)
            if digest and not await self._ledger.read(space.unknown([digest])):
                await self._recordings.off_loop(space.store.reprieve, digest)
                ended.append("reprieved")
            elif digest or name.startswith(f"{INCOMING}/"):
                await self._recordings.off_loop(space.store.remove, name)
                ended.append("removed")
        return ended
