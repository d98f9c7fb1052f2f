"""What is kept of boards that are used, and what an operator sees of it."""

from __future__ import annotations

from pathlib import Path

from gateway.edge.board_parts import BoardPartsCache, SharedParts
from gateway.index.board_indexes import Index
from gateway.index.connection import connect
from gateway.index.limits.admission import Admission, AdmissionRequest
from gateway.runtime.bounded_cache import BoundedCache
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import REGISTRY
from gateway.wiring import ledger_of, new_board_index
from tests.support import boards
from tests.support.ports import unserved_port


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_the_size_of_a_cache_and_what_it_let_go_of_are_in_the_metrics():
    """Its limit, one that was dropped for room, one for which nobody had asked for long, and none in the end."""
    now_s = [0.0]
    cache: BoundedCache[str] = BoundedCache("probe", limit=2, idle_s=60, clock=lambda: now_s[0])
    for name in ("a", "b", "c"):
        cache.put(name, name)
    assert 2 == sample("scoregate_cached_boards", cache="probe")
    assert 1 == sample("scoregate_cached_boards_dropped_total", cache="probe", why="full")
    now_s[0] = 61.0
    cache.put("d", "d")
    cache.let_go_of_idle()
    assert 1 == sample("scoregate_cached_boards", cache="probe")
    assert 1 == sample("scoregate_cached_boards_dropped_total", cache="probe", why="idle")
    cache.drop("d")
    cache.drop("d")
    assert 0 == sample("scoregate_cached_boards", cache="probe"), "what is dropped by name is gone at once"


async def test_without_redis_nobody_s_limits_begin_anew_with_a_board_that_was_let_go(tmp_path: Path):
    """Submissions, runs and refusals are counted on, however many other boards were asked for meanwhile."""
    once = {"per_minute": 1, "burst": 1}
    limits = {"player": once, "refused": {"player": 1}}
    board, other = (boards.board(tmp_path / "policies", name, limits=limits) for name in ("a", "b"))
    with unserved_port() as port:
        nowhere = connect(f"redis://127.0.0.1:{port}/0", timeout_ms=100)
        shared = SharedParts(ledger_of(Settings(data_dir=tmp_path)), Index(nowhere, new_board_index))
        cache = BoardPartsCache(shared, limit=1)
        told = []
        for _ in range(2):
            parts = cache.of(board)
            answers = [
                await parts.submission_limits.admit(AdmissionRequest("run", player, player))
                for player in ("ada", "refused")
            ]
            told.append([*(each.admission for each in answers), await parts.run_limit.wait_ms("ada") > 0])
            await parts.submission_limits.note_refusal("refused", "refused")
            cache.of(other)
        await nowhere.aclose()
    admitted, limited = [Admission.ADMITTED] * 2, [Admission.PLAYER_LIMITED, Admission.ABNORMAL]
    assert [[*admitted, False], [*limited, True]] == told
