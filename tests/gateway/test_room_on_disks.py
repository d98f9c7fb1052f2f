"""Room where the ledger and the recordings are: measured as it may be used, believed for a second, and told when it changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.runtime import disk
from gateway.runtime.disk import DiskFloor
from tests.support.logs import lines_of, logged
from tests.support.metrics import metric

FLOOR = 1_000


class Disks:
    """File systems with so much room as they are told, counted as often as they are asked."""

    def __init__(self, **free: int | type[OSError]) -> None:
        self.free = free
        self.asked: list[str] = []

    def statvfs(self, folder: Path) -> Any:
        self.asked.append(folder.name)
        room = self.free.get(folder.name, FileNotFoundError)
        if not isinstance(room, int):
            raise room
        return SimpleNamespace(f_bavail=room // 10, f_bfree=10**9, f_frsize=10)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Disks, DiskFloor, list[float]]]:
    """Gives the disks of a ledger and of recordings, what watches them, and its clock."""

    def watch(floor: int = FLOOR, **free: int | type[OSError]) -> tuple[Disks, DiskFloor, list[float]]:
        disks, now_s = Disks(**free), [100.0]
        monkeypatch.setattr(disk, "os", SimpleNamespace(statvfs=disks.statvfs, fspath=os.fspath))
        places = {"ledger": Path("/data/ledgers"), "recordings": Path("/data/runs/kept")}
        return disks, DiskFloor(places, floor, lambda: now_s[0]), now_s

    return watch


def test_short_room_is_told_when_it_begins_each_minute_and_when_it_ends(watched: Any):
    """With the floor and the places that lack it, and nothing while all is as it was."""
    disks, floor, now_s = watched(ledgers=FLOOR, kept=5 * FLOOR)
    with logged(disk) as lines:
        assert not floor.is_low
        assert (FLOOR, 5 * FLOOR) == tuple(
            metric("scoregate_disk_free_bytes", place=place) for place in ("ledger", "recordings")
        )
        told = []
        for after_s, room in ((1, 990), (30, 980), (29, 970), (1, 960), (1, 2_000), (100, 3_000)):
            disks.free["ledgers"] = room
            now_s[0] += after_s
            told.append((room, floor.is_low))
    assert [(990, True), (980, True), (970, True), (960, True), (2_000, False), (3_000, False)] == told
    assert [990, 960] == [each["ledger"] for each in lines_of(lines, "disk_low")]
    assert {"floor_bytes": FLOOR, "ledger": 990, "log_level": "error"} == lines_of(lines, "disk_low")[0]
    enough = {"floor_bytes": FLOOR, "ledger": 2_000, "recordings": 5 * FLOOR, "log_level": "warning"}
    assert [enough] == lines_of(lines, "disk_enough")


def test_a_file_system_is_asked_once_a_second_and_never_without_a_floor(watched: Any):
    """Each submission may want to know; the system call is made for the first of a second."""
    disks, floor, now_s = watched(ledgers=9 * FLOOR, kept=9 * FLOOR)
    for _ in range(5):
        assert not floor.is_low
    assert ["ledgers", "kept"] == disks.asked
    now_s[0] += 0.9
    assert not floor.is_low
    assert ["ledgers", "kept"] == disks.asked
    now_s[0] += 0.1
    assert not floor.is_low
    assert ["ledgers", "kept"] * 2 == disks.asked
    disks, without, _ = watched(0, ledgers=0, kept=0)
    assert (False, []) == (without.is_low, disks.asked)


def test_a_folder_that_is_still_to_come_has_the_room_of_the_one_above_it(watched: Any):
    """One that nobody can tell about is not said to be full."""
    disks, floor, _ = watched(ledgers=9 * FLOOR, runs=10)
    assert floor.is_low
    assert ["ledgers", "kept", "runs"] == disks.asked
    disks, floor, _ = watched(ledgers=PermissionError, kept=9 * FLOOR)
    assert not floor.is_low
