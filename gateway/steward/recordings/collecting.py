"""Removes large recordings that no submission names: left by a crash, a lost race, or a commit that failed.

Why none is removed that a submission names, or will:

- A recording is in the store before the commit that names it, and a commit that comes late stores it again before it
  is acknowledged (`gateway.edge.submissions.submit.LATE_MS`).
- What no row names, and is older than the grace (hours), is set aside, not removed. It is still read from there.
- What has been aside for another grace, and is still in no row, is removed. Whoever found it in its place before, and
  therefore wrote nothing, has long since committed the row that names it: then it is put back instead.
- Who comes later finds nothing in its place, and writes it.
- Rows are never removed, so what is named stays named.
- Ages are told by the clock that dates them, so a wrong clock of ours makes nothing old.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.ledger.ledger import Ledger
from gateway.ledger.submissions import work
from gateway.recordings.blobs import Blob
from gateway.recordings.directory import INCOMING
from gateway.recordings.recordings import Recordings
from gateway.recordings.store import condemned_digest, kept_digest
from gateway.runtime.telemetry import RECORDINGS_COLLECTED, Event, logger

SLICE: Final = 1000
"""Blobs looked at in one step: what a bucket lists at once. Bounds the memory, and for how long the ledger is asked."""

_log = logger()


class Collector:
    """Walks the store of recordings, for ever, a slice at a time."""

    def __init__(self, ledger: Ledger, recordings: Recordings, *, grace_ms: int) -> None:
        self._ledger = ledger
        self._recordings = recordings
        self._store = recordings.large
        self._grace_ms = grace_ms
        self._after = ""

    async def step(self) -> int:
        """How much of one slice was set aside, put back, or removed."""
        page = await self._recordings.off_loop(self._store.page, self._after, SLICE)
        self._after = page[-1].name if len(page) == SLICE else ""
        if not page:
            return 0
        cutoff_ms = await self._recordings.off_loop(self._store.now_ms) - self._grace_ms
        old = [blob for blob in page if blob.modified_ms < cutoff_ms]
        actions = [*await self._condemn(old), *await self._end(old)]
        for action in actions:
            RECORDINGS_COLLECTED.labels(action).inc()
        if actions:
            _log.info(Event.COLLECTED, **{each: actions.count(each) for each in sorted(set(actions))})
        return len(actions)

    async def _condemn(self, old: Sequence[Blob]) -> list[str]:
        """Sets aside what is in its place and in no row."""
        kept = [digest for blob in old if (digest := kept_digest(blob.name))]
        unnamed = await self._ledger.read(work.unknown_recordings(kept)) if kept else set()
        for digest in unnamed:
            await self._recordings.off_loop(self._store.condemn, digest)
        return ["condemned"] * len(unnamed)

    async def _end(self, old: Sequence[Blob]) -> list[str]:
        """Ends what was aside, and what a crash left without a name. Anything else is not ours, and stays."""
        ended = []
        for blob in old:
            digest = condemned_digest(blob.name)
            if digest and not await self._ledger.read(work.unknown_recordings([digest])):
                await self._recordings.off_loop(self._store.reprieve, digest)
                ended.append("reprieved")
            elif digest or blob.name.startswith(f"{INCOMING}/"):
                await self._recordings.off_loop(self._store.remove, blob.name)
                ended.append("removed")
        return ended
