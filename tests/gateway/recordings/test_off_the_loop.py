"""Calls of the store on threads: each has a deadline, what waits is bounded, and nobody else is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.recordings import recordings as module
from gateway.recordings.directory import DirectoryBlobs
from gateway.recordings.recording_store import RecordingStore
from gateway.recordings.recordings import Recordings
from policies.errors import RecordingsUnavailable
from tests.support.deployment import eventually
from tests.support.metrics import counts
from tests.support.standstill import Standstill, standstill


@pytest.fixture
def disk() -> Iterator[Standstill]:
    """What never answers while the test goes on."""
    with standstill() as made:
        yield made


def recordings_in(folder: Path, timeout_s: float) -> Recordings:
    return Recordings(RecordingStore(DirectoryBlobs(folder)), inline_bytes=0, timeout_s=timeout_s)


async def test_a_call_that_hangs_is_given_up(tmp_path: Path, disk: Standstill):
    """A disk that never answers costs its caller the deadline, and not for ever."""
    recordings = recordings_in(tmp_path, 0.05)
    faults = counts(1, "scoregate_recording_faults_total", fault="unavailable")
    with faults, pytest.raises(RecordingsUnavailable, match="in time"):
        await recordings.off_loop(disk.stand)
    recordings.close()


async def test_a_store_that_works_again_speaks_against_readiness_no_more(tmp_path: Path, disk: Standstill):
    """One call that was given up does, until the next one that is done."""
    recordings = recordings_in(tmp_path, 0.05)
    assert not recordings.is_refusing
    with pytest.raises(RecordingsUnavailable):
        await recordings.off_loop(disk.stand)
    assert recordings.is_refusing
    disk.end()
    await asyncio.wait_for(_until_stored(recordings), 20)
    assert not recordings.is_refusing
    recordings.close()


async def _until_stored(recordings: Recordings) -> None:
    """Store something, however often a busy machine is too slow for the deadline."""
    while True:
        with suppress(RecordingsUnavailable):
            await recordings.store(b"\0" * 32, b"anything")
            return


async def test_what_hangs_is_bounded_and_what_is_beyond_refused_at_once(
    tmp_path: Path, disk: Standstill, monkeypatch: pytest.MonkeyPatch
):
    """Calls that were given up and still hang count; once they end there is room again."""
    monkeypatch.setattr(module, "IN_HAND", 3)
    recordings = recordings_in(tmp_path, 0.05)
    hanging = [recordings.off_loop(disk.stand) for _ in range(3)]
    await asyncio.gather(*hanging, return_exceptions=True)
    with pytest.raises(RecordingsUnavailable, match="too much"):
        await recordings.off_loop(disk.stand)
    disk.end()
    await eventually(lambda: recordings._room._value == 3)
    await asyncio.wait_for(_until_stored(recordings), 20)
    recordings.close()


@pytest.mark.parametrize("ending", ["done", "failed", "given up", "refused"])
async def test_however_a_call_ends_who_waits_for_its_end_hears_of_it_once(
    tmp_path: Path, disk: Standstill, monkeypatch: pytest.MonkeyPatch, ending: str
):
    """Who does not would keep a turn for ever; one that is given up has ended when its thread is free."""
    monkeypatch.setattr(module, "IN_HAND", 1)
    recordings = recordings_in(tmp_path, 20 if ending in {"done", "failed"} else 0.05)
    ends: list[str] = []

    def fails() -> None:
        raise RecordingsUnavailable("the disk is broken")

    async def call() -> None:
        works = {"done": str, "failed": fails}
        with suppress(RecordingsUnavailable):
            await recordings.off_loop_until(lambda: ends.append(ending), works.get(ending, disk.stand))

    if ending == "refused":
        with suppress(RecordingsUnavailable):
            await recordings.off_loop(disk.stand)
    await call()
    assert (ending == "given up") == (ends == [])
    disk.end()
    await eventually(lambda: ends == [ending])
    await eventually(lambda: recordings._room._value == 1)
    assert [ending] == ends
    recordings.close()
