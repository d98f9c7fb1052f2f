"""Free space where the ledger and the recordings are stored, and its floor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import DISK_FREE, Event, logger

SAMPLE_S: Final = 1.0
"""Age up to which a reading of the file system is used."""

REPEAT_S: Final = 60.0
"""Time after which the log says again that space is low."""

MIB: Final = 1_048_576

_log = logger()


class DiskFloor:
    """The floor of the local file systems of a deployment. Database servers and buckets watch their own."""

    def __init__(
        self, places: Mapping[str, Path], floor_bytes: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._floor_bytes = floor_bytes
        self._now_s = now_s
        self._sampled_s = float("-inf")
        self._logged_s = float("-inf")
        self._is_low = False

    @property
    def is_low(self) -> bool:
        """Whether one of them has less free space than the floor."""
        if self._floor_bytes and self._now_s() - self._sampled_s >= SAMPLE_S:
            self._sample()
        return self._is_low

    def _sample(self) -> None:
        self._sampled_s = self._now_s()
        free = {name: size for name, path in self._places.items() if (size := _free_bytes(path)) is not None}
        for name, size in free.items():
            DISK_FREE.labels(name).set(size)
        low = {name: size for name, size in free.items() if size < self._floor_bytes}
        if low and (not self._is_low or self._sampled_s - self._logged_s >= REPEAT_S):
            self._logged_s = self._sampled_s
            _log.error(Event.DISK_LOW, floor_bytes=self._floor_bytes, **low)
        elif self._is_low and not low:
            _log.warning(Event.DISK_ENOUGH, floor_bytes=self._floor_bytes, **free)
        self._is_low = bool(low)


def disk_floor_of(settings: Settings) -> DiskFloor:
    """Return the floor of the file systems that this deployment writes to."""
    places = {}
    if not settings.is_on_postgres:
        places["ledger"] = settings.ledger_path.absolute().parent
    url = urlsplit(settings.recordings_url or "")
    if url.scheme in {"", "file"}:
        places["recordings"] = Path(url.path) if url.path else settings.data_dir.absolute()
    return DiskFloor(places, settings.disk_floor_mib * MIB)


def _free_bytes(path: Path) -> int | None:
    """Return the bytes free to us on the file system of a folder, or of its nearest parent that exists."""
    for folder in (path, *path.parents):
        try:
            status = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return status.f_bavail * status.f_frsize
    return None
