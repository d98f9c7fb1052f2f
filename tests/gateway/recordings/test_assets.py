"""Assets of boards lie in the store of recordings, on each database: kept while a board names them, and in backups."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.ledger import Ledger
from gateway.recordings.assets import PART_BYTES, READERS, Assets
from gateway.recordings.directory import DirectoryBlobs
from gateway.recordings.folder import BlobFolder
from gateway.recordings.opening import recordings_of
from gateway.recordings.recording_store import ASSETS, RecordingStore, kept_name
from gateway.recordings.recordings import Recordings
from gateway.runtime.settings import Settings
from gateway.steward.recordings.collecting import Collector
from policies.errors import RecordingLost, RecordingsUnavailable
from policies.opened_board import ASSET_BYTES
from tests.support.ledger import new_submission
from tests.support.opened_boards import opening
from tests.support.standstill import standstill
from tests.support.stores import Store, open_in


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


@pytest.fixture
def recordings(tmp_path: Path) -> Iterator[Recordings]:
    """A store of recordings in a directory."""
    found = Recordings(
        RecordingStore(DirectoryBlobs(tmp_path / "recordings")), inline_bytes=10**6, timeout_s=10
    )
    yield found
    found.close()


async def test_only_an_asset_that_no_board_names_is_collected(ledger: Ledger, recordings: Recordings):
    """Open, closed or deleted, a board keeps its asset; one that nobody opened a board with goes."""
    assets = Assets(recordings, cache_bytes=0)
    named = [await assets.store(f"map {state}".encode()) for state in ("open", "closed", "deleted")]
    left = await assets.store(b"never opened")
    for state, digest in zip(("open", "closed", "deleted"), named, strict=True):
        await ledger.write(opening(f"track.{state}", digest, state))
    collector = Collector(ledger, recordings, grace_ms=-60_000)  # everything is old at once
    assert [1, 1, 0] == [await collector.step() for _ in range(3)]
    assert [True, True, True, False] == [await assets.is_stored(digest) for digest in (*named, left)]
    assert b"map deleted" == await assets.load(named[2])
    with pytest.raises(RecordingLost):
        await assets.load(left)


async def test_no_recording_is_an_asset(ledger: Ledger, place: str):
    """The same bytes are two files, in a directory or a bucket: what names one neither shows nor keeps the other."""
    recordings = recordings_of(Settings(recordings_url=place, recordings_timeout_s=10))
    assets = Assets(recordings, cache_bytes=0)
    played, mapped = [hashlib.sha256(body).digest() for body in (b"a private run", b"a map")]
    await recordings.store(played, b"a private run")
    await ledger.append(new_submission("run", recording=b"a private run")._replace(recording=None))
    assert (False, {played}) == (await assets.is_stored(played), await assets.unstored([played]))
    for read in (assets.size_bytes(played), assets.load(played), anext(assets.parts(played, 13))):
        with pytest.raises(RecordingLost, match="missing"):
            await read
    assert await assets.store_as(played, b"a private run")  # does not tell that there is such a recording
    assert mapped == await assets.store(b"a map")
    await recordings.store(mapped, b"a map")
    await ledger.write(opening("track.open", mapped))

    collector = Collector(ledger, recordings, grace_ms=-60_000)
    assert [2, 2, 0] == [await collector.step() for _ in range(3)]
    assert [False, True] == [await assets.is_stored(digest) for digest in (played, mapped)]
    assert [13, None] == [recordings.large.size(digest) for digest in (played, mapped)]
    folder = [blob.name for blob in BlobFolder(recordings.large._blobs, ASSETS).page("", 10)]
    assert [kept_name(mapped)] == folder
    recordings.close()


async def test_a_board_that_is_opened_while_its_asset_is_collected_keeps_it(
    ledger: Ledger, recordings: Recordings
):
    """What is set aside cannot be opened with; what was opened with just before comes back, and is readable meanwhile."""
    assets = Assets(recordings, cache_bytes=0)
    digest = await assets.store(b"a late map")
    collector = Collector(ledger, recordings, grace_ms=-60_000)
    assert await assets.is_stored(digest)
    assert 1 == await collector.step()
    assert not await assets.is_stored(digest)
    await ledger.write(opening("track.late", digest))
    assert b"a late map" == await assets.load(digest)
    assert [1, 0] == [await collector.step() for _ in range(2)]
    assert await assets.is_stored(digest)


async def test_assets_used_last_are_at_hand_within_a_bound(
    recordings: Recordings, monkeypatch: pytest.MonkeyPatch
):
    """Memory holds no more bytes than allowed, and the store is asked again for what was let go."""
    asked: list[bytes] = []
    load = recordings.assets.load
    monkeypatch.setattr(
        recordings.assets, "load", lambda digest, size: (asked.append(digest), load(digest, size))[1]
    )
    assets = Assets(recordings, cache_bytes=25)
    first, second, third = [await assets.store(name * 10) for name in (b"a", b"b", b"c")]
    for digest in (first, second, first, third, first, second):
        assert digest == hashlib.sha256(await assets.load(digest)).digest()
    assert [first, second, third, second] == asked
    assert 20 == assets._used_bytes == sum(map(len, assets._at_hand.values()))


async def test_an_asset_that_several_load_at_once_takes_its_room_once(recordings: Recordings):
    """Counted for each of them, it would leave less and less room for others."""
    assets = Assets(recordings, cache_bytes=25)
    first, second = [await assets.store(name * 10) for name in (b"a", b"b")]
    await asyncio.gather(*(assets.load(first) for _ in range(3)))
    await assets.load(second)
    assert [first, second] == list(assets._at_hand)
    assert 20 == assets._used_bytes


async def test_a_tampered_asset_is_no_asset(recordings: Recordings, tmp_path: Path):
    """Bytes that do not have the digest, or are more than an asset may have, are given to no simulator and no reader."""
    assets = Assets(recordings)
    digest = await assets.store(b"an honest map")
    (tmp_path / "recordings" / ASSETS / kept_name(digest)).write_bytes(b"a map with a hole")
    for read in (assets.load(digest), anext(assets.parts(digest, await assets.size_bytes(digest)))):
        with pytest.raises(RecordingLost, match="altered"):
            await read
    assert digest == await assets.store(b"an honest map")
    assert b"an honest map" == await assets.load(digest)
    for size in (0, ASSET_BYTES + 1):
        with pytest.raises(AssertionError):
            await assets.store(bytes(size))


@pytest.mark.parametrize("left_bytes", [0, 5, PART_BYTES, PART_BYTES + 3])
async def test_a_stream_of_an_asset_that_lost_its_end_ends_there(
    recordings: Recordings, tmp_path: Path, left_bytes: int
):
    """What was cut off is never waited for, and what came before it is not taken for the whole."""
    assets, content = Assets(recordings), bytes(PART_BYTES + 8)
    digest = await assets.store(content)
    os.truncate(tmp_path / "recordings" / ASSETS / kept_name(digest), left_bytes)
    parts = assets.parts(digest, len(content))
    for _ in range(left_bytes // PART_BYTES):
        assert PART_BYTES == len(await anext(parts))
    with pytest.raises(RecordingLost, match="altered"):
        await anext(parts)


async def test_what_cannot_be_an_asset_is_none(recordings: Recordings):
    """Of many digests those are named that no board may have: nothing stored, nothing in it, or a recording too large."""
    assets = Assets(recordings)
    stored = [await assets.store(f"map {number}".encode()) for number in range(40)]
    large, empty, absent = bytes(ASSET_BYTES + 1), b"", bytes(32)
    wrong = [hashlib.sha256(each).digest() for each in (large, empty)]
    for digest, body in zip(wrong, (large, empty), strict=True):
        assert recordings.assets.store(digest, body)
        with pytest.raises(RecordingLost, match="altered"):
            await assets.size_bytes(digest)
    assert {*wrong, absent} == await assets.unstored([*stored[:35], *wrong, absent, *stored[35:]])
    with pytest.raises(RecordingLost, match="missing"):
        await assets.size_bytes(absent)
    assert [5, 6] == [await assets.size_bytes(digest) for digest in (stored[0], stored[10])]


async def test_streams_leave_the_store_to_others(recordings: Recordings, monkeypatch: pytest.MonkeyPatch):
    """However many read at once, few of the store's threads work for them; each gets its file, a part at a time."""
    assets, content = Assets(recordings), bytes(range(256)) * (PART_BYTES // 256) + b"the rest"
    digest = await assets.store(content)
    most, under_way, lock = 0, 0, threading.Lock()

    def counted(ask: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*asked: Any) -> Any:
            nonlocal most, under_way
            with lock:
                under_way += 1
                most = max(most, under_way)
            time.sleep(0.01)
            with lock:
                under_way -= 1
            return ask(*asked)

        return answer

    async def parts_read() -> list[bytes]:
        return [part async for part in assets.parts(digest, len(content))]

    monkeypatch.setattr(recordings.assets, "part", counted(recordings.assets.part))
    streams = await asyncio.gather(*(parts_read() for _ in range(20)))
    assert [[content[:PART_BYTES], b"the rest"]] * 20 == streams
    assert READERS == most
    most = 0
    monkeypatch.setattr(recordings.assets, "size", counted(recordings.assets.size))
    assert [len(content)] * 20 == await asyncio.gather(*(assets.size_bytes(digest) for _ in range(20)))
    assert READERS == most, "they ask for the size as well"


async def test_a_stream_waits_for_its_turn_only_so_long(
    recordings: Recordings, monkeypatch: pytest.MonkeyPatch
):
    """While the store stalls the next in line is told to come later, and all places are free again after it."""
    assets = Assets(recordings)
    digest, part = await assets.store(b"a map"), recordings.assets.part
    monkeypatch.setattr("gateway.recordings.assets.TURN_S", 0.1)

    async def read() -> bytes:
        return b"".join([part async for part in assets.parts(digest, 5)])

    with standstill() as stalled:

        def part_once_it_goes_on(*asked: object) -> bytes | None:
            stalled.stand()
            return part(*asked)

        monkeypatch.setattr(recordings.assets, "part", part_once_it_goes_on)
        reading = [asyncio.create_task(read()) for _ in range(READERS)]
        await stalled.reached(READERS)
        with pytest.raises(RecordingsUnavailable, match="wait"):
            await read()
    assert [b"a map"] * READERS == await asyncio.gather(*reading)
    assert [b"a map"] * 9 == await asyncio.gather(*(read() for _ in range(9)))


async def test_downloads_that_a_stalled_store_abandoned_take_no_more_threads(
    recordings: Recordings, monkeypatch: pytest.MonkeyPatch
):
    """Each waits until its deadline; its turn ends with its call, so that submissions still have their threads."""
    assets = Assets(recordings)
    digest, part = await assets.store(b"a map"), recordings.assets.part
    begun = 0

    async def read() -> bytes:
        return b"".join([part async for part in assets.parts(digest, 5)])

    with standstill() as stalled:

        def part_once_it_goes_on(*asked: object) -> bytes | None:
            nonlocal begun
            begun += 1
            stalled.stand()
            return part(*asked)

        monkeypatch.setattr(recordings.assets, "part", part_once_it_goes_on)
        with monkeypatch.context() as patch:
            patch.setattr(recordings, "_timeout_s", 0.5)
            patch.setattr("gateway.recordings.assets.TURN_S", 0.1)
            first = [asyncio.create_task(read()) for _ in range(READERS)]
            await stalled.reached(READERS)
            refusals = await asyncio.gather(*first, return_exceptions=True)
            refusals += await asyncio.gather(*(read() for _ in range(2 * READERS)), return_exceptions=True)
        assert {RecordingsUnavailable} == set(map(type, refusals))
        assert READERS == begun
        assert await assets.is_stored(digest), "the other threads are free"
    assert [b"a map"] * 9 == await asyncio.gather(*(read() for _ in range(9)))
