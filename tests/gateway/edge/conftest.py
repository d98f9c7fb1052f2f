"""A deployment whose boards need no replay, so that standings are made by one request."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from tests.support.harness import free_port
from tests.support.policies import a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

KINDS = ["alltime", "daily", "weekly", "monthly"]


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    boards = (
        arcade_policy(),
        a_policy("vault", writes="trusted", windows=KINDS),
        a_policy("sprint", order="ascending"),
    )
    folder = write_policies(tmp_path / "policies", *boards)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)
