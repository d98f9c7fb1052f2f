"""A deployment with boards of several kinds, and the watch that every test here is under."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.edge import app
from gateway.edge.docs.openapi import common_refusals
from gateway.edge.routes import ROUTES
from gateway.runtime.settings import Settings
from tests.support.harness import free_port
from tests.support.policies import a_family, a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

LAP = {"minimum": 10_000, "maximum": 600_000, "step": 1}
BOARDS = (
    arcade_policy(),
    a_policy("sprint"),
    a_policy("other"),
    a_policy("lap", order="ascending", score=LAP),
    a_policy("vault", writes="trusted"),
    a_family("track", writes="trusted"),
    a_policy("total", writes="trusted", operator="sum", score={"minimum": 0, "maximum": 2**40, "step": 1}),
)


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", *BOARDS)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


@pytest.fixture(autouse=True)
def every_refusal_is_documented(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails the test in which a route gave a refusal that its row does not name, or any `internal-error`."""
    documented = {(route.method, route.path): set(route.problems) for route in ROUTES}
    strays: list[tuple[str, str, str]] = []
    answer_refusal = app._refuse

    def watch(request, problem):
        key = (request.method, app._route_name(request))
        expected = documented.get(key, {problem.kind}) | set(common_refusals(request.method))
        if problem.kind.status == 500 or problem.kind not in expected:
            strays.append((*key, problem.kind.slug))
        return answer_refusal(request, problem)

    monkeypatch.setattr(app, "_refuse", watch)
    yield
    assert [] == strays
