"""Recordings for callers that may not block: a store on threads, with a bounded queue and a deadline."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from gateway.ledger.records import StoredRecording
from gateway.recordings.recording_store import RecordingStore, checked
from gateway.runtime.telemetry import RECORDING_FAULTS
from policies.errors import RecordingsUnavailable

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 8
"""Enough for syncs to overlap: the file system's journal commits waiting syncs together."""

REFUSED_S: Final = 60.0
"""Time for which a failed call counts against readiness, unless a later one succeeds."""

IN_HAND: Final = 128
"""Maximum number of calls that wait or run, abandoned ones included. It bounds the memory."""


class Recordings:
    """All recordings: small ones in the ledger's rows, large ones in the store. `assets` is that of assets.

    Every method raises RecordingsUnavailable if the store fails, is too slow or has too much to do. An
    abandoned call may still finish, which is harmless because storing is idempotent.
    """

    def __init__(self, store: RecordingStore, *, inline_bytes: int, timeout_s: float) -> None:
        self.inline_bytes = inline_bytes
        self.large = store
        self.assets = store.of_assets()
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="recordings")
        self._room = threading.BoundedSemaphore(IN_HAND)
        self._refused_until_s = -math.inf

    @property
    def is_refusing(self) -> bool:
        """Return whether a call failed within REFUSED_S and none has succeeded since."""
        return time.monotonic() < self._refused_until_s

    async def store(self, digest: bytes, body: bytes) -> None:
        """Store a recording durably."""
        await self.off_loop(self.large.store, digest, body)

    async def load(self, stored: StoredRecording) -> bytes:
        """Return a recording that the ledger names. Raises RecordingLost if it is missing or altered."""
        if stored.body is not None:
            return checked(stored.digest, stored.body)
        return await self.off_loop(self.large.load, stored.digest, stored.size_bytes)

    async def off_loop(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return the result of a call of the store, made on a thread."""
        return await self.off_loop_until(_nothing, work, *arguments, **named)

    async def off_loop_until(
        self, ended: Callable[[], None], work: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Return the same, and call `ended`, on any thread, once the call is over or refused.

        A call that is abandoned is over when its thread is free again.
        """
        if not self._room.acquire(blocking=False):
            ended()
            raise self._refused("the store of recordings has too much to do")
        future = self._threads.submit(work, *arguments, **named)
        future.add_done_callback(self._release)
        future.add_done_callback(lambda _: ended())
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await asyncio.wrap_future(future)
        except TimeoutError:
            raise self._refused("the store of recordings did not answer in time") from None
        except RecordingsUnavailable as error:
            raise self._refused(str(error)) from error
        self._refused_until_s = -math.inf
        return result

    def _release(self, _future: Any) -> None:
        self._room.release()

    def close(self) -> None:
        """Stop the threads, and drop the calls that are still waiting."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _refused(self, message: str) -> RecordingsUnavailable:
        RECORDING_FAULTS.labels("unavailable").inc()
        self._refused_until_s = time.monotonic() + REFUSED_S
        return RecordingsUnavailable(message)


def _nothing() -> None:
    """Do nothing at the end of a call."""
