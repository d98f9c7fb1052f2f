"""The disk under PostgreSQL is full: nothing is acknowledged that is not stored, nothing is torn, and it passes by itself.

The processes of the server get a limit on the size of their files (RLIMIT_FSIZE), which needs no rights and no file
system of its own. What they are told is EFBIG and not ENOSPC; both come from the same calls. What the driver says of
ENOSPC itself is thrown at a fail-point in `test_fault_matrix.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.harness import Answer, Request, free_port
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.stores import PostgresStore
from tests.support.valkey import ValkeyServer
from tests.support.world import LEASE_S, World, a_world

MEBIBYTE = 1 << 20
PAGE_BYTES = 8192


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server whose files of the write-ahead log are as small as they can be: one mebibyte each."""
    with running_postgres("--wal-segsize=1") as server:
        yield server


@pytest.fixture
async def store(server: PostgresServer) -> AsyncIterator[PostgresStore]:
    async with server.database() as name:
        yield PostgresStore(server, name)


@pytest.fixture
async def world(
    tmp_path: Path, valkey: ValkeyServer, sandbox: Sandbox, store: PostgresStore
) -> AsyncIterator[World]:
    boards.write_board(tmp_path / "policies", windows=["alltime"])
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        lease_s=LEASE_S,
        ledger_url=store.url,
    )
    try:
        async with a_world(settings, sandbox, valkey) as world:
            yield world
    finally:
        store.server.mend()


@contextmanager
def no_file_may_be_longer(server: PostgresServer, length_bytes: int) -> Iterator[None]:
    """What the server writes beyond this place in a file fails."""
    server.limit_files(length_bytes)
    try:
        yield
    finally:
        if server.is_running:
            server.limit_files(None)


async def is_torn(store: PostgresStore) -> bool:
    """Whether a submission is without its event, its work or its recording, or a number is missing."""
    [[count, highest]] = await store.sql("SELECT count(*), max(seq) FROM events")
    [[stored, whole]] = await store.sql(
        "SELECT count(*), count(e.seq) FROM submissions s LEFT JOIN (events JOIN outbox USING (seq)) e "
        "ON e.seq = s.seq AND EXISTS (SELECT FROM recordings WHERE digest = recording_digest)"
    )
    return not count == highest == stored == whole


async def submit_until_refused(world: World) -> tuple[list[str], Request, Answer]:
    """The runs that were taken, the first that was not, and what its client was told."""
    taken: list[str] = []
    async with asyncio.timeout(60):
        while True:
            run, request = world.honest(f"p{len(taken)}")
            answer = await world.harness.send(request)
            if answer.status != 202:
                return taken, request, answer
            taken.append(run.id)


async def assert_says_so(world: World, refused: Answer) -> None:
    """The client is told to come again, and whoever looks after the edge that it takes nothing."""
    assert (503, "temporary-reduced-capacity", "1") == (
        refused.status,
        refused.problem,
        refused.headers["Retry-After"],
    )
    ready = await world.harness.ready()
    assert 503 == ready.status
    assert {
        "status": "unready",
        "ledger": False,
        "index": True,
        "policies": True,
    }.items() <= ready.body.items()
    assert 200 == (await world.harness.get("/v1/boards/tiny/entries")).status


async def assert_goes_on(world: World, request: Request, taken: list[str]) -> None:
    """The very same bytes are taken now, and everything that was acknowledged is judged, once."""
    answer = await world.harness.send(request)
    assert (202, None) == (answer.status, answer.headers.get("Idempotency-Replayed"))
    assert 200 == (await world.harness.ready()).status
    history = await world.assert_whole()
    assert {*taken, answer.body["submission"]} == history.states().keys()
    assert {"promoted"} == set(history.states().values())
    assert 2 * len(history.states()) == len(history.events)


async def test_I18_a_disk_with_no_room_for_a_row_refuses_it_whole(world: World, store: PostgresStore):
    """503, unready and not a row too much; with room again the edge goes on by itself."""
    row = "sha256(n::text::bytea), 1900, convert_to(repeat('x', 1900), 'utf8'), 1"
    await store.sql(
        f"INSERT INTO recordings (digest, size_bytes, body, first_seq) SELECT {row} FROM generate_series(1, 700) n"
    )
    with no_file_may_be_longer(store.server, MEBIBYTE):  # of the ledger, the recordings alone are as long
        taken, request, refused = await submit_until_refused(world)
        await assert_says_so(world, refused)
        assert set(taken) == (await world.history()).states().keys()
        assert not await is_torn(store)
    await assert_goes_on(world, request, taken)


async def test_I18_a_disk_with_no_room_for_the_log_ends_the_server_and_nothing_else(
    world: World, store: PostgresStore
):
    """PostgreSQL gives up where it cannot write its log (PANIC); once it has room and is started, all is as it was."""
    before = await world.submitted("before")
    with no_file_may_be_longer(store.server, PAGE_BYTES):
        taken, request, refused = await submit_until_refused(world)
        await assert_says_so(world, refused)
        await store.server.ended()
    store.server.mend()
    assert not await is_torn(store)
    await assert_goes_on(world, request, [before.id, *taken])
