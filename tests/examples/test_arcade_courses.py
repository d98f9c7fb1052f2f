"""The arcade's courses: parameters change the game for all who play a board, and nothing where there are none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.loader import load_policies
from policies.opened_board import OpenedBoard, canonical_parameters
from policies.replaying import Budget
from policies.seeds import SeedOf
from replay.simulators import Simulation, SimulationRequest
from replay.simulators.board_content import BoardContent
from replay.simulators.sandbox import Sandbox
from tests.replay.games import at

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "examples" / "arcade" / "arcade.wasm"

USUAL = {
    7: (310, 1020, "6854f31ad049f617"),
    2**63: (270, 793, "ab3e899d52aa4357"),
    2026: (750, 1146, "bc96f0cd8a2e1040"),
    5: (160, 659, "48359ae02ccb37fb"),
}
"""Score, ticks and state hash by seed, as the module gave them before there were courses."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """The real sandbox."""
    with Sandbox() as opened:
        yield opened


def words(seed: int) -> bytes:
    """Buttons held for a while each, as somebody plays who does not look."""
    rng = random.Random(seed)
    held = [rng.choice([0, 1, 2, 4, 8, 16, 1 | 4, 2 | 8]) for _ in range(400)]
    return b"".join(word.to_bytes(4, "little") * 18 for word in held)


def played(sandbox: Sandbox, seed: int, **course: int) -> tuple[int, int, str]:
    """Score, ticks and state hash of a run on a course."""
    module, inputs, budget = at(MODULE), words(seed), Budget(fuel=200_000_000, memory_mib=4)
    content = BoardContent(canonical_parameters(course))
    request = SimulationRequest(
        module.path, module.digest, seed, inputs, len(inputs) // 4, 60, budget, content=content
    )
    simulation = sandbox.simulate(request)
    assert isinstance(simulation, Simulation), simulation
    return simulation.score, simulation.ticks, f"{simulation.state_hash:016x}"


@pytest.mark.parametrize("seed", USUAL)
def test_a_board_without_parameters_is_played_as_ever(sandbox: Sandbox, seed: int) -> None:
    """Recordings of before give the same results to the bit; so does a course of nothing but usual values."""
    assert USUAL[seed] == played(sandbox, seed)
    assert USUAL[seed] == played(sandbox, seed, speed=100, gap=100, rush=100, flare=100)
    assert USUAL[seed] == played(sandbox, seed, unknown=7)


@pytest.mark.parametrize("setting", ["speed", "gap", "rush", "flare"])
def test_each_setting_makes_another_course(sandbox: Sandbox, setting: str) -> None:
    """Each changes the state that is hashed, within its limits, and twice the same is the same."""
    [seed, *_] = USUAL
    hard = played(sandbox, seed, **{setting: 200})
    assert hard == played(sandbox, seed, **{setting: 1000})
    assert 3 == len({hard, USUAL[seed], played(sandbox, seed, **{setting: 50})})


def test_the_bundled_families_play_courses() -> None:
    """A course has parameters and a seed for each run, a day's challenge one seed for everybody."""
    families = load_policies(ROOT / "policies").families
    courses, daily = families["arcade-course"], families["daily"]
    opened = OpenedBoard("arcade-course.narrow", "arcade-course", "Narrow gaps", parameters=b'{"gap":60}')
    assert (None, MODULE.resolve()) == (
        courses.board(opened).seed,
        courses.board(opened).simulators["arcade-1"].path.resolve(),
    )
    days = [OpenedBoard(f"daily.2026-11-{day}", "daily", "Challenge") for day in (22, 23)]
    seeds = {daily.board(day).seed for day in days}
    assert (SeedOf.BOARD, 2, False) == (daily.policy.seed, len(seeds), None in seeds)
    assert [True, False] == [daily.is_named(name) for name in ("daily.2026-11-22", "daily.tomorrow")]
