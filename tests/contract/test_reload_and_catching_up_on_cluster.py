"""Boards that are added while the edge runs, and listeners that come back after long, on a Redis Cluster of three masters."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from tests.gateway.edge.test_catching_up import (  # noqa: F401 - part of the suite
    test_F05_catching_up_is_bounded,
    test_F05_catching_up_with_a_whole_board_is_bounded,
    test_F05_catching_up_with_friends_is_bounded,
)
from tests.gateway.test_reload import (  # noqa: F401 - part of the suite
    test_N03_a_new_board_is_served_without_a_restart,
)
from tests.support.cluster import ValkeyCluster
from tests.support.harness import free_port
from tests.support.policies import a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer


@pytest.fixture
def valkey(cluster: ValkeyCluster) -> ValkeyCluster:
    return cluster


@pytest.fixture
def settings(tmp_path: Path, cluster: ValkeyCluster, valkey_server: ValkeyServer) -> Settings:
    boards = (a_policy("sprint"), a_policy("vault", writes="trusted"), arcade_policy())
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", *boards),
        redis_url=cluster.url,
        queue_url=valkey_server.url,
        redis_timeout_ms=5_000,
        bind=f"127.0.0.1:{free_port()}",
    )
