"""PostgreSQL killed, cut off and brought back: what was acknowledged is there, what was not is there at most once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr

from gateway.ledger.ledger import Ledger
from gateway.ledger.postgres.store import PostgresLedger
from gateway.runtime.settings import Settings
from policies.errors import LedgerUnavailable
from tests.support.deployment import eventually
from tests.support.harness import running_harness
from tests.support.ledger import new_submission
from tests.support.postgres import APP, PostgresServer
from tests.support.proxy import Fate, as_it_comes, chaos_proxy, is_a_commit
from tests.support.stores import PostgresStore, open_in


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


@pytest.mark.parametrize("fate", [Fate.RESET_BEFORE, Fate.RESET_AFTER])
async def test_I07_a_connection_lost_during_commit_is_no_acknowledgement(store: PostgresStore, fate: Fate):
    """Whether the commit happened or not, the caller is told that nobody knows; the same id again gives one row."""
    async with chaos_proxy(f"127.0.0.1:{store.server.port}", as_it_comes) as proxy:
        ledger = PostgresLedger(SecretStr(store.server.url(store.database, APP, port=proxy.port)))
        await ledger.open()
        try:
            await ledger.append(new_submission("before"))
            proxy.on(is_a_commit, fate)
            group = [new_submission(f"run-{n}") for n in range(5)]
            outcomes = await asyncio.gather(*map(ledger.append, group), return_exceptions=True)
            again = [await ledger.append(new) for new in group]
        finally:
            await ledger.close()

    assert [fate] == proxy.applied
    assert {LedgerUnavailable} == {type(outcome) for outcome in outcomes}
    assert all("the outcome of a commit is unknown" in str(outcome) for outcome in outcomes)
    assert {fate is Fate.RESET_BEFORE} == {receipt.is_new for receipt in again}
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
