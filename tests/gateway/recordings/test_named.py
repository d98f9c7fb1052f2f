"""What the ledger has of recordings, on each database: which are named, where they are, and who sent them first."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.records import NewSubmission, StoredRecording
from gateway.ledger.submissions import work
from gateway.recordings.directory import DirectoryBlobs
from gateway.recordings.recording_store import RecordingStore
from gateway.recordings.recordings import Recordings
from gateway.steward.recordings.collecting import Collector
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


def digest_of(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def large(submission_id: str, body: bytes) -> NewSubmission:
    """A submission whose recording is in the store."""
    return new_submission(submission_id, recording=body)._replace(recording=None)


async def test_a_row_has_digest_and_size_and_the_bytes_only_where_they_are_inline(ledger: Ledger):
    """Each lease says where its recording is; one without has none."""
    await ledger.append(new_submission("small", recording=b"small"))
    await ledger.append(large("large", b"larger"))
    await ledger.append(new_submission("none", recording=None))

    names = ["small", "large", "none"]
    leases = await ledger.write(work.lease_all(names, now_ms=NOON_MS, lease_ms=1000))
    assert [
        StoredRecording(digest_of(b"small"), 5, b"small"),
        StoredRecording(digest_of(b"larger"), 6, None),
        None,
    ] == [lease.recording for lease in leases]
    assert [StoredRecording(digest_of(b"larger"), 6, None)] == await ledger.read(
        work.recordings_in_store(after=b"", count=10)
    )


async def test_the_same_recording_has_one_row_wherever_it_was_put(ledger: Ledger):
    """The first row stays, whatever a later submission of the same bytes came with."""
    await ledger.append(large("first", b"the same"))
    await ledger.append(new_submission("second", recording=b"the same"))
    leases = await ledger.write(work.lease_all(["first", "second"], now_ms=NOON_MS, lease_ms=1000))
    assert [None, None] == [lease.recording.body for lease in leases if lease.recording]
    assert 2 == len(leases)


async def test_pages_of_what_is_elsewhere_are_in_the_order_of_digests(ledger: Ledger):
    """Each page begins after the last digest of the one before."""
    bodies = [b"%d" % n for n in range(5)]
    for body in bodies:
        await ledger.append(large(f"run-{body.decode()}", body))
    seen: list[bytes] = []
    while page := await ledger.read(work.recordings_in_store(after=seen[-1] if seen else b"", count=2)):
        seen += [each.digest for each in page]
    assert sorted(map(digest_of, bodies)) == seen


async def test_only_what_no_submission_names_is_collected(ledger: Ledger, tmp_path: Path):
    """The collector asks the ledger, whichever database carries it."""
    recordings = Recordings(
        RecordingStore(DirectoryBlobs(tmp_path / "recordings")), inline_bytes=0, timeout_s=10
    )
    for body in (b"named", b"left"):
        await recordings.store(digest_of(body), body)
    await ledger.append(large("run", b"named"))
    assert {digest_of(b"left")} == await ledger.read(
        work.unknown_recordings([digest_of(b"named"), digest_of(b"left")])
    )
    collector = Collector(ledger, recordings, grace_ms=-60_000)  # everything is old at once
    assert [1, 1, 0] == [await collector.step() for _ in range(3)]
    assert b"named" == recordings.large.load(digest_of(b"named"), 5)
    recordings.close()
