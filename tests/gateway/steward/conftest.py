"""A steward over a ledger, an index and a queue of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Policies
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.duty import Duty
from tests.support.postgres import PostgresServer
from tests.support.stores import Store
from tests.support.valkey import ValkeyServer


@pytest.fixture
def database_server(request: pytest.FixtureRequest) -> PostgresServer | None:
    """None, for a ledger on SQLite, unless a test asks for more by `on_both_ledgers`."""
    kind = getattr(request, "param", "sqlite")
    return request.getfixturevalue("postgres_server") if kind == "postgres" else None


@pytest.fixture
def own_settings(tmp_path: Path, valkey: ValkeyServer, store: Store) -> Settings:
    boards.write_board(tmp_path / "policies")
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=valkey.url,
        redis_timeout_ms=5_000,
        redispatch_s=30,
        ledger_url=store.url,
    )


@pytest.fixture
async def duty(own_settings: Settings) -> AsyncIterator[Duty]:
    known = load_policies(own_settings)
    redis, clock = Redis.from_url(own_settings.redis_url), ShiftedClock()
    clock.leave_midnight()
    async with open_ledger(own_settings) as ledger, open_index(own_settings) as index:
        parts = {"recordings": recordings_of(own_settings), "clock": clock}
        steward = Steward(own_settings, Catalogue(Policies(known)), ledger, index, RqJobs(redis), **parts)
        yield Duty(own_settings, known["tiny"], ledger, steward, redis)
    redis.close()
