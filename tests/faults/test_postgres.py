"""PostgreSQL killed, cut off and brought back: what was acknowledged is there, what was not is there at most once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr

from gateway.ledger.ledger import Ledger
from gateway.ledger.postgres import PostgresLedger
from gateway.settings import Settings
from policies.errors import LedgerUnavailable
from tests.support.deployment import eventually
from tests.support.harness import running_harness
from tests.support.ledger import new_submission
from tests.support.postgres import APP, PASSWORD, PostgresServer, running_postgres
from tests.support.stores import PostgresStore, open_in


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresServer]:
    """A server of this file's own, which syncs what it commits."""
    with running_postgres(is_durable=True) as server:
        yield server


@pytest.fixture
async def store(mortal: PostgresServer) -> AsyncIterator[PostgresStore]:
    async with mortal.database() as name:
        yield PostgresStore(mortal, name)


@dataclass
class Clients:
    """Clients that append without pause, and what each of them was told."""

    ledger: Ledger
    acknowledged: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    is_over: bool = False

    async def append_for_ever(self, name: str) -> None:
        number = 0
        while not self.is_over:
            number += 1
            await self.append(f"{name}-{number}")

    async def append(self, submission_id: str) -> None:
        try:
            receipt = await self.ledger.append(new_submission(submission_id))
        except LedgerUnavailable:
            self.unknown.add(submission_id)
            await asyncio.sleep(0.01)
        else:
            assert receipt.is_new
            self.acknowledged.add(submission_id)

    def have(self, *, acknowledged: int = 0, unknown: int = 0) -> Callable[[], bool]:
        return lambda: len(self.acknowledged) >= acknowledged and len(self.unknown) >= unknown


async def test_I07_a_server_killed_under_load_keeps_every_acknowledged_row(store: PostgresStore):
    """Acknowledged is in the ledger once, unknown at most once, nothing else; after the restart writing goes on."""
    async with open_in(store) as ledger:
        clients = Clients(ledger)
        tasks = [asyncio.create_task(clients.append_for_ever(name)) for name in "abcdefgh"]
        await eventually(clients.have(acknowledged=200))
        await asyncio.to_thread(store.server.kill)
        await eventually(clients.have(unknown=20))
        await asyncio.to_thread(store.server.start)
        await eventually(clients.have(acknowledged=len(clients.acknowledged) + 200))
        clients.is_over = True
        await asyncio.gather(*tasks)

        stored = [row[0] for row in await store.sql("SELECT submission_id FROM submissions")]
        assert len(stored) == len(set(stored))
        assert set() == clients.acknowledged - set(stored)
        assert set() == set(stored) - clients.acknowledged - clients.unknown
        assert await is_whole(store)

        for submission_id in clients.unknown:
            receipt = await ledger.append(new_submission(submission_id))
            assert receipt.is_new == (submission_id not in stored)


async def is_whole(store: PostgresStore) -> bool:
    """Numbers have no gaps, and every submission has its event, its work and its recording."""
    [[count, highest]] = await store.sql("SELECT count(*), max(seq) FROM events")
    [[whole]] = await store.sql(
        "SELECT count(*) FROM submissions JOIN events USING (seq) JOIN outbox USING (seq) "
        "JOIN recordings ON digest = recording_digest"
    )
    return count == highest == whole


class Relay:
    """A TCP relay to a server that can cut a connection at its next COMMIT, before that arrives or after its reply."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self.port = 0
        self.cut: str | None = None
        self.has_cut = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pump(reader, up_writer, writer, "before"))
            both.create_task(self._pump(up_reader, writer, up_writer, "after"))

    async def _pump(
        self, reader: asyncio.StreamReader, onward: asyncio.StreamWriter, back: asyncio.StreamWriter, cut: str
    ) -> None:
        try:
            while data := await reader.read(65536):
                # The writer's own "COMMIT" going there, and the tag of its reply coming back.
                if self.cut == cut and b"COMMIT\0" in data:
                    self.cut, self.has_cut = None, True
                    back.transport.abort()
                    break
                onward.write(data)
                await onward.drain()
        except ConnectionError:
            pass
        finally:
            onward.transport.abort()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_I07_a_connection_lost_during_commit_is_no_acknowledgement(store: PostgresStore, cut: str):
    """Whether the commit happened or not, the caller is told that nobody knows; the same id again gives one row."""
    relay = Relay(store.server.port)
    async with relay.running():
        url = f"postgresql://{APP}:{PASSWORD}@127.0.0.1:{relay.port}/{store.database}"
        ledger = PostgresLedger(SecretStr(url))
        await ledger.open()
        try:
            await ledger.append(new_submission("before"))
            relay.cut = cut
            group = [new_submission(f"run-{n}") for n in range(5)]
            outcomes = await asyncio.gather(*map(ledger.append, group), return_exceptions=True)
            again = [await ledger.append(new) for new in group]
        finally:
            await ledger.close()

    assert relay.has_cut
    assert {LedgerUnavailable} == {type(outcome) for outcome in outcomes}
    assert all("what became of a commit is unknown" in str(outcome) for outcome in outcomes)
    assert {cut == "before"} == {receipt.is_new for receipt in again}
    assert [(6, 6)] == await store.sql("SELECT count(*), max(seq) FROM events")


async def test_I07_the_edge_answers_503_while_the_database_is_down_and_takes_the_retry(
    store: PostgresStore, settings: Settings
):
    """Refused with Retry-After and not ready; the same request is accepted once the database is back."""
    on_postgres = settings.model_copy(update={"ledger_url": SecretStr(store.url)})
    async with running_harness(on_postgres) as harness:
        run, claim = await harness.played()
        request = harness.signed(run, claim)
        await asyncio.to_thread(store.server.kill)
        refused = await harness.send(request)
        unready = await harness.get("/readyz")
        await asyncio.to_thread(store.server.start)
        accepted = await harness.send(request)
        resent = await harness.send(request)

        assert (503, "temporary-reduced-capacity", "1") == (
            refused.status,
            refused.problem,
            refused.headers["Retry-After"],
        )
        assert 503 == unready.status
        assert (202, 202) == (accepted.status, resent.status)
        assert "true" == resent.headers["Idempotency-Replayed"]
        assert 1 == await harness.rows()
