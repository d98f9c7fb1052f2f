"""Trusted servers' requests on every ledger: one transaction each, done once, however many ask at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.ledger import index_pages, queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import ServerKey
from gateway.ledger.submissions.operations import ServerRequest
from gateway.settlement.server_operations import (
    OperationsRefused,
    PerformedOperation,
    RefusalKind,
    ServerOperation,
    perform,
)
from gateway.shared_records import Change
from policies.choices import Operator
from policies.errors import KeyRevoked, NonceReused
from policies.fields import SortOrder
from tests.support.books import CREDENTIAL, KEY_ID, a_removal, a_write, board_of, digest_of
from tests.support.ledger import NOON_MS
from tests.support.stores import Store, open_in

BOARD = board_of(Operator.BEST, SortOrder.DESCENDING)


async def nowhere(changes: Sequence[Change]) -> None:
    """Shows the changes to nobody."""


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        await running.write(queries.add_server_key(ServerKey(KEY_ID, bytes(32), ("*",), NOON_MS)))
        yield running


async def request(ledger: Ledger, nonce: str, *operations: ServerOperation) -> list[PerformedOperation]:
    of_key = ServerRequest(KEY_ID, CREDENTIAL, nonce, digest_of(operations), NOON_MS)
    return await perform(ledger, BOARD, of_key, operations, nowhere)


async def standing(ledger: Ledger, player: str = "ada") -> set[int | None]:
    return {
        each.score for each in await ledger.read(index_pages.live_standings("tiny", player, now_ms=NOON_MS))
    }


async def test_T05_versions_and_removals_hold(ledger: Ledger, store: Store):
    """A write, its correction, a removal, and a write that comes too late; then one that does not."""
    await request(ledger, "1", a_write("one", 9, version=1), a_write("two", 5, version=2))
    await request(ledger, "2", a_write("three", 7, version=3, replaces="one"))
    assert {7} == await standing(ledger)
    [done] = await request(ledger, "3", a_removal("gone", version=4))
    assert ("two", "three") == done.revoked
    assert {None} == await standing(ledger)
    with pytest.raises(OperationsRefused) as refused:
        await request(ledger, "4", a_write("fresh", 1, player="bea"), a_write("late", 9, version=4))
    assert [(1, RefusalKind.STALE)] == [(each.at, each.kind) for each in refused.value.refusals]
    assert set() == await standing(ledger, "bea")
    await request(ledger, "5", a_write("five", 2, version=5))
    assert {2} == await standing(ledger)
    assert [("promoted", 1), ("revoked", 3)] == await store.sql(
        "SELECT state, count(*) FROM submissions GROUP BY state ORDER BY state"
    )


async def test_T04_T08_a_request_that_is_sent_many_times_at_once_is_done_once(ledger: Ledger, store: Store):
    """Thirty at a time, and then again: one is the first, the others get the same; the numbers have no gaps."""
    operations = [*(a_write(f"op-{n}", n, player=f"p{n}") for n in range(20)), a_removal("gone", player="p7")]
    answers = await asyncio.gather(*(request(ledger, "one", *operations) for _ in range(30)))
    answers.append(await request(ledger, "another", *operations))
    assert 1 == sum(all(done.is_new for done in answer) for answer in answers)
    assert 30 == sum(not any(done.is_new for done in answer) for answer in answers)
    assert {("op-7",)} == {answer[-1].revoked for answer in answers}
    assert [(41, 41)] == await store.sql("SELECT count(*), max(seq) FROM events")
    assert [(21,)] == await store.sql("SELECT count(*) FROM server_operations")
    assert [(19,)] == await store.sql("SELECT count FROM baselines WHERE player = ''")


async def test_S18_of_two_requests_under_one_nonce_one_is_done(ledger: Ledger, store: Store):
    """At the same time, each with a content of its own."""
    asked = [request(ledger, "one", a_write(f"op-{n}", n)) for n in range(10)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert 1 == sum(isinstance(answer, list) for answer in answers)
    assert 9 == sum(isinstance(answer, NonceReused) for answer in answers)
    assert [(1,)] == await store.sql("SELECT count(*) FROM submissions")


async def test_T02_what_a_key_wrote_and_took_back_since_is_found(ledger: Ledger):
    """In slices, and nothing more is taken of the key; the keys are listed with their times."""
    await request(ledger, "1", *(a_write(f"op-{n}", n, at_ms=NOON_MS + n) for n in range(6)))
    await request(ledger, "2", a_removal("gone", submission="op-4"))
    found, after = [], 0
    while page := await ledger.read(
        queries.counting_submissions(CREDENTIAL, since_ms=NOON_MS + 2, after=after, upto=99, count=2)
    ):
        found += [each.submission_id for each in page]
        after = page[-1].seq
    assert ["op-2", "op-3", "op-5"] == found
    taken_back = await ledger.read(
        queries.revocations_by(CREDENTIAL, since_ms=NOON_MS, after=0, upto=99, count=9)
    )
    assert ["op-4"] == [submission_id for _, submission_id in taken_back]
    assert [] == await ledger.read(
        queries.revocations_by(CREDENTIAL, since_ms=NOON_MS + 1, after=0, upto=99, count=9)
    )

    assert await ledger.write(queries.revoke_server_key(KEY_ID, now_ms=NOON_MS + 9))
    assert not await ledger.write(queries.revoke_server_key(KEY_ID, now_ms=NOON_MS + 10))
    with pytest.raises(KeyRevoked):
        await request(ledger, "3", a_write("op-9", 9))
    keys = await ledger.read(queries.all_server_keys())
    assert {KEY_ID: ServerKey(KEY_ID, bytes(32), ("*",), NOON_MS, NOON_MS + 9)} == keys


@pytest.mark.parametrize(
    "statement", ["UPDATE server_operations SET version = 9", "DELETE FROM server_operations"]
)
async def test_M09_what_a_server_asked_for_is_never_changed(ledger: Ledger, store: Store, statement: str):
    """Not even by who may do everything else."""
    await request(ledger, "1", a_write("one", 1))
    with pytest.raises(store.refusals, match="append-only"):
        await store.sql(statement)
