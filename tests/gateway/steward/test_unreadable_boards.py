"""A board with content that one of its comparisons cannot read is repaired by the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from redis import Redis
from structlog.testing import capture_logs

from gateway.index import keys
from gateway.index.inspection import Inspection
from gateway.index.residency import Residency
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event
from gateway.steward.index.check import check
from gateway.steward.index.reconcile import Reconciler
from policies.errors import IndexUnavailable, LedgerUnavailable
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


unreadable = pytest.mark.parametrize(
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


@unreadable
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


@unreadable
async def test_a_check_repairs_what_others_find_beside_what_cannot_be_read(
    duty: Duty, forge: Callable[[Redis], Any]
):
    """Without a repair it names the difference, and says that it has not compared all."""
    await duty.fill()
    await duty.settle_down()
    before = duty.snapshot()
    forge(duty.redis)
    found = await check(duty.view(), is_repaired=False, in_flight_s=0)
    assert (IndexUnavailable, False) == (type(found.failure), found.is_complete)
    assert found.differences
    repaired = await check(duty.view(), is_repaired=True, in_flight_s=0)
    assert (None, True, 0) == (repaired.failure, repaired.is_complete, repaired.left)
    assert set(found.differences) <= set(repaired.differences)
    assert before == duty.snapshot()


@pytest.mark.parametrize("own_settings", [EXACT], indirect=True)
@pytest.mark.parametrize("error", [LedgerUnavailable, IndexUnavailable])
async def test_a_check_ends_once_the_ledger_or_redis_is_away(
    duty: Duty, error: type[Exception], monkeypatch: pytest.MonkeyPatch
):
    """It does not wait for it with each part of the board, of which one with many shards has hundreds."""
    await duty.fill()
    asked = 0

    async def is_away(*_: object) -> NoReturn:
        nonlocal asked
        asked += 1
        raise error

    async def goes_away(*_: object) -> NoReturn:
        monkeypatch.setattr(*where, is_away)
        await is_away()

    where: Any = (
        (duty.ledger, "read")
        if error is LedgerUnavailable
        else (duty.index.of(duty.board).residency, "state")
    )
    monkeypatch.setattr(Inspection, "facts", goes_away)
    with pytest.raises(error):
        await check(duty.view(), is_repaired=True, in_flight_s=0)
    assert 2 == asked


@pytest.mark.parametrize("own_settings", [{"windows": ["alltime"], "shards": 3}], indirect=True)
async def test_a_check_ends_once_the_server_of_one_shard_is_away(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """The board's own server answers, so that only a look at every shard shows it."""
    await duty.fill()
    away, (facts, state) = "tiny/1", (Inspection.facts, Residency.state)

    def unless_away(read: Any, of_board: str) -> Any:
        async def reading(self: Any, *rest: Any) -> Any:
            if getattr(self, of_board) == away:
                raise IndexUnavailable("its server is away")
            return await read(self, *rest)

        return reading

    monkeypatch.setattr(Inspection, "facts", unless_away(facts, "board"))
    found = await check(duty.view(), is_repaired=False, in_flight_s=0)
    assert (IndexUnavailable, False) == (type(found.failure), found.is_complete)
    monkeypatch.setattr(Residency, "state", unless_away(state, "_board"))
    with pytest.raises(IndexUnavailable):
        await check(duty.view(), is_repaired=False, in_flight_s=0)


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
