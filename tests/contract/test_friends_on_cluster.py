"""Friends and groups on a Redis Cluster of three masters: a list is in one slot, the boards that it is held against in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from tests.gateway.edge.test_friends import (  # noqa: F401 - part of the suite
    test_a_board_among_friends_has_both_ranks,
    test_a_change_of_scores_or_friends_shows_at_once,
    test_players_are_looked_up_by_their_ids,
)
from tests.gateway.edge.test_groups import (  # noqa: F401 - part of the suite
    test_a_group_has_its_players_by_rank_in_every_window,
    test_what_differs_in_groups_is_named_and_put_right,
)
from tests.support.cluster import ValkeyCluster
from tests.support.groups import BOARDS
from tests.support.harness import free_port
from tests.support.policies import arcade_policy, write_policies
from tests.support.valkey import ValkeyServer


@pytest.fixture
def valkey(cluster: ValkeyCluster) -> ValkeyCluster:
    return cluster


@pytest.fixture
def settings(tmp_path: Path, cluster: ValkeyCluster, valkey_server: ValkeyServer) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", arcade_policy(), *BOARDS),
        redis_url=cluster.url,
        queue_url=valkey_server.url,
        redis_timeout_ms=5_000,
        bind=f"127.0.0.1:{free_port()}",
    )
