"""How much room is left where the ledger and the recordings are, and whether it is below the floor."""

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
"""How long an answer of the file system is believed."""

TOLD_S: Final = 60.0
"""How often the log repeats that room is short."""

MIB: Final = 1_048_576

_log = logger()


class DiskFloor:
    """Watches the file systems that a deployment writes to; a database server and a bucket watch their own."""

    def __init__(
        self, places: Mapping[str, Path], floor_bytes: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._floor_bytes = floor_bytes
        self._now_s = now_s
        self._sampled_s = float("-inf")
        self._told_s = float("-inf")
        self._is_low = False

    @property
    def is_low(self) -> bool:
        """Whether one of them has less room than the floor."""
        if self._floor_bytes and self._now_s() - self._sampled_s >= SAMPLE_S:
            self._sample()
        return self._is_low

    def _sample(self) -> None:
        self._sampled_s = self._now_s()
        free = {name: room for name, path in self._places.items() if (room := _free_bytes(path)) is not None}
        for name, room in free.items():
            DISK_FREE.labels(name).set(room)
        short = {name: room for name, room in free.items() if room < self._floor_bytes}
        if short and (not self._is_low or self._sampled_s - self._told_s >= TOLD_S):
            self._told_s = self._sampled_s
            _log.error(Event.DISK_LOW, floor_bytes=self._floor_bytes, **short)
        elif self._is_low and not short:
            _log.warning(Event.DISK_ENOUGH, floor_bytes=self._floor_bytes, **free)
        self._is_low = bool(short)


def disk_floor_of(settings: Settings) -> DiskFloor:
    """The floor under what this deployment writes to files."""
    places = {}
    if not settings.is_on_postgres:
        places["ledger"] = settings.ledger_path.absolute().parent
    url = urlsplit(settings.recordings_url or "")
    if url.scheme in {"", "file"}:
        places["recordings"] = Path(url.path) if url.path else settings.data_dir.absolute()
    return DiskFloor(places, settings.disk_floor_mib * MIB)


def _free_bytes(path: Path) -> int | None:
    """Bytes that we may still write to the file system of a folder, or of the nearest one above it that is there."""
    for folder in (path, *path.parents):
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return found.f_bavail * found.f_frsize
    return None
