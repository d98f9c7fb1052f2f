"""The steward's duties on what is derived: a score is counted, recorded and told of, with nobody driving."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.index.windows.distinct_players import DistinctPlayers
from gateway.ledger.derived import log, webhooks
from gateway.ledger.derived.achievements import achievements_of
from gateway.ledger.derived.counts import counts_of
from gateway.ledger.derived.webhooks import Webhook
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from tests.support import boards
from tests.support.duty import Duty
from tests.support.receiver import receiving
from tests.support.stores import Store
from tests.support.valkey import ValkeyServer

SECRET = b"s" * 32
PATIENCE_S = 30.0


@pytest.fixture
def own_settings(tmp_path: Path, valkey: ValkeyServer, store: Store) -> Settings:
    boards.write_board(tmp_path / "policies")
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=valkey.url,
        redis_timeout_ms=5_000,
        ledger_url=store.url,
        webhook_hosts=("127.0.0.1",),
    )


async def until(is_so: Callable[[Duty], Awaitable[bool]], duty: Duty) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await is_so(duty):  # noqa: ASYNC110 - what is waited for is in the ledger
            await asyncio.sleep(0.02)


async def has_begun(duty: Duty) -> bool:
    """True once every consumer knows where it begins."""
    lane = f"lane:{lane_of('tiny')}"
    names = [("decisions", ""), ("webhooks", lane), ("achievements", lane)]
    return None not in [await duty.ledger.read(log.position(*each)) for each in names]


@pytest.mark.parametrize("database_server", ["sqlite", "postgres"], indirect=True)
async def test_a_score_is_counted_recorded_and_told_of(duty: Duty):
    """By a steward that runs, on either database; when it is ended it ends."""
    async with receiving(SECRET) as receiver:
        hook = Webhook("wh_1", receiver.url, SECRET, ("tiny",), ("achievement.reached",), 1)
        await duty.ledger.write(webhooks.add_webhook(hook))
        running = asyncio.create_task(duty.steward.run())
        await until(has_begun, duty)
        await duty.append("run-1", player="ada", score=5)
        await duty.promote("run-1")
        await receiver.arrived(len(duty.board.policy.windows))
        await until(is_counted, duty)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert all(each.is_signed for each in receiver.received)
    found = await duty.ledger.read(achievements_of("ada", before=2**53, after="", count=9))
    assert [(1, "run-1")] * len(duty.board.policy.windows) == [(e.rank, e.submission_id) for e in found]
    assert 1 == await DistinctPlayers(duty.index.client, "tiny").count()


async def is_counted(duty: Duty) -> bool:
    return await duty.ledger.read(counts_of("tiny")) == (1, 1)
