"""The stores under a deployment: one Valkey and an SQLite file, or a Redis Cluster and PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from gateway.runtime.settings import Settings
from tests.support.cluster import ValkeyCluster
from tests.support.postgres import APP, PostgresServer
from tests.support.valkey import ValkeyServer


@dataclass(frozen=True)
class Stores:
    """Settings that name the stores, and what can be done to the index behind them."""

    settings: Settings
    folder: Path
    empty: Callable[[], None]
    stop: Callable[[], None]


def on_one_server(valkey: ValkeyServer, folder: Path) -> Stores:
    """One Valkey, which can be stopped, and an SQLite file in the folder."""

    def empty() -> None:
        with valkey.client() as client:
            client.flushall()

    return Stores(Settings(redis_url=valkey.url), folder, empty, valkey.kill)


@asynccontextmanager
async def on_a_cluster(
    cluster: ValkeyCluster, postgres: PostgresServer, valkey: ValkeyServer, folder: Path
) -> AsyncIterator[Stores]:
    """A Redis Cluster, a database of one's own in PostgreSQL, and a Valkey for the queue."""

    def stop() -> None:
        for node in cluster.nodes:
            node.kill()

    async with postgres.database() as name:
        settings = Settings(
            redis_url=cluster.url, queue_url=valkey.url, ledger_url=SecretStr(postgres.url(name, APP))
        )
        yield Stores(settings, folder, cluster.empty, stop)


@asynccontextmanager
async def in_a_folder() -> AsyncIterator[Path]:
    """A folder that goes with the deployment."""
    with tempfile.TemporaryDirectory(prefix="sg-oracle-") as folder:
        yield Path(folder)
