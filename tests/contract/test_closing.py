"""What a part opened is closed when it ends: a process that opens and ends many has no more than one that opened none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.deployment.presence import PartKind, parts_there, present_on_a_thread
from gateway.runtime.settings import Settings
from gateway.steward_wiring import open_steward
from tests.support import boards
from tests.support.deployment import eventually
from tests.support.harness import free_port, running_harness
from tests.support.stores import Store


@pytest.fixture(params=["valkey", "cluster"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, store: Store) -> Settings:
    boards.write_board(tmp_path / "policies")
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=request.getfixturevalue(request.param).url,
        queue_url=request.getfixturevalue("valkey").url,
        bind=f"127.0.0.1:{free_port()}",
        redis_timeout_ms=5_000,
        ledger_url=store.url,
    )


def sockets() -> set[str]:
    """The sockets that this process has."""
    return {link for link in links() if link.startswith("socket:")}


def links() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one by which they are listed
            yield str(descriptor.readlink())


async def test_parts_that_end_leave_no_connection(settings: Settings):
    """An edge that was read, a steward that did its round, a worker's presence and a look at the parts leave nothing open."""
    held: set[str] = set()
    before = sockets()
    async with running_harness(settings) as harness:
        assert 200 == (await harness.get("/v1/boards/tiny/entries")).status
        async with open_steward(settings) as steward:
            await steward.reconcile()
            with present_on_a_thread(settings, PartKind.WORKER, dict):
                await eventually(lambda: bool(harness.edge.presence.parts))
            assert PartKind.EDGE in {part.kind for part in await parts_there(settings)}
            held = sockets() - before
    assert len(held) > 4
    await eventually(lambda: sockets() <= before, patience_s=5)
