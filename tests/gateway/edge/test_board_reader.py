"""Reading boards that the index has not, or not all of: the ledger gives the same, says so, and is not drowned."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.index import keys
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Transaction
from gateway.runtime.settings import Settings
from tests.gateway.edge.test_readers import VAULT, filled
from tests.support.attack import as_server
from tests.support.harness import Answer, Harness, running_harness
from tests.support.metrics import counts
from tests.support.standstill import Standstill, standstill
from tests.support.valkey import running_valkey

PAGES = (
    "/entries",
    "/entries?offset=2&limit=3&ranks=sparse",
    "/entries?window=daily&limit=2",
    "/entries/p3",
    "/entries/p3/around?radius=2",
)


async def read(harness: Harness) -> list[Answer]:
    """Each page, and what its cursor goes on with."""
    found = [await harness.get(VAULT + path) for path in PAGES]
    first = await harness.get(f"{VAULT}/entries?limit=2")
    following = await harness.get(f"{VAULT}/entries?limit=3&cursor={first.body['next']}")
    preceding = await harness.get(f"{VAULT}/entries?limit=1&cursor={following.body['previous']}")
    return [*found, first, following, preceding]


def sources(answers: list[Answer]) -> set[str]:
    return {answer.headers.get("Scoregate-Source", "index") for answer in answers}


async def test_an_index_that_was_emptied_shows_no_empty_board(harness: Harness):
    """Until the steward has rebuilt it the ledger answers, in the same words; then the index does again."""
    await filled(harness)
    before = await read(harness)
    assert {"index"} == sources(before)
    await harness.edge.index.client.flushall()
    with counts(1, "scoregate_ledger_pages_total", board="vault"):
        await harness.get(f"{VAULT}/entries")
    emptied = await read(harness)
    assert [json.loads(each.raw) for each in before] == [json.loads(each.raw) for each in emptied]
    assert ({200}, {"ledger"}) == ({each.status for each in emptied}, sources(emptied))
    unranked = await harness.get(f"{VAULT}/entries/nobody")
    assert (404, False, 7, "ledger") == (
        unranked.status,
        unranked.body["ranked"],
        unranked.body["total"],
        unranked.headers["Scoregate-Source"],
    )
    while await harness.steward().reconcile():
        pass
    assert {"index"} == sources(await read(harness))


async def test_a_half_filled_index_is_not_shown(harness: Harness):
    """What settlement shows on an index that is not whole is a part of the board: readers get all of it, from the ledger."""
    private = await filled(harness)
    await harness.edge.index.client.flushall()

    entry = {"operation": "op-late", "player": "late", "score": 5000}
    assert 202 == (await as_server(harness, private, entry)).status
    page = await harness.get(f"{VAULT}/entries")
    assert (8, "late", "ledger") == (
        page.body["total"],
        page.body["entries"][0]["player"],
        page.headers["Scoregate-Source"],
    )


async def test_boards_are_read_while_redis_is_gone(settings: Settings):
    """Pages, cursors, one player and a neighbourhood, as they were."""
    with running_valkey() as own:
        async with running_harness(settings.model_copy(update={"redis_url": own.url})) as harness:
            await filled(harness)
            before = await read(harness)
            own.kill()
            gone = await read(harness)
    assert [json.loads(each.raw) for each in before] == [json.loads(each.raw) for each in gone]
    assert ({200}, {"ledger"}) == ({each.status for each in gone}, sources(gone))


async def test_the_ledger_reads_so_many_pages_at_once_and_no_more(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Whoever comes beyond that is told to come again: an outage of Redis is none of the ledger's writes."""
    async with running_harness(settings.model_copy(update={"ledger_pages": 2})) as harness:
        await filled(harness)
        await harness.edge.index.client.delete(keys.sentinel("vault"))
        with standstill() as held_up:
            _hold_up(harness.edge.ledger, monkeypatch, held_up)
            waiting = [asyncio.create_task(harness.get(f"{VAULT}/entries?limit={n}")) for n in (1, 2)]
            await held_up.reached(len(waiting))
            refused = await harness.get(f"{VAULT}/entries?limit=3")
        assert (503, "temporary-reduced-capacity") == (refused.status, refused.problem)
        assert 1 <= int(refused.headers["Retry-After"]) <= 5
        assert [200, 200] == [each.status for each in await asyncio.gather(*waiting)]
        assert 200 == (await harness.get(f"{VAULT}/entries?limit=3")).status


def _hold_up(ledger: Ledger, patch: pytest.MonkeyPatch, held_up: Standstill) -> None:
    asked = ledger.read

    async def read(work: Any, kind: ReadKind) -> Any:
        async def slow(tx: Transaction) -> Any:
            if work.__qualname__.startswith("page_of"):
                held_up.stand()
            return await work(tx)

        return await asked(slow, kind)

    patch.setattr(ledger, "read", read)
