"""A board with content that one of its comparisons cannot read is repaired by the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from structlog.testing import capture_logs

from gateway.index import keys
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event
from gateway.steward.index.reconcile import Reconciler
from policies.errors import IndexUnavailable
from tests.support import boards
from tests.support.duty import Duty

WINDOW = keys.window("tiny", "alltime")
EXACT, DENSE = {"windows": ["alltime"], "exact_ranks": 10}, {"windows": ["alltime"], "ranks": ["dense"]}


@pytest.fixture
def own_settings(own_settings: Settings, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    boards.write_board(tmp_path / "policies", **request.param)
    return own_settings


def be_a_string(redis: Redis) -> None:
    redis.delete(WINDOW)
    redis.set(WINDOW, "of another type")


@pytest.mark.parametrize(
    ("own_settings", "forge"),
    [
        pytest.param(EXACT, be_a_string, id="a window of another type"),
        pytest.param(EXACT, lambda redis: redis.zadd(WINDOW, {b"\xff\xfe" * 20: 5}), id="no text"),
        pytest.param(
            EXACT, lambda redis: redis.zadd(WINDOW, {"0" * 22 + ":eve": 99_999.5}), id="half a point"
        ),
        pytest.param(DENSE, be_a_string, id="a window of tie groups of another type"),
    ],
    indirect=["own_settings"],
)
async def test_what_one_comparison_cannot_read_others_repair_at_once(
    duty: Duty, forge: Callable[[Redis], Any]
):
    """The failure is told nevertheless, and the next step succeeds: there is one window again."""
    await duty.fill()
    await duty.settle_down()
    before = duty.snapshot()
    forge(duty.redis)
    reconciler = Reconciler(duty.ledger, duty.index.of(duty.board), duty.board.policy, clock=duty.clock)
    with pytest.raises(IndexUnavailable):
        await reconciler.step()
    assert before == duty.snapshot()
    assert 0 == await reconciler.step()


@pytest.mark.parametrize("own_settings", [EXACT], indirect=True)
async def test_a_steward_reports_what_it_repaired_beside_a_failure(duty: Duty):
    """The board is failing until a comparison of it succeeds."""
    await duty.fill()  # and built, but not compared yet
    be_a_string(duty.redis)
    with capture_logs() as logs:
        await duty.steward.reconcile()
    assert "forged-key" in [entry["kind"] for entry in logs if entry["event"] == Event.DIFFERENCE]
    assert ("reconcile:tiny",) == duty.steward.failures.now()
    await duty.settle_down()
    assert () == duty.steward.failures.now()
