"""The settings that make WebAssembly deterministic: what could differ between machines or runs is no valid module.

`docs/reference/simulator-module.md` lists them; what they do not leave out, they make one thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.vocabulary import Reason, SimulatorKind
from replay.simulators import Simulation, SimulatorFault
from replay.simulators.sandbox import Sandbox
from replay.simulators.wasm import ModuleRule
from tests.replay.games import broken, store
from tests.support.programs import SEED, WORDS
from tests.support.programs import request as asked


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def simulated(sandbox: Sandbox, directory: Path, wat: str) -> Simulation | SimulatorFault:
    module = store(directory, wat)
    return sandbox.simulate(asked(Simulator(module.digest, module.path), SimulatorKind.WASM, WORDS))


def scored(sandbox: Sandbox, directory: Path, number: str) -> int:
    """The score of a module that works out this i64."""
    found = simulated(sandbox, directory, broken(f"(i64.store (i32.const 1032) {number}) i32.const 1024"))
    assert isinstance(found, Simulation), found
    return found.score


@pytest.mark.parametrize(
    "more",
    [
        (
            "(func (result v128) (f32x4.relaxed_madd (v128.const i32x4 0 0 0 0) (v128.const i32x4 0 0 0 0)"
            " (v128.const i32x4 0 0 0 0)))"
        ),
        "(func (result i32) (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))",
        "(func atomic.fence)",
        "(memory 1)",
        "(memory i64 1)",
        "(memory 1 1 shared)",
        "(memory 1 (pagesize 1))",
        "(func $t (return_call $t))",
        "(tag (param i32))",
        "(type (struct (field i32)))",
        (
            "(func (param i64 i64) (result i64 i64)"
            " (i64.add128 (local.get 0) (local.get 1) (local.get 0) (local.get 1)))"
        ),
    ],
    ids=[
        "relaxed SIMD",
        "atomics",
        "fences",
        "second memory",
        "memory of 64 bits",
        "shared memory",
        "other page sizes",
        "tail calls",
        "exceptions",
        "garbage collection",
        "wide arithmetic",
    ],
)
def test_P13_what_is_not_needed_is_not_there(sandbox: Sandbox, tmp_path: Path, more: str) -> None:
    """P13: threads and relaxed instructions depend on the machine; the rest is younger than most engines agree on."""
    expected = SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ModuleRule.VALID_WASM})
    assert expected == simulated(sandbox, tmp_path, broken(more=more))


@pytest.mark.parametrize(
    "nan",
    [
        "(f64.div (f64.const 0) (f64.const 0))",
        "(f64.sqrt (f64.const -1))",
        "(f64.min (f64.const 1) (f64.reinterpret_i64 (i64.const 0x7ff4dead0000beef)))",
        "(f64.mul (f64.const nan:0x4000000000001) (f64.const -1))",
        "(f64.promote_f32 (f32.sub (f32.const inf) (f32.const inf)))",
        "(f64x2.extract_lane 1 (f64x2.div (v128.const f64x2 0 0) (v128.const f64x2 0 0)))",
    ],
)
def test_P13_every_NaN_is_the_same(sandbox: Sandbox, tmp_path: Path, nan: str) -> None:
    """P13: arithmetic gives the canonical NaN, in SIMD as well, whatever went in; its bits can be stored and hashed."""
    assert 0x7FF8000000000000 == scored(sandbox, tmp_path, f"(i64.reinterpret_f64 {nan})")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("(i64.trunc_sat_f64_s (f64.const nan))", 0),
        ("(i64.trunc_sat_f64_s (f64.const inf))", 2**63 - 1),
        ("(i64.shl (i64.const 1) (i64.const 65))", 2),
        ("(i64.rem_s (i64.const -7) (i64.const 2))", -1),
        ("(i64.extend_i32_s (memory.grow (i32.const 65535)))", -1),
        ("(i64.extend_i32_s (memory.size))", 2),
    ],
)
def test_P13_the_edges_of_arithmetic_are_stated(
    sandbox: Sandbox, tmp_path: Path, number: str, expected: int
) -> None:
    """P13: where machines differ, WebAssembly says what comes out, and memory that is denied is denied everywhere."""
    assert expected == scored(sandbox, tmp_path, number)


def test_P13_fuel_is_the_same_in_every_run(tmp_path: Path) -> None:
    """P13: fresh processes count the same instructions, so a budget that suffices does so for ever."""
    loop = "(loop $l (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 9999))))"
    spent = set()
    for _ in range(2):
        with Sandbox() as fresh:
            found = simulated(fresh, tmp_path, broken(f"{loop} i32.const 1024"))
            assert isinstance(found, Simulation)
            spent.add(found.fuel)
    assert 1 == len(spent)
    assert min(spent) > 9999


def test_P13_the_seed_is_all_that_comes_from_outside(sandbox: Sandbox, tmp_path: Path) -> None:
    """P13: memory and globals begin as the module says, and the arguments are the ticket's."""
    seed = broken("(i64.store (i32.const 1032) (local.get 0)) i32.const 1024")
    found = simulated(sandbox, tmp_path, seed)
    assert isinstance(found, Simulation)
    assert SEED - 2**64 == found.score
    untouched = "(i64.or (i64.load (i32.const 2048)) (i64.load (i32.const 131064)))"
    assert 0 == scored(sandbox, tmp_path, untouched)
