"""Room that is short, on a small file system of its own: what is small passes, what is large waits, and nothing is lost."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.runtime.disk import disk_floor_of
from gateway.runtime.settings import Settings
from scoregate.cli import app
from tests.support.attack import CLAIM, honest, issued, rows
from tests.support.gate import missing
from tests.support.harness import Answer, Harness, running_harness
from tests.support.policies import GENEROUS, a_policy, write_policies

MIB = 1_048_576
FULL = (503, "temporary-reduced-capacity")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB. In CI it has to be there; elsewhere whoever may not mount one goes without the test."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        missing(f"mounting a file system takes root: {mounted.stderr.decode()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def on_small_disk(settings: Settings, small_disk: Path) -> Settings:
    policies = write_policies(settings.data_dir / "own", a_policy("sprint", limits=GENEROUS))
    changed = {"data_dir": small_disk / "data", "policies_dir": policies, "disk_floor_mib": 4}
    return settings.model_copy(update=changed)


async def submit(harness: Harness, number: int, size_bytes: int) -> Answer:
    recording = number.to_bytes(4, "big") * (size_bytes // 4)
    claim = CLAIM | {"recording": base64.b64encode(recording).decode()}
    return await harness.send(honest(harness, issued(harness, f"p{number}"), claim))


@pytest.mark.parametrize("inline_bytes", [0, 65_536])
async def test_F04_below_the_floor_only_what_is_small_passes(on_small_disk: Settings, inline_bytes: int):
    """Large recordings are refused with Retry-After before the disk is full, operators are told, and it ends by itself."""
    changed = on_small_disk.model_copy(update={"recording_inline_bytes": inline_bytes})
    async with running_harness(changed) as harness:
        filler = changed.data_dir.parent / "filler"
        assert 202 == (await submit(harness, 1, 40_000)).status
        filler.write_bytes(bytes(7 * MIB))
        answer = await _first_of(harness, FULL[0])
        assert (*FULL, "60") == (answer.status, answer.problem, answer.headers["Retry-After"])
        assert 202 == (await submit(harness, 3, 4096)).status
        ready = await harness.get("/readyz")
        assert (200, "degraded", False) == (ready.status, ready.body["status"], ready.body["disk"])
        assert 'scoregate_disk_free_bytes{place="ledger"}' in await harness.metrics()
        filler.unlink()
        assert 202 == (await _first_of(harness, 202)).status
        assert json.loads((await harness.get("/readyz")).raw)["disk"]


async def _first_of(harness: Harness, status: int) -> Answer:
    """The first answer of this status to large submissions: the room is looked at once a second."""
    async with asyncio.timeout(20):
        while (answer := await submit(harness, 2, 40_000)).status != status:
            pass
    return answer


async def test_F04_a_disk_that_is_really_full_loses_nothing(on_small_disk: Settings):
    """ENOSPC from the kernel: 503 and nothing stored, every 202 is there afterwards, and it goes on once there is room."""
    async with running_harness(on_small_disk.model_copy(update={"disk_floor_mib": 0})) as harness:
        filler = on_small_disk.data_dir.parent / "filler"
        accepted = 0
        with pytest.raises(OSError, match="No space left"):
            _fill(filler)
        for number in range(100, 160):
            answer = await submit(harness, number, 40_000)
            assert answer.status in {202, 503}
            accepted += answer.status == 202
        assert accepted < 60
        assert accepted == await rows(harness)
        filler.unlink()
        assert 202 == (await _first_of(harness, 202)).status


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(65_536))


POSTGRES = "postgresql://ledger/scores"


@pytest.mark.parametrize(
    ("ledger", "recordings", "is_watched"),
    [
        (None, None, True),
        (None, "s3://bucket/recordings", True),
        (POSTGRES, None, True),
        (POSTGRES, "file:///srv/recordings", True),
        (POSTGRES, "s3://bucket/recordings", False),
    ],
)
def test_F04_whatever_is_written_to_files_is_watched(
    tmp_path: Path, ledger: str | None, recordings: str | None, *, is_watched: bool
):
    """An SQLite ledger, and recordings in a directory, named or not; a database server and a bucket watch their own."""
    settings = Settings(
        data_dir=tmp_path, ledger_url=ledger, recordings_url=recordings, disk_floor_mib=1_073_741_824
    )
    assert is_watched == disk_floor_of(settings).is_low


def test_N02_a_policy_file_for_which_there_is_no_room_is_not_begun(small_disk: Path):
    """Half a file would be a board that loads no more: the command says why, and leaves nothing."""
    with suppress(OSError), (small_disk / "filling").open("wb", buffering=0) as filling:
        while True:
            filling.write(bytes(MIB))
    file = small_disk / "coins.yaml"
    refused = CliRunner().invoke(app, ["policy", "new", str(file), "--no-ask", "--maximum", "500"])

    assert "No space left on device" in str(refused.exception)
    assert ["filling"] == [each.name for each in small_disk.iterdir()]
