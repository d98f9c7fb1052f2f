"""The store of recordings that the settings name."""

from __future__ import annotations

from pathlib import Path

from gateway.recordings.blobs import Blobs
from gateway.recordings.directory import DirectoryBlobs
from gateway.recordings.recording_store import RecordingStore
from gateway.recordings.recordings import Recordings
from gateway.runtime.settings import Settings
from policies.errors import SettingsError


def recordings_of(settings: Settings) -> Recordings:
    """Return the recordings of this deployment, without connecting to their store. Raises SettingsError."""
    return Recordings(
        store_of(settings),
        inline_bytes=settings.recording_inline_bytes,
        timeout_s=settings.recordings_timeout_s,
    )


def store_of(settings: Settings) -> RecordingStore:
    """Return the store of large recordings. Raises SettingsError."""
    return RecordingStore(_blobs_of(settings))


def _blobs_of(settings: Settings) -> Blobs:
    url = settings.recordings_url
    if url is None:
        return DirectoryBlobs(settings.data_dir.absolute() / "recordings")
    if url.startswith("file:///"):
        return DirectoryBlobs(Path(url.removeprefix("file://")))
    if not url.startswith("s3://"):
        raise SettingsError(
            f"SCOREGATE_RECORDINGS_URL: expected file:///<path> or s3://<bucket>/<prefix>, got {url!r}"
        )
    try:
        from gateway.recordings.objects import bucket  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise SettingsError(
            "SCOREGATE_RECORDINGS_URL: a bucket needs the extra `s3`: "
            "pip install ./clients/python '.[s3]' in a checkout"
        ) from None
    return bucket(url, settings.recordings_timeout_s)
