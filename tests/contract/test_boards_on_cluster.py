"""The suites of the boards, of limits, of rebuilds and of the comparison, on a Redis Cluster of three masters.

They are the very tests that run on a single server: only what they stand on is another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.index.connection import connect
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Policies
from tests.gateway.index.test_limits import *  # noqa: F403 - the suite
from tests.gateway.index.test_order_and_projection import *  # noqa: F403 - the suite
from tests.gateway.steward.test_comparison import *  # noqa: F403 - the suite
from tests.gateway.steward.test_rebuild import *  # noqa: F403 - the suite
from tests.gateway.steward.test_rebuild import size  # noqa: F401 - its fixture
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.cluster import ValkeyCluster
from tests.support.duty import Duty
from tests.support.postgres import PostgresServer
from tests.support.stores import Store
from tests.support.valkey import ValkeyServer


@pytest.fixture
def database_server(request: pytest.FixtureRequest) -> PostgresServer | None:
    """What a test asks for, and SQLite for one that does not: the index does not know which ledger it is."""
    is_postgres = getattr(request, "param", "sqlite") == "postgres"
    return request.getfixturevalue("postgres_server") if is_postgres else None


@pytest.fixture
def valkey(cluster: ValkeyCluster) -> ValkeyCluster:
    return cluster


@pytest.fixture
async def client(cluster: ValkeyCluster) -> AsyncIterator[Redis]:
    connected = connect(cluster.url, timeout_ms=5_000)
    yield connected
    await connected.aclose()


@pytest.fixture
def own_settings(
    tmp_path: Path, cluster: ValkeyCluster, valkey_server: ValkeyServer, store: Store
) -> Settings:
    boards.write_board(tmp_path / "policies")
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=cluster.url,
        queue_url=valkey_server.url,
        redis_timeout_ms=5_000,
        redispatch_s=30,
        ledger_url=store.url,
    )


@pytest.fixture
async def duty(own_settings: Settings, cluster: ValkeyCluster) -> AsyncIterator[Duty]:
    known = load_policies(own_settings)
    queue = Redis.from_url(own_settings.jobs_url)
    async with open_ledger(own_settings) as ledger, open_index(own_settings) as index:
        parts = {"recordings": recordings_of(own_settings), "clock": ShiftedClock()}
        steward = Steward(own_settings, Catalogue(Policies(known)), ledger, index, RqJobs(queue), **parts)
        with cluster.client() as shown:
            yield Duty(own_settings, known["tiny"], ledger, steward, shown)
    queue.close()
