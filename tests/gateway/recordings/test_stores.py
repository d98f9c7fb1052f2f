"""The store of recordings on a directory and on a bucket: durable before it answers, written once, checked when read."""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.recordings.blobs import Blobs
from gateway.recordings.directory import DirectoryBlobs
from gateway.recordings.folder import BlobFolder
from gateway.recordings.opening import store_of
from gateway.recordings.recording_store import RecordingStore, condemned_name, kept_digest, kept_name
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event
from policies.errors import RecordingLost, RecordingsUnavailable, SettingsError
from tests.support.bucket import Bucket
from tests.support.metrics import counts

FAULTS = "scoregate_recording_faults_total"
BODY = b"left, right, fire" * 5000
DIGEST = hashlib.sha256(BODY).digest()
NAME = kept_name(DIGEST)


@pytest.fixture
def store(place: str) -> RecordingStore:
    return store_of(Settings(recordings_url=place, recordings_timeout_s=10))


@pytest.fixture
def blobs(store: RecordingStore) -> Blobs:
    return store._blobs


@contextmanager
def no_file_above(size_bytes: int) -> Iterator[None]:
    """Writing on beyond this fails, as it does on a full disk (setrlimit(2), RLIMIT_FSIZE; Python ignores SIGXFSZ)."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_stored_is_loaded(store: RecordingStore):
    """The same bytes come back, under `ab/cd/<digest>`; storing them again changes nothing."""
    store.store(DIGEST, BODY)
    [before] = store.page("", 10)
    store.store(DIGEST, BODY)

    assert BODY == store.load(DIGEST, len(BODY))
    assert [before] == store.page("", 10)
    assert (NAME, DIGEST) == (before.name, kept_digest(before.name))


def test_a_blob_is_written_once(blobs: Blobs):
    """Who comes second is told so, and what stands there stays."""
    assert [True, False] == [blobs.put("ab/cd/one", b"first"), blobs.put("ab/cd/one", b"second")]
    assert b"first" == blobs.get("ab/cd/one", 100)
    blobs.replace("ab/cd/one", b"third")
    assert b"third" == blobs.get("ab/cd/one", 100)


def test_a_blob_is_measured_and_read_in_parts(blobs: Blobs):
    """From any byte, no further than its end; what is not there has neither size nor parts."""
    blobs.put("ab/cd/one", b"0123456789")
    assert [10, None] == [blobs.size("ab/cd/one"), blobs.size("ab/cd/two")]
    parts = [blobs.part("ab/cd/one", start, count) for start, count in ((0, 4), (4, 4), (8, 2), (9, 1))]
    assert [b"0123", b"4567", b"89", b"9"] == parts
    assert None is blobs.part("ab/cd/two", 0, 4)


def test_no_more_is_read_than_was_stored(blobs: Blobs):
    """What has grown to whatever size costs no memory: one byte beyond tells."""
    blobs.put("ab/cd/one", b"0123456789")
    assert [b"012", b"0123456789", None] == [
        blobs.get("ab/cd/one", 2),
        blobs.get("ab/cd/one", 10),
        blobs.get("ab/cd/two", 2),
    ]


def test_pages_walk_everything_once_in_order(blobs: Blobs):
    """Slices of three, each after the last name of the one before, are the whole in the order of names."""
    names = [f"{n % 4:02x}/cd/{n:04x}" for n in range(10)] + ["condemned/00", "condemned/ff"]
    for name in names:
        blobs.put(name, b"x")
    seen: list[str] = []
    while page := blobs.page(seen[-1] if seen else "", 3):
        assert len(page) <= 3
        seen += [blob.name for blob in page]
    assert sorted(names) == seen


def test_a_folder_of_blobs_is_walked_from_its_first_to_its_last(blobs: Blobs):
    """By names within it, whatever lies before and behind it."""
    for name in ("00/before", "assets/a", "assets/b", "assets/c", "assetsbehind", "condemned/a"):
        blobs.put(name, b"x")
    folder, seen = BlobFolder(blobs, "assets/"), [""]
    while page := folder.page(seen[-1], 2):
        seen += [blob.name for blob in page]
    assert ["a", "b", "c"] == seen[1:]


def test_what_is_gone_is_moved_and_removed_without_a_word(blobs: Blobs):
    """Two stewards that collect the same do each other no harm."""
    blobs.put("ab/cd/one", b"x")
    for _ in range(2):
        blobs.move("ab/cd/one", "condemned/one")
    assert ["condemned/one"] == [blob.name for blob in blobs.page("", 10)]
    for _ in range(2):
        blobs.remove("condemned/one")
    assert [] == blobs.page("", 10)


@pytest.mark.parametrize("damage", [BODY[:-1], BODY + b"x", b"", BODY[:100] + b"?" + BODY[101:]])
def test_a_damaged_recording_is_never_given_out(store: RecordingStore, blobs: Blobs, damage: bytes):
    """Cut short, grown, emptied or changed: it is lost; storing the right bytes again puts it right."""
    blobs.put(NAME, damage)
    with capture_logs() as logs:
        with counts(1, FAULTS, fault="altered"), pytest.raises(RecordingLost, match="altered"):
            store.load(DIGEST, len(BODY))
        with counts(1, FAULTS, fault="healed"):
            store.store(DIGEST, BODY)
    said = {"event": Event.RECORDING_FAULT, "recording": DIGEST.hex(), "log_level": "error"}
    assert [said | {"fault": "altered"}, said | {"fault": "healed"}] == logs
    assert BODY == store.load(DIGEST, len(BODY))


def test_a_missing_recording_is_lost(store: RecordingStore):
    """It is told apart from one that is altered."""
    with counts(1, FAULTS, fault="missing"), pytest.raises(RecordingLost, match="missing"):
        store.load(DIGEST, len(BODY))


def test_what_is_set_aside_can_still_be_read(store: RecordingStore, blobs: Blobs):
    """Condemned, it is loaded as before; reprieved, it is in its place again."""
    store.store(DIGEST, BODY)
    store.condemn(DIGEST)
    assert [condemned_name(DIGEST)] == [blob.name for blob in blobs.page("", 10)]
    assert BODY == store.load(DIGEST, len(BODY))
    store.reprieve(DIGEST)
    assert [NAME] == [blob.name for blob in blobs.page("", 10)]


def test_I18_file_and_folders_are_synced_before_the_store_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The file before it has its name; the name, and each new folder's name, before anybody is told."""
    done: list[str] = []
    link, fsync = os.link, os.fsync

    def named(source: Path, target: Path) -> None:
        link(source, target)
        done.append(f"name {Path(target).relative_to(tmp_path)}")

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)
        done.append("sync file" if path.parent.name == "incoming" else f"sync {path}")

    monkeypatch.setattr(os, "link", named)
    monkeypatch.setattr(os, "fsync", synced)
    DirectoryBlobs(tmp_path / "kept").put("ab/cd/one", b"x")

    assert ["sync file", "name kept/ab/cd/one", "sync kept/ab/cd"] == [
        each for each in done if each in {"sync file", "name kept/ab/cd/one", "sync kept/ab/cd"}
    ]
    assert {"sync .", "sync kept", "sync kept/ab"} <= set(done)
    assert "sync kept/ab/cd" == done[-1]


def test_I18_what_replaces_or_is_moved_is_synced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The name that a file has last is on the disk before anybody is told, and the one that it had is gone from it."""
    blobs = DirectoryBlobs(tmp_path / "kept")
    blobs.put("ab/cd/one", b"x")
    blobs.put("condemned/other", b"x")
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path).parts[1])

    monkeypatch.setattr(os, "fsync", noted)
    assert not blobs.put("ab/cd/one", b"x")
    assert ["incoming", "ab"] == synced, "whoever has just made it may be about to sync it"
    synced.clear()
    blobs.replace("ab/cd/one", b"y")
    assert ["incoming", "ab"] == synced
    blobs.move("ab/cd/one", "condemned/one")
    assert ["incoming", "ab", "condemned", "ab"] == synced


def test_what_is_set_aside_is_dated_before_it_is_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Killed in between, it is where it was: set aside with its old date, the next collection would remove it."""
    blobs = DirectoryBlobs(tmp_path)
    blobs.put("ab/one", b"x")

    def kill(_path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "utime", kill)
    with pytest.raises(KeyboardInterrupt):
        blobs.move("ab/one", "condemned/one")
    assert (b"x", None) == (blobs.get("ab/one", 9), blobs.get("condemned/one", 9))


def test_recordings_are_nobody_elses_to_read_and_leave_nothing_open(tmp_path: Path):
    """Files are the owner's alone; after a thousand calls there are as many descriptors as after one."""
    before = sorted(Path("/proc/self/fd").iterdir())
    store = RecordingStore(DirectoryBlobs(tmp_path))
    store.store(DIGEST, BODY)
    store.now_ms()
    store.condemn(DIGEST)
    store.load(DIGEST, len(BODY))
    assert {0o600} == {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert before == sorted(Path("/proc/self/fd").iterdir())


def test_a_recording_that_is_put_back_while_it_is_looked_for_is_found(tmp_path: Path):
    """It was set aside at the first look and is in its place again at the second: it is not called lost."""
    store = RecordingStore(DirectoryBlobs(tmp_path))
    store.store(DIGEST, BODY)
    store.condemn(DIGEST)
    get = store._blobs.get

    def put_back_meanwhile(name: str, limit_bytes: int) -> bytes | None:
        if name == condemned_name(DIGEST):
            store.reprieve(DIGEST)
        return get(name, limit_bytes)

    store._blobs.get = put_back_meanwhile  # type: ignore[method-assign]
    assert BODY == store.load(DIGEST, len(BODY))


def test_I18_a_full_disk_leaves_nothing_behind(tmp_path: Path):
    """RecordingsUnavailable, and not a byte of it in the directory; once there is room it is stored."""
    store = RecordingStore(DirectoryBlobs(tmp_path))
    with no_file_above(len(BODY) - 1), pytest.raises(RecordingsUnavailable, match="File too large"):
        store.store(DIGEST, BODY)
    assert [] == files(tmp_path)
    store.store(DIGEST, BODY)
    assert [NAME] == files(tmp_path)


def test_I18_a_directory_that_cannot_be_had_is_unavailable(tmp_path: Path):
    """Where a file stands in the way, nothing is stored, and what cannot be read is not called lost."""
    (tmp_path / "file").write_bytes(b"")
    store = RecordingStore(DirectoryBlobs(tmp_path / "file" / "recordings"))
    with pytest.raises(RecordingsUnavailable):
        store.store(DIGEST, BODY)
    with pytest.raises(RecordingsUnavailable):
        store.load(DIGEST, len(BODY))


@pytest.mark.parametrize("status", [403, 500])
def test_a_bucket_that_refuses_is_unavailable(bucket: Bucket, status: int):
    """No credential or no service: neither is a lost recording."""
    store = store_of(Settings(recordings_url="s3://evidence"))
    bucket.status = status
    with pytest.raises(RecordingsUnavailable):
        store.store(DIGEST, BODY)
    with pytest.raises(RecordingsUnavailable):
        store.load(DIGEST, len(BODY))
    bucket.status = 0
    store.store(DIGEST, BODY)
    assert BODY == store.load(DIGEST, len(BODY))


def test_a_bucket_that_does_not_answer_is_given_up(bucket: Bucket):
    """The time-out of the settings bounds every call."""
    store = store_of(Settings(recordings_url="s3://evidence", recordings_timeout_s=0.2))
    bucket.go_on.clear()
    with pytest.raises(RecordingsUnavailable):
        store.store(DIGEST, BODY)


@pytest.mark.parametrize("url", ["recordings", "file://here", "gs://bucket", "s3://", "http://localhost/"])
def test_a_url_that_names_no_place_is_refused(url: str):
    """The variable is named, and what was expected of it."""
    with pytest.raises(SettingsError, match="SCOREGATE_RECORDINGS_URL"):
        store_of(Settings(recordings_url=url))
