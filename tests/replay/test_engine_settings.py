"""What the determinism kit says of a simulator: the settings are what they are called, and nothing is left untold."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wasmtime import Module, TrapCode, wat2wasm

from policies.loader import Simulator
from policies.replaying import Budget
from policies.vocabulary import Claim, Reason, SimulatorKind
from replay.kit.causes import cause_of
from replay.kit.check import (
    GENEROUS,
    Checker,
    CheckReport,
    PreparedRun,
    meanings,
    open_simulators,
    simulations,
)
from replay.kit.costs import Cost, costs_of, proposed
from replay.kit.engine_settings import BY_NAME, PROGRAM_SETTINGS, SETTINGS, OtherMachine, Setting, settings_of
from replay.kit.remarks import memory_mib
from replay.kit.runs import PlayedRun
from replay.kit.verdict import DEFAULT_CHECKPOINT_TICKS, replay_of
from replay.simulators import (
    MalformedRecording,
    Simulation,
    SimulationOutcome,
    SimulationRequest,
    SimulatorFault,
)
from replay.simulators.wasm import Machine
from tests.replay.games import END, GAME, STATS, play
from tests.support.programs import need_programs, request, serving

SEED = 77
PLAY = play([1, 2, 3] * 10 + [END], SEED, 10)
RUN = PlayedRun("run", SEED, PLAY.recording, Claim(PLAY.score, PLAY.ticks, PLAY.stats))
HONEST = Simulation(
    PLAY.ticks, True, PLAY.score, PLAY.state_hash, tuple(PLAY.stats.values()), tuple(PLAY.checkpoints), 9
)


def test_P13_each_setting_runs_a_module_as_other_code():
    """P13: what an engine compiles differs from what judges, and from what every other setting compiles."""
    module = bytes(wat2wasm(GAME))
    engines = {each.name: OtherMachine(each)._engine for each in SETTINGS if each.engine}
    compiled = {name: bytes(Module(engine, module).serialize()) for name, engine in engines.items()}
    judging = bytes(Module(Machine()._engine, module).serialize())
    assert len(SETTINGS) - 2 == len(compiled)  # two play a run otherwise instead
    assert len(compiled) + 1 == len({judging, *compiled.values()})


def test_P13_programs_are_tried_with_memory_that_is_filled(tmp_path: Path):
    """P13: once with each of two numbers that have no bit in common; plug-ins are tried as they are."""
    need_programs()
    told = serving(tmp_path, "number(int(os.environ.get('MALLOC_PERTURB_', 0)))")
    scores = []
    for setting in PROGRAM_SETTINGS:
        with open_simulators(setting) as simulators:
            found = simulators.simulate(request(told))
            assert isinstance(found, Simulation)
            scores.append(found.score)
    assert [85, 170] == scores
    assert 0 == 85 & 170
    kinds = (SimulatorKind.WASM, SimulatorKind.PROCESS, SimulatorKind.PLUGIN)
    assert [SETTINGS, PROGRAM_SETTINGS, ()] == [settings_of(each) for each in kinds]


Answers = Callable[[Setting | None, int], SimulationOutcome]
"""What comes of the n-th question (from 0) to the simulators that were opened for a setting."""


def checked(answers: Answers, *settings: str, repeats: int = 1, **asked: Any) -> tuple[CheckReport, int]:
    """What the kit finds of simulators that answer so, and how many simulations it told of."""
    told: list[None] = []

    @contextmanager
    def opened(setting: Setting | None) -> Iterator[Any]:
        questions = iter(range(1_000))

        def simulate(request: SimulationRequest) -> SimulationOutcome:
            return answers(setting, next(questions))

        yield SimpleNamespace(engine_of=lambda kind: "told 1", simulate=simulate)

    checker = Checker(
        Simulator("sha256:" + "0" * 64, Path("game.wasm")),
        opened,
        time.perf_counter,
        settings=[BY_NAME[each] for each in settings],
        repeats=repeats,
        tell=lambda: told.append(None),
    )
    prepared = [PreparedRun(RUN, replay_of(RUN, GENEROUS, STATS))]
    limits = {"memory_mib": None, "margin": 4, "maximum_ticks": None} | asked
    return checker.check(prepared, (), **limits), len(told)


@pytest.mark.parametrize(
    ("changed", "what", "expected", "found"),
    [
        (
            {"checkpoints": (*PLAY.checkpoints[:1], 5, 6)},
            "state hash after tick 20",
            f"{PLAY.checkpoints[1]:016x}",
            "0000000000000005",
        ),
        ({"ticks": 5}, "ticks", str(PLAY.ticks), "5"),
        ({"is_over": False}, "end of the run", "True", "False"),
        ({"score": 1, "stats": (8, 8)}, "score", str(PLAY.score), "1"),
        ({"stats": (8, 8)}, "statistics", str(tuple(PLAY.stats.values())), "(8, 8)"),
        ({"state_hash": 10}, "state hash at the end", f"{PLAY.state_hash:016x}", "000000000000000a"),
    ],
)
def test_P13_what_differs_first_is_told_with_both_values(
    changed: Mapping[str, Any], what: str, expected: str, found: str
):
    """P13: every part of the answer is compared, in the order in which it leads to the cause."""
    result, _ = checked(
        lambda setting, _: HONEST if setting is None else replace(HONEST, **changed), "unoptimised"
    )
    [difference] = result.runs[0].differences
    assert ("run", "unoptimised", what, expected, found) == (
        difference.run,
        difference.setting,
        difference.what,
        difference.expected,
        difference.found,
    )
    assert not result.is_safe
    assert [("unoptimised", BY_NAME["unoptimised"].meaning)] == list(meanings(result))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (SimulatorFault(Reason.OUT_OF_FUEL, {"fuel": 5, "memory_bytes": 7}), "out-of-fuel memory_bytes=7"),
        (MalformedRecording(), "recording-malformed"),
    ],
)
def test_P13_a_setting_without_a_simulation_is_a_difference(outcome: SimulationOutcome, words: str):
    """P13: it fails there, and not where it is judged."""
    result, _ = checked(lambda setting, _: outcome if setting else HONEST, "interpreted")
    [difference] = result.runs[0].differences
    assert ("outcome", f"a score of {PLAY.score} after {PLAY.ticks} ticks", words) == (
        difference.what,
        difference.expected,
        difference.found,
    )


@pytest.mark.parametrize("reason", [Reason.TIMED_OUT, Reason.SIMULATOR_UNUSABLE])
def test_P13_a_setting_that_cannot_be_tried_is_told_and_no_difference(reason: Reason):
    """P13: an interpreter may be too slow, an engine may not support it; in the judging setting it is a difference."""
    result, _ = checked(lambda setting, _: SimulatorFault(reason) if setting else HONEST, "interpreted")
    assert (("interpreted",), (), True) == (
        result.runs[0].untried,
        result.runs[0].differences,
        result.is_safe,
    )
    assert ("interpreted",) == result.settings
    again, _ = checked(lambda _, number: SimulatorFault(reason) if number > 1 else HONEST)
    assert [((), "again")] == [(run.untried, each.setting) for run in again.runs for each in run.differences]


def test_P13_tick_by_tick_has_no_statistics_to_compare():
    """P13: all else of it is compared."""
    result, _ = checked(lambda setting, _: replace(HONEST, stats=()) if setting else HONEST, "tick-by-tick")
    assert result.is_safe


def test_P13_fuel_that_is_not_the_same_is_a_difference():
    """P13: a budget that suffices once has to suffice for ever. It is told once, however often it happens."""
    result, _ = checked(lambda _, number: replace(HONEST, fuel=number), repeats=3)
    found = [(each.setting, each.what, each.expected) for each in result.runs[0].differences]
    assert [("again", "fuel", "1")] == found


def test_as_many_simulations_are_told_of_as_were_announced():
    """Whoever watches sees how far it is; what was played so often is what it cost."""
    settings = ("unoptimised", "small-code")
    result, told = checked(lambda *_: HONEST, *settings, repeats=4)
    assert simulations(1, 4, 2) == told
    assert result.runs[0].cost is not None
    assert (PLAY.ticks, 9, 4) == (
        result.runs[0].cost.ticks,
        result.runs[0].cost.fuel,
        len(result.runs[0].cost.seconds),
    )


def test_the_least_memory_that_gives_the_same_answer_is_found():
    """By halving; what cannot be told apart from the most is the most."""
    asked: list[int] = []

    def answers(request: SimulationRequest) -> SimulationOutcome:
        asked.append(request.budget.memory_mib)
        return HONEST if request.budget.memory_mib >= 11 else SimulatorFault(Reason.OUT_OF_MEMORY)

    @contextmanager
    def opened(_: object) -> Iterator[Any]:
        yield SimpleNamespace(engine_of=lambda kind: "told 1", simulate=answers)

    checker = Checker(
        Simulator("sha256:" + "0" * 64, Path("game.wasm")), opened, time.perf_counter, settings=(), repeats=1
    )
    prepared = [PreparedRun(RUN, replay_of(RUN, GENEROUS, STATS))]
    result = checker.check(prepared, (), memory_mib=(2, 64), margin=4, maximum_ticks=None)
    assert (11, 11, True) == (
        result.runs[0].memory_mib,
        result.budget and result.budget.memory_mib,
        result.is_safe,
    )
    assert result.costs is not None
    assert 11 == result.costs.memory_mib
    assert len(asked) < 15


def test_limits_stay_within_what_a_policy_may_have():
    """However dear the run, and however cheap: what is proposed can be pasted into a policy."""
    dear = [Cost(10, 10**13, (9_000.0,))]
    assert Budget(fuel=10**13, memory_mib=1024, wall_ms=600_000) == proposed(dear, 5_000, 8, 10_000_000)
    cheap = [Cost(10, 1, (0.0,))]
    assert Budget(fuel=1_000, memory_mib=1, wall_ms=1_000) == proposed(cheap, 0, 1, None)
    assert 1_300 == proposed([Cost(0, 1_201, (0.0,))], 1, 1, 50).fuel
    assert 2_500 == proposed([Cost(100, 2_500, (0.0,))], 1, 1, 50).fuel


def test_costs_are_the_median_and_the_worst_of_all_runs():
    """Time in milliseconds over every time that each was played; fuel once for each run."""
    found = costs_of([Cost(1, 10, (0.001, 0.002)), Cost(1, 30, (0.009,)), Cost(1, 20, (0.004,))], 3)
    assert (20, 30, 3.0, 9.0, 3) == (
        found.fuel_median,
        found.fuel_worst,
        found.wall_ms_median,
        found.wall_ms_worst,
        found.memory_mib,
    )


@pytest.mark.parametrize(
    ("memory", "expected"),
    [("1 1", (1, 1)), ("17 40", (2, 3)), ("16 16", (1, 1)), ("3", (1, 50)), ("1 60000", (1, 50))],
)
def test_the_memory_of_a_module_is_told_in_whole_mib(memory: str, expected: tuple[int, int]):
    """Rounded up, so that it suffices; what has no most, or more than may be, has the limit."""
    wat = f'(module (memory (export "memory") {memory}))'
    assert expected == memory_mib(bytes(wat2wasm(wat)), 50)


def test_a_recording_without_checkpoints_is_tried_with_those_of_a_policy():
    """Where no board is named, its interval is the recording's, or the default of the page."""
    without = replace(RUN, recording=play([1, 2, END], SEED, 0).recording)
    found = [replay_of(each, GENEROUS, STATS).checkpoint_ticks for each in (RUN, without)]
    assert [10, DEFAULT_CHECKPOINT_TICKS] == found
    assert 60 == DEFAULT_CHECKPOINT_TICKS


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 300}), "it did not answer within 300 ms"),
        (SimulatorFault(Reason.TIMED_OUT), "The simulator was stopped at its wall-clock limit"),
        (SimulatorFault(Reason.OUT_OF_MEMORY), "The simulator asked for more memory than its limit"),
        (SimulatorFault(Reason.SIMULATOR_UNUSABLE), "The simulator breaks its interface"),
        (
            SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": 999}),
            "The simulator breaks its interface",
        ),
        (SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": 4}), "its `abi_version` is not 1"),
        (SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": 17}), "it wrote too much"),
        (
            SimulatorFault(Reason.SIMULATOR_TRAPPED, {"signal": int(signal.SIGSEGV)}),
            "it was ended by SIGSEGV",
        ),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, {"signal": 4711}), "it failed"),
        (
            SimulatorFault(Reason.SIMULATOR_TRAPPED, {"trap": TrapCode.STACK_OVERFLOW.value, "fuel": 5}),
            "it trapped: stack overflow",
        ),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 3}), "it ended with status 3"),
        (SimulatorFault(Reason.SIMULATOR_TRAPPED, said="out of cheese"), "it failed: out of cheese"),
    ],
)
def test_a_fault_is_told_in_words(fault: SimulatorFault, words: str):
    """What went wrong, for whoever wrote the simulator, and its own words for it."""
    assert words == cause_of(fault)
