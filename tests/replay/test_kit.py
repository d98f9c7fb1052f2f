"""The determinism kit: it finds each way in which a module is not fit to judge by, and passes one that is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from wasmtime import wat2wasm

from policies.loader import Simulator
from policies.replaying import Budget
from policies.vocabulary import Claim, Reason, VerdictKind
from replay.kit.check import GENEROUS, Checker, CheckReport, PreparedRun, open_simulators
from replay.kit.costs import Cost, proposed
from replay.kit.engine_settings import BY_NAME
from replay.kit.instructions import instructions, is_float
from replay.kit.remarks import Weight, memory_mib, remarks_on
from replay.kit.runs import PlayedRun
from replay.kit.verdict import judge_run, replay_of
from replay.simulators import Simulation, SimulationOutcome, SimulationRequest
from tests.replay.games import COURSES, END, GAME, STATS, broken, play, store

SEED = 77
PLAY = play([1, 2, 3] * 10 + [END], SEED, 10)
RUN = PlayedRun("run", SEED, PLAY.recording, Claim(PLAY.score, PLAY.ticks, PLAY.stats))

FORGETS_NO_SCORE = GAME.replace("(global.set $score (i64.const 0))", "")
SIMULATES_OTHERWISE = GAME.replace(
    "(i64.store (i32.const 1032) (global.get $score))",
    "(i64.store (i32.const 1032) (i64.add (global.get $score) (i64.const 7)))",
)
NAN_BITS = "(i64.reinterpret_f64 (f64.div (local.get $zero) (local.get $zero)))"
SHOWS_NAN = GAME.replace(
    "(local $played i32)",
    "(local $zero f64) (local $played i32)",
).replace(
    "(i64.store (i32.const 1032) (global.get $score))",
    f"(i64.store (i32.const 1032) (i64.shr_u {NAN_BITS} (i64.const 52)))",
)
TRIES_TO_GROW = GAME.replace('(memory (export "memory") 9 9)', '(memory (export "memory") 9 64)').replace(
    "(i64.store (i32.const 1032) (global.get $score))",
    "(i64.store (i32.const 1032) (i64.extend_i32_s (memory.grow (i32.const 40))))",
)
assert GAME not in {FORGETS_NO_SCORE, SIMULATES_OTHERWISE, SHOWS_NAN, TRIES_TO_GROW}


def checked(
    folder: Path, wat: str, *settings: str, run: PlayedRun = RUN, memory: tuple[int, int] = (1, 1)
) -> CheckReport:
    """What the kit finds of a module in a few settings; claims are the module's own unless `run` has one."""
    module = store(folder, wat)
    checker = Checker(
        Simulator(module.digest, module.path),
        open_simulators,
        time.perf_counter,
        settings=[BY_NAME[each] for each in settings],
        repeats=2,
    )
    prepared = PreparedRun(run, replay_of(RUN, GENEROUS, STATS))
    return checker.check([prepared], (), memory_mib=memory, margin=4, maximum_ticks=None)


def test_a_run_without_a_claim_is_compared_with_its_own_recording(tmp_path: Path):
    """It is verified with the statistics that it has, and not if its recording says otherwise."""
    module, replay = store(tmp_path, GAME), replay_of(RUN, GENEROUS, STATS)
    simulator = Simulator(module.digest, module.path)
    with open_simulators(None) as simulators:

        def kind(run: PlayedRun) -> VerdictKind:
            return judge_run(run, replay, simulator, simulators, time.perf_counter).verdict.kind

        assert VerdictKind.VERIFIED is kind(replace(RUN, claim=None))
        assert VerdictKind.MISMATCH is kind(replace(RUN, claim=None, seed=SEED + 1))


def found_by(checked: CheckReport) -> set[str]:
    return {each.setting for run in checked.runs for each in run.differences}


def test_P13_a_deterministic_module_is_replay_safe_in_every_setting(tmp_path: Path):
    """The same answer by other code, other bounds, an interpreter, and tick by tick; nothing was left untried."""
    result = checked(tmp_path, GAME, *BY_NAME)
    [run] = result.runs

    assert (True, VerdictKind.VERIFIED, (), ()) == (
        result.is_safe,
        run.verdict.kind,
        run.differences,
        run.untried,
    )
    assert run.cost is not None
    assert (PLAY.ticks, 2) == (run.cost.ticks, len(run.cost.seconds))


@pytest.mark.parametrize(
    ("wat", "setting", "what"),
    [
        pytest.param(FORGETS_NO_SCORE, "played-before", "score", id="what start leaves"),
        pytest.param(SIMULATES_OTHERWISE, "tick-by-tick", "score", id="another simulate"),
        pytest.param(SHOWS_NAN, "any-nan", "score", id="the bits of a NaN"),
    ],
)
def test_P13_what_makes_a_module_unsafe_is_found_and_named(tmp_path: Path, wat: str, setting: str, what: str):
    """The setting that shows it is named, and what differs first; under the others it is always the same."""
    unclaimed = replace(RUN, claim=None)
    result = checked(tmp_path, wat, setting, "unoptimised", run=unclaimed)
    [run] = result.runs

    assert not result.is_safe
    assert [(setting, what)] == [(each.setting, each.what) for each in run.differences]


def test_P13_a_module_that_answers_otherwise_without_memory_is_found(tmp_path: Path):
    """It goes on where growing is refused, which can happen on one machine alone."""
    result = checked(tmp_path, TRIES_TO_GROW, run=replace(RUN, claim=None), memory=(1, 4))

    assert {"memory-limit"} == found_by(result)
    assert 4 == result.runs[0].memory_mib


def test_P13_a_simulator_that_answers_as_it_likes_is_found(tmp_path: Path):
    """The second answer in the same process is not the first: no setting is needed to see it."""
    answers: Iterator[int] = iter(range(100))

    class Fickle:
        def engine_of(self, kind: object) -> str:
            return "fickle 1"

        def simulate(self, request: object) -> SimulationOutcome:
            return Simulation(PLAY.ticks, True, next(answers), 0, tuple(PLAY.stats.values()), (), 5)

    @contextmanager
    def opened(setting: object):
        yield Fickle()

    checker = Checker(Simulator("sha256:" + "0" * 64, tmp_path), opened, time.perf_counter, settings=())
    prepared = PreparedRun(RUN, replay_of(RUN, GENEROUS, STATS))
    result = checker.check([prepared], (), memory_mib=None, margin=4, maximum_ticks=None)

    assert {"again", "fresh-process"} == found_by(result)
    assert not result.is_safe


def test_P13_what_an_earlier_recording_left_is_found(tmp_path: Path):
    """Each recording has a fresh process of its own: in one for all, the second would go wrong the same way again."""

    class Remembers:
        most = 0

        def engine_of(self, kind: object) -> str:
            return "remembering 1"

        def simulate(self, request: SimulationRequest) -> SimulationOutcome:
            self.most = max(self.most, request.seed)
            return Simulation(PLAY.ticks, True, self.most, 0, tuple(PLAY.stats.values()), (), 5)

    @contextmanager
    def opened(setting: object):
        yield Remembers()

    checker = Checker(Simulator("sha256:" + "0" * 64, tmp_path), opened, time.perf_counter, settings=())
    runs = [replace(RUN, name=str(seed), seed=seed, claim=None) for seed in (9, 4)]
    prepared = [PreparedRun(run, replay_of(run, GENEROUS, STATS)) for run in runs]
    result = checker.check(prepared, (), memory_mib=None, margin=4, maximum_ticks=None)

    assert [("4", "fresh-process", "score", "9", "4")] == [
        (each.run, each.setting, each.what, each.expected, each.found)
        for run in result.runs
        for each in run.differences
    ]


def test_an_honest_recording_that_is_not_verified_makes_a_module_unsafe(tmp_path: Path):
    """The game that was played and the module here differ: it answers always the same, and always no."""
    lie = replace(RUN, claim=Claim(PLAY.score + 1, PLAY.ticks, PLAY.stats))
    result = checked(tmp_path, GAME, run=lie)

    assert (False, Reason.SCORE_MISMATCH, set()) == (
        result.is_safe,
        result.runs[0].verdict.reason,
        found_by(result),
    )


def test_a_file_that_is_no_recording_is_told_and_costs_nothing(tmp_path: Path):
    """It is malformed, and there are no costs to propose limits from."""
    result = checked(tmp_path, GAME, run=replace(RUN, recording=b"SGR1"))
    assert (Reason.RECORDING_MALFORMED, None, None) == (
        result.runs[0].verdict.reason,
        result.costs,
        result.budget,
    )


def test_limits_follow_the_worst_run_at_the_length_that_is_allowed():
    """Cost per tick times the longest run times the margin, rounded up; never less than a second."""
    costs = [Cost(100, 1_000, (0.001, 0.002)), Cost(50, 900, (0.0015,))]

    assert Budget(fuel=7_200, memory_mib=2, wall_ms=1_000) == proposed(costs, 2, 4, 100)
    assert 18 * 1000 * 4 == proposed(costs, 2, 4, 1000).fuel
    assert 1_000 == proposed(costs, 2, 4, None).wall_ms
    assert 12_000 == proposed([Cost(10, 0, (1.5,))], 1, 8, None).wall_ms
    assert Budget().fuel == proposed([Cost(10, 0, (1.5,))], 1, 8, None).fuel


def wasm(wat: str) -> bytes:
    return bytes(wat2wasm(wat))


@pytest.mark.parametrize(
    "asset",
    [
        '(global (export "asset") i32 (i32.const 8))',
        '(func (export "asset") (param i64) (result i32) (i32.const 8))',
    ],
)
def test_a_module_is_told_that_it_takes_no_content(asset: str):
    """An export of the name, but not of the type, is a slip that nothing else would show."""
    assert [] == remarks(COURSES)
    other = COURSES.replace('(export "asset")', '(export "map")').replace(
        '(memory (export "memory")', f'{asset} (memory (export "memory")'
    )
    [(weight, text)] = remarks(other)
    assert (Weight.NOTE, "its asset is no function (i32) -> (i32), so it takes no asset of a board") == (
        weight,
        text,
    )


def remarks(wat: str) -> list[tuple[Weight, str]]:
    return [(each.weight, each.text) for each in remarks_on(wasm(wat))]


def test_a_clean_module_is_looked_at_without_a_word():
    """No imports, all exports, bounded memory, whole numbers."""
    assert [] == remarks(GAME)
    assert (1, 1) == memory_mib(wasm(GAME), 1024)


@pytest.mark.parametrize(
    ("wat", "words"),
    [
        (broken(imports='(import "env" "now" (func (result i64)))'), "imports env.now"),
        (GAME.replace('(export "tick")', '(export "tock")'), "no function tick (i32) -> (i32)"),
        (GAME.replace('(export "memory")', '(export "heap")'), "no memory"),
        (
            broken().replace('(export "score") (result i64) i64', '(export "score") (result i32) i32'),
            "score is () -> (i32), and must be () -> (i64)",
        ),
    ],
    ids=["import", "export", "memory", "type"],
)
def test_P17_what_the_gateway_would_not_run_is_unusable(wat: str, words: str):
    """Each broken rule of the interface is named before anything runs."""
    unusable = [text for weight, text in remarks(wat) if weight is Weight.UNUSABLE]
    assert [True] == [words in text for text in unusable]


@pytest.mark.parametrize("content", [b"", b"(module)", b"\0asm\1\0\0\0\xff"], ids=["empty", "text", "cut"])
def test_what_is_no_module_is_unusable(content: bytes):
    """Also the text form, which an engine would take."""
    assert [Weight.UNUSABLE] == [each.weight for each in remarks_on(content)]


def test_floats_and_growing_memory_are_noted():
    """They can be right, and are the first suspects."""
    texts = [text for _, text in remarks(SHOWS_NAN) + remarks(TRIES_TO_GROW) + remarks(broken())]
    assert [True, True, True] == [
        words in text
        for words, text in zip(["floating-point", "grow its memory", "no maximum"], texts, strict=True)
    ]


def test_instructions_are_told_apart_whatever_follows_them():
    """Constants, tables of branches, blocks, vectors and bulk instructions are passed over by their own lengths."""
    module = wasm("""(module (memory 1) (table 2 funcref) (type $t (func (param i32) (result i32)))
      (func $f (param i32) (result i32) (local i64 f64)
        (block $a (block $b (block $c (br_table $a $b $c (local.get 0)))))
        (memory.fill (i32.const 0) (i32.const 43) (i32.const 68))
        (drop (i64.const -9223372036854775808))
        (drop (f64.const 1.5)) (drop (f32.const 2.5))
        (drop (v128.const i32x4 1 2 3 4))
        (drop (i8x16.extract_lane_s 3 (v128.load offset=300 (i32.const 16))))
        (v128.store8_lane 1 (i32.const 0) (v128.const i64x2 0 0))
        (drop (select (result i32) (i32.const 1) (i32.const 2) (i32.const 0)))
        (call_indirect (type $t) (i32.const 1) (i32.const 0))))""")
    blocks = [0x02, 0x02, 0x02, 0x20, 0x0E, 0x0B, 0x0B, 0x0B]
    fill, constants = [0x41, 0x41, 0x41, 0xFC], [0x42, 0x1A, 0x44, 0x1A, 0x43, 0x1A]
    vectors = [0xFD, 0x1A, 0x41, 0xFD, 0xFD, 0x1A, 0x41, 0xFD, 0xFD]
    choice, call = [0x41, 0x41, 0x41, 0x1C, 0x1A], [0x41, 0x41, 0x11, 0x0B]
    assert [*blocks, *fill, *constants, *vectors, *choice, *call] == [
        each for each, _ in instructions(module)
    ]


def test_every_function_is_looked_at_whatever_its_locals():
    """Many of one type, of several types, or none; the sections before and after are passed over."""
    several = "(func (local i32 i32 f32 i64) nop)" + f"(func (local {'i64 ' * 300}) nop nop)" + "(func)"
    module = wasm(f'(module {several} (memory 1) (data (i32.const 0) "{"x" * 300}"))')
    assert [0x01, 0x0B, 0x01, 0x01, 0x0B, 0x0B] == [each for each, _ in instructions(module)]


@pytest.mark.parametrize(
    ("instruction", "is_found"),
    [
        ("(drop (f32.add $f $f))", True),
        ("(drop (f64.sqrt $d))", True),
        ("(drop (f64.lt $d $d))", True),
        ("(drop (f64.load $i))", True),
        ("(f32.store $i $f)", True),
        ("(drop (i32.trunc_f64_s $d))", True),
        ("(drop (i64.trunc_sat_f32_u $f))", True),
        ("(drop (f64.convert_i32_s $i))", True),
        ("(drop (f32.demote_f64 $d))", True),
        ("(drop (i32.add $i $i))", False),
        ("(drop (i64.eqz $l))", False),
        ("(drop (i32.load $i))", False),
        ("(i64.store $i $l)", False),
        ("(drop (i32.wrap_i64 $l))", False),
        ("(drop (i64.extend_i32_s $i))", False),
        ("(drop (i64.extend8_s $l))", False),
        ("(memory.fill $i $i $i)", False),
    ],
)
def test_floats_are_told_from_whole_numbers(instruction: str, is_found: bool):
    """Comparing, computing, keeping, and turning one into the other, also where it is clipped."""
    body = re.sub(r"\$(\w)", r"(local.get $\1)", instruction)
    module = wasm(
        f"(module (memory 1) (func (param $i i32) (param $l i64) (param $f f32) (param $d f64) {body}))"
    )
    around = {0x20, 0x1A, 0x0B}  # local.get, drop, end
    assert [is_found] == [is_float(*each) for each in instructions(module) if each[0] not in around]
