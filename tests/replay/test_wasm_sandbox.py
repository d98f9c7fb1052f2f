"""The real sandbox with real modules: what one does wrong stays inside, and the next run is served."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.replaying import Budget, Replay
from policies.vocabulary import Claim, Reason, VerdictKind
from replay.confined.confinement import COMPILE_BYTES
from replay.simulators import Simulation, SimulationRequest, SimulatorFault, frames
from replay.simulators.sandbox import MODULES_AT_ONCE, Sandbox, SandboxUnavailable
from replay.simulators.wasm import ModuleRule
from replay.verify import verify
from tests.replay.games import END, GAME, STATS, Module, at, broken, play, store, store_bytes
from tests.support.kernel import has_namespaces, is_root, landlock_version

ROOT = Path(__file__).resolve().parents[2]
SEED = 2**64 - 12345
WORDS = [1, 2, 3, 4, 5, 6, 7] * 30 + [END]
BUDGET = Budget(fuel=50_000_000, memory_mib=16, wall_ms=2_000)
ENDLESS = "(loop $l br $l) i32.const 1024"
LONG_C_CALL = "(loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 16000000)) br $l) i32.const 1024"
ALL_FUEL = Budget(fuel=10**13, memory_mib=16, wall_ms=300)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """One sandbox for the tests that do not end its child on purpose."""
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of the test's own."""
    with Sandbox() as sandbox:
        yield sandbox


def request(
    module: Module, words: list[int] = WORDS, seed: int = SEED, budget: Budget = BUDGET
) -> SimulationRequest:
    """A request to simulate the words with the module, with a checkpoint every 50 ticks."""
    inputs = b"".join(word.to_bytes(4, "little") for word in words)
    return SimulationRequest(module.path, module.digest, seed, inputs, len(words), 50, budget)


def outcome(
    sandbox: Sandbox, directory: Path, wat: str, budget: Budget = BUDGET
) -> Simulation | SimulatorFault:
    """What comes of running the module that `wat` describes."""
    return sandbox.simulate(request(store(directory, wat), budget=budget))


def fault(sandbox: Sandbox, directory: Path, wat: str, budget: Budget = BUDGET) -> SimulatorFault:
    """The fault that running the module gives; the sandbox must serve an honest run after it."""
    found = outcome(sandbox, directory, wat, budget)
    assert isinstance(found, SimulatorFault)
    assert_serves(sandbox, directory)
    return found


def assert_serves(sandbox: Sandbox, directory: Path) -> None:
    """The sandbox simulates an honest run rightly."""
    expected = play(WORDS, SEED, 50)
    found = outcome(sandbox, directory, GAME)
    assert isinstance(found, Simulation)
    assert (expected.score, expected.checkpoints) == (found.score, list(found.checkpoints))


def child_of(sandbox: Sandbox) -> int:
    """The process id of the sandbox's child."""
    assert sandbox._child is not None
    return sandbox._child._process.pid


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int) -> bool:
    """Whether the process ends within twenty seconds."""
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


def used_by_children_s() -> float:
    """Processor time of all children that have ended: it says how long one ran, however busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def has_used_s(pid: int) -> float:
    """Processor time of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_peak_bytes(pid: int) -> int:
    """The most memory that the process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


# Honest runs


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_the_simulation_is_the_games(shared: Sandbox, tmp_path: Path, seed: int) -> None:
    """Every number of the simulation is what the game's twin in Python gives, for any seed."""
    expected = play(WORDS, seed, 50)
    found = shared.simulate(request(store(tmp_path, GAME), seed=seed))
    assert isinstance(found, Simulation)
    assert (expected.ticks, expected.is_over, expected.score) == (found.ticks, found.is_over, found.score)
    assert (expected.state_hash, tuple(expected.checkpoints)) == (found.state_hash, found.checkpoints)
    assert tuple(expected.stats.values()) == found.stats
    assert 0 < found.fuel < BUDGET.fuel


def test_inputs_after_the_end_are_not_consumed(shared: Sandbox, tmp_path: Path) -> None:
    """The run is over at its end, whatever was recorded after it."""
    found = shared.simulate(request(store(tmp_path, GAME), [*WORDS, 1, 1, 1]))
    assert isinstance(found, Simulation)
    assert (len(WORDS), True) == (found.ticks, found.is_over)


def test_large_recordings_pass_the_pipe(shared: Sandbox, tmp_path: Path) -> None:
    """Inputs and checkpoints many times larger than a pipe's buffer arrive whole."""
    words = [index % 9 for index in range(100_000)]
    asked = request(store(tmp_path, GAME), words)
    asked = SimulationRequest(asked.module, asked.digest, SEED, asked.inputs, asked.ticks, 5, asked.budget)
    found = shared.simulate(asked)
    assert isinstance(found, Simulation)
    assert play(words, SEED, 5).checkpoints == list(found.checkpoints)


def test_P06_verify_with_a_real_sandbox(shared: Sandbox, tmp_path: Path) -> None:
    """P06: the true claim is verified, a higher one and one of another seed are not."""
    module, played = store(tmp_path, GAME), play(WORDS, SEED, 50)
    policy = Replay(maximum_ticks=1000, checkpoint_ticks=50, stats=STATS, budget=BUDGET)
    simulator = Simulator(module.digest, module.path)
    claim = Claim(played.score, played.ticks, played.stats)
    lie = Claim(played.score + 1, played.ticks, played.stats)
    assert Reason.VERIFIED is verify(claim, played.recording, SEED, policy, simulator, shared).reason
    assert Reason.SCORE_MISMATCH is verify(lie, played.recording, SEED, policy, simulator, shared).reason
    stolen = verify(claim, played.recording, SEED + 1, policy, simulator, shared)
    assert (VerdictKind.MISMATCH, Reason.DIVERGED, 50) == (
        stolen.kind,
        stolen.reason,
        stolen.first_divergent_tick,
    )
    assert stolen.engine.startswith("wasmtime ")


def test_a_run_leaves_nothing_for_the_next(shared: Sandbox, tmp_path: Path) -> None:
    """Each run has a fresh instance: a module that counts its runs in memory always counts one."""
    counting = broken(
        "(i32.store (i32.const 1032) (i32.add (i32.load (i32.const 1032)) (i32.const 1))) i32.const 1024"
    )
    scores = [
        found.score
        for found in (outcome(shared, tmp_path, counting) for _ in range(3))
        if isinstance(found, Simulation)
    ]
    assert [1, 1, 1] == scores


def test_data_segments_are_loaded(shared: Sandbox, tmp_path: Path) -> None:
    """A module's own data, small or large, is in its memory when it runs."""
    large = "x" * 100_000
    data = f'(data (i32.const 1032) "\\2a") (data (i32.const 16384) "{large}")'
    found = outcome(shared, tmp_path, broken(more=data))
    assert isinstance(found, Simulation)
    assert 42 == found.score


def test_P13_NaN_bits_are_canonical(shared: Sandbox, tmp_path: Path) -> None:
    """P13: arithmetic on a NaN gives the canonical one, so its bits are the same on every machine."""
    leak = broken(
        "(i64.store (i32.const 1032) (i64.reinterpret_f64 "
        "(f64.add (f64.reinterpret_i64 (i64.const 0x7ff4dead0000beef)) (f64.const 1)))) i32.const 1024"
    )
    found = outcome(shared, tmp_path, leak)
    assert isinstance(found, Simulation)
    assert 0x7FF8000000000000 == found.score


def test_the_arcade_game_is_a_usable_module(shared: Sandbox) -> None:
    """The example game keeps to the interface."""
    asked = request(at(ROOT / "examples" / "arcade" / "arcade.wasm"), [0] * 60)
    found = shared.simulate(asked)
    assert isinstance(found, Simulation)
    assert (60, 1, 3) == (found.ticks, len(found.checkpoints), len(found.stats))


# Modules that take too much


def test_P08_infinite_loop_is_inconclusive(shared: Sandbox, tmp_path: Path) -> None:
    """P08: an endless loop ends with its fuel."""
    assert Reason.OUT_OF_FUEL is fault(shared, tmp_path, broken(ENDLESS)).reason


def test_P08_infinite_loop_in_the_start_section(shared: Sandbox, tmp_path: Path) -> None:
    """P08: fuel also bounds what runs while the module is instantiated."""
    wat = broken(more="(func $forever (loop $l br $l)) (start $forever)")
    assert Reason.OUT_OF_FUEL is fault(shared, tmp_path, wat).reason


def test_P09_memory_grow_loop_is_out_of_memory(shared: Sandbox, tmp_path: Path) -> None:
    """P09: a module that grows its memory until it is denied, and crashes over it, is out of memory."""
    grow = "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable"
    found = fault(shared, tmp_path, broken(grow))
    assert Reason.OUT_OF_MEMORY is found.reason
    assert BUDGET.memory_mib * 2**20 == found.detail["memory_bytes"]


def test_P09_denied_growth_alone_is_no_fault(shared: Sandbox, tmp_path: Path) -> None:
    """P09: a game that copes with denied memory is simulated."""
    assert isinstance(
        outcome(shared, tmp_path, broken("(drop (memory.grow (i32.const 60000))) i32.const 1024")), Simulation
    )


def test_P09_initial_memory_over_the_limit_is_out_of_memory(shared: Sandbox, tmp_path: Path) -> None:
    """P09: a module that wants more than its budget from the start is not instantiated."""
    found = fault(shared, tmp_path, broken(memory="1000"))
    assert (Reason.OUT_OF_MEMORY, 1000 * 65536) == (found.reason, found.detail["memory_bytes"])


def test_P09_a_crash_with_little_memory_is_a_crash(shared: Sandbox, tmp_path: Path) -> None:
    """P09: not every trap is blamed on memory."""
    assert Reason.SIMULATOR_TRAPPED is fault(shared, tmp_path, broken("unreachable")).reason
    grown = broken("(drop (memory.grow (i32.const 1))) unreachable")
    assert Reason.SIMULATOR_TRAPPED is fault(shared, tmp_path, grown).reason


def test_P09_table_bombs_are_bounded(shared: Sandbox, tmp_path: Path) -> None:
    """P09: tables cannot be grown, or made, beyond their limit."""
    grow = "(table.grow $t (ref.null func) (i32.const 1000))"
    loop = f"(loop $l (br_if $l (i32.ne {grow} (i32.const -1)))) unreachable"
    table = "(table $t 1 funcref)"
    assert Reason.SIMULATOR_TRAPPED is fault(shared, tmp_path, broken(loop, more=table)).reason
    assert Reason.OUT_OF_MEMORY is fault(shared, tmp_path, broken(more="(table 100000000 funcref)")).reason
    assert Reason.OUT_OF_MEMORY is fault(shared, tmp_path, broken(more="(table 1 funcref)" * 20)).reason


def test_P09_deep_recursion_traps(shared: Sandbox, tmp_path: Path) -> None:
    """P09: endless recursion ends with its stack."""
    recursion = "(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))"
    found = fault(shared, tmp_path, broken("(call $deeper (i32.const 1))", more=recursion))
    assert Reason.SIMULATOR_TRAPPED is found.reason


@linux_only
def test_P09_the_childs_memory_stays_bounded(sandbox: Sandbox, tmp_path: Path) -> None:
    """P09: after every memory bomb the child has never held more than budget and compiler together."""
    touch = "(memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65536)))"
    grow = f"(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) {touch} unreachable"
    fault(sandbox, tmp_path, broken(grow))
    for _ in range(20):
        outcome(sandbox, tmp_path, broken(grow))
    assert resident_peak_bytes(child_of(sandbox)) < 128 * 2**20


def test_P10_memory_fill_loop_is_bounded(shared: Sandbox, tmp_path: Path) -> None:
    """P10: filling memory in a loop is paid for in fuel; the wall limit would stop it if it were not."""
    found = fault(shared, tmp_path, broken(LONG_C_CALL, memory="256"))
    assert found.reason in {Reason.OUT_OF_FUEL, Reason.TIMED_OUT}


def test_P11_the_wall_limit_kills_a_child_inside_a_C_call(sandbox: Sandbox, tmp_path: Path) -> None:
    """P11: a child that hears nothing while it runs is killed from outside, in time, and replaced."""
    assert_serves(sandbox, tmp_path)
    child, used_s = child_of(sandbox), used_by_children_s()
    found = outcome(sandbox, tmp_path, broken(LONG_C_CALL, memory="256"), ALL_FUEL)
    assert SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 300}) == found
    assert used_by_children_s() - used_s < 1.5
    assert wait_until_gone(child)
    assert_serves(sandbox, tmp_path)


def test_P11_the_childs_own_clock_is_a_second_belt(sandbox: Sandbox, tmp_path: Path) -> None:
    """P11: if the parent does not stop it, the processor-time limit does."""
    assert_serves(sandbox, tmp_path)
    child = sandbox._child
    assert child is not None
    module = store(tmp_path, broken(ENDLESS))
    child.ask(
        frames.LOAD,
        frames.pack_load(module.digest, module.path.read_bytes()),
        frames.FAULT_BYTES,
        time.monotonic() + 20,
    )
    order = frames.SimulationOrder(module.digest, 0, 0, 0, 10**13, 2**24, 100, b"")
    child._send(
        frames.HEADER.pack(frames.ORDER, 99, len(frames.pack_order(order))) + frames.pack_order(order),
        time.monotonic() + 20,
    )
    child._process.wait(timeout=60)
    assert SimulatorFault(Reason.TIMED_OUT) == child.cause_of_death()


# Modules that break the interface


@pytest.mark.parametrize(
    "imported",
    [
        '(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))',
        '(import "wasi_snapshot_preview1" "path_open" (func))',
        '(import "env" "now" (func (result i64)))',
        '(import "env" "memory" (memory 1))',
        '(import "env" "t" (table 1 funcref))',
        '(import "env" "g" (global i32))',
    ],
)
def test_P17_a_module_with_imports_is_unusable(shared: Sandbox, tmp_path: Path, imported: str) -> None:
    """P17: WASI or any other import: there is nothing to link it with."""
    wat = broken(imports=imported)
    if "memory" in imported:
        wat = wat.replace('(memory (export "memory") 2)', "")
    expected = SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ModuleRule.NO_IMPORTS})
    assert expected == fault(shared, tmp_path, wat)


@pytest.mark.parametrize(
    ("wat", "rule"),
    [
        (broken(version="i32.const 2"), ModuleRule.VERSION),
        (broken(inputs="i32.const 0"), ModuleRule.INPUT_ROOM),
        (broken(inputs="i32.const 4100"), ModuleRule.INPUT_ROOM),
        (broken(inputs="i32.const 131064"), ModuleRule.INPUT_ROOM),
        (broken(inputs="i32.const -8"), ModuleRule.INPUT_ROOM),
        (broken("i32.const 0"), ModuleRule.RESULT_ADDRESS),
        (broken("i32.const 1028"), ModuleRule.RESULT_ADDRESS),
        (broken("i32.const -8"), ModuleRule.RESULT_ADDRESS),
        (broken("i32.const 131056"), ModuleRule.RESULT_ADDRESS),
        (broken("(i32.store (i32.const 131064) (i32.const 1)) i32.const 131040"), ModuleRule.RESULT_ADDRESS),
        (broken("(i32.store (i32.const 1024) (i32.const 212)) i32.const 1024"), ModuleRule.RESULT_CONTENT),
        (broken("(i32.store (i32.const 1024) (i32.const 100)) i32.const 1024"), ModuleRule.RESULT_CONTENT),
        (
            broken(
                "(i32.store8 (i32.const 1024) (i32.const 250))"
                "(i32.store8 (i32.const 1052) (i32.const 5)) i32.const 1024"
            ),
            ModuleRule.RESULT_CONTENT,
        ),
        (broken("(i32.store (i32.const 1028) (i32.const 2)) i32.const 1024"), ModuleRule.RESULT_CONTENT),
        (broken("(i32.store (i32.const 1048) (i32.const -1)) i32.const 1024"), ModuleRule.RESULT_CONTENT),
        (broken("(i32.store (i32.const 1052) (i32.const 1)) i32.const 1024"), ModuleRule.RESULT_CONTENT),
        (broken().replace('(export "tick")', ""), ModuleRule.EXPORTS),
        (broken().replace('(export "memory")', ""), ModuleRule.EXPORTS),
        (broken().replace("(param i64))", "(param i32))"), ModuleRule.EXPORTS),
        (broken(memory="1 2 shared"), ModuleRule.VALID_WASM),
        (broken(memory="i64 1"), ModuleRule.VALID_WASM),
        (broken(more="(memory 1)"), ModuleRule.VALID_WASM),
    ],
)
def test_each_broken_rule_is_named(shared: Sandbox, tmp_path: Path, wat: str, rule: ModuleRule) -> None:
    """A module that breaks the interface is unusable; no address is followed outside its memory."""
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": rule}) == fault(shared, tmp_path, wat)


@pytest.mark.parametrize(
    "module", [b"", b"not wasm", b"\0asm\x01\0\0\0", b"\0asm\x01\0\0\0\x01\xff\xff\xff\xff\x0f"]
)
def test_a_file_that_is_no_module_is_unusable(shared: Sandbox, tmp_path: Path, module: bytes) -> None:
    """Bytes that are not a valid module, or an empty one, are unusable."""
    found = shared.simulate(request(store_bytes(tmp_path, module)))
    assert isinstance(found, SimulatorFault)
    assert Reason.SIMULATOR_UNUSABLE is found.reason


def test_a_module_that_is_gone_is_missing(shared: Sandbox, tmp_path: Path) -> None:
    """No file, no simulation."""
    found = shared.simulate(request(Module(tmp_path / "gone.wasm", "sha256:" + "0" * 64)))
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == found


def test_P19_a_changed_module_is_not_run(sandbox: Sandbox, tmp_path: Path) -> None:
    """P19: a file whose bytes have another digest than the policy's is not the policy's simulator."""
    module = store(tmp_path, GAME)
    module.path.write_bytes(store(tmp_path, broken()).path.read_bytes())
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == sandbox.simulate(request(module))


@linux_only
def test_P19_compiled_modules_are_kept_in_memory_only(sandbox: Sandbox, tmp_path: Path) -> None:
    """P19: there is no file of compiled code that could be changed, and none that the child keeps open."""
    before = set(tmp_path.iterdir())
    assert_serves(sandbox, tmp_path)
    assert {store(tmp_path, GAME).path} == set(tmp_path.iterdir()) - before
    if is_root():  # nobody else may look into a process that has given up its rights
        descriptors = Path(f"/proc/{child_of(sandbox)}/fd")
        assert {"pipe"} == {str(link.readlink()).partition(":")[0] for link in descriptors.iterdir()}


def test_a_loaded_module_is_compiled_once(sandbox: Sandbox, tmp_path: Path) -> None:
    """The child keeps a module, so its file is not needed again."""
    module = store(tmp_path, GAME)
    sandbox.simulate(request(module))
    module.path.unlink()
    assert isinstance(sandbox.simulate(request(module)), Simulation)


def test_P18_a_child_takes_a_bounded_number_of_modules(sandbox: Sandbox, tmp_path: Path) -> None:
    """P18: a child that has compiled many modules is replaced by a fresh one."""
    children = []
    for index in range(MODULES_AT_ONCE + 2):
        assert isinstance(
            outcome(sandbox, tmp_path, broken(f"(drop (i32.const {index})) i32.const 1024")), Simulation
        )
        children.append(child_of(sandbox))
    assert [MODULES_AT_ONCE, 2] == [children.count(each) for each in dict.fromkeys(children)]
    assert [child_of(sandbox)] == [each for each in dict.fromkeys(children) if is_alive(each)]


@linux_only
def test_a_forked_copy_does_not_share_the_sandbox(sandbox: Sandbox, tmp_path: Path) -> None:
    """Two processes on one pipe would read each other's verdicts, so a forked copy starts its own child."""
    module = store(tmp_path, GAME)
    assert isinstance(sandbox.simulate(request(module)), Simulation)
    mine = child_of(sandbox)
    pid = os.fork()
    if pid == 0:
        is_another = isinstance(sandbox.simulate(request(module)), Simulation) and child_of(sandbox) != mine
        sandbox.close()
        os._exit(0 if is_another else 1)
    assert 0 == os.waitpid(pid, 0)[1]
    assert isinstance(sandbox.simulate(request(module)), Simulation)
    assert mine == child_of(sandbox)


def compile_bomb(locals_: int, blocks: int) -> str:
    """A module with a function whose every block may change one of many variables, which compilers hate."""
    body = "".join(
        f"(if (local.get {1 + 7 * block % locals_})"
        f" (then (local.set {1 + 13 * block % locals_} (i32.const {block}))))"
        for block in range(blocks)
    )
    return broken(more=f"(func (param i32) (result i32) (local {'i32 ' * locals_}) {body} local.get 1)")


def test_P18_a_compile_bomb_is_killed_and_the_gateway_unaffected(tmp_path: Path) -> None:
    """P18: a function that takes a second to compile costs the limit for compiling and no more."""
    module = store(tmp_path, compile_bomb(500, 5_000))
    with Sandbox() as sandbox:
        assert_serves(sandbox, tmp_path)
        sandbox._load_wall_ms, used_s = 200, used_by_children_s()
        assert SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 200}) == sandbox.simulate(request(module))
        assert used_by_children_s() - used_s < 1.0
        sandbox._load_wall_ms = 30_000
        assert_serves(sandbox, tmp_path)


@linux_only
def test_P18_a_compile_bomb_that_eats_memory_is_out_of_memory(sandbox: Sandbox, tmp_path: Path) -> None:
    """P18: a small module that needs gigabytes to compile ends the child, not the machine."""
    assert Reason.OUT_OF_MEMORY is fault(sandbox, tmp_path, compile_bomb(20_000, 4_000)).reason


def test_a_child_without_memory_is_out_of_memory(tmp_path: Path) -> None:
    """A child that Python's own MemoryError ends is reported as such."""
    with Sandbox(command=_with_child("data = bytearray(2**31)")) as sandbox:
        assert SimulatorFault(Reason.OUT_OF_MEMORY) == outcome(sandbox, tmp_path, GAME)


# A child that is killed, or is not what it should be


def test_a_child_killed_between_runs_is_replaced(sandbox: Sandbox, tmp_path: Path) -> None:
    """Nobody notices a child that died while it was idle."""
    assert_serves(sandbox, tmp_path)
    child = child_of(sandbox)
    os.kill(child, signal.SIGKILL)
    assert wait_until_gone(child)
    assert_serves(sandbox, tmp_path)


def test_a_child_killed_during_a_run_is_a_fault(sandbox: Sandbox, tmp_path: Path) -> None:
    """A run whose child is killed is inconclusive; the next one has a new child."""
    assert_serves(sandbox, tmp_path)
    child = child_of(sandbox)
    before_s = has_used_s(child)

    def kill_while_it_runs() -> None:
        while has_used_s(child) < before_s + 0.2:
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)

    threading.Thread(target=kill_while_it_runs).start()
    budget = Budget(fuel=10**13, memory_mib=16, wall_ms=60_000)
    assert SimulatorFault(Reason.SIMULATOR_TRAPPED, {"signal": 9}) == outcome(
        sandbox, tmp_path, broken(ENDLESS), budget
    )
    assert_serves(sandbox, tmp_path)


def test_closing_ends_the_child(tmp_path: Path) -> None:
    """A closed sandbox leaves no process behind."""
    with Sandbox() as sandbox:
        assert_serves(sandbox, tmp_path)
        child = child_of(sandbox)
    assert wait_until_gone(child)


def _with_child(body: str) -> tuple[str, ...]:
    """The command of a child that runs `body` instead of answering its first question."""
    program = f"""
import os, struct, sys, time
sys.path.insert(0, {str(ROOT)!r})
from replay.simulators import frames
from replay.confined.confinement import confine
confine({os.getpid()})
os.write(1, frames.HELLO)
kind, sequence, length = frames.HEADER.unpack(os.read(0, frames.HEADER.size))
def answer(kind, sequence, payload, length=None):
    os.write(1, frames.HEADER.pack(kind, sequence, len(payload) if length is None else length) + payload)
{textwrap.dedent(body)}
time.sleep(60)
"""
    return (sys.executable, "-I", "-c", program)


@pytest.mark.parametrize(
    "body",
    [
        "os.write(1, b'What is it you want?' * 50)",
        "answer(frames.LOADED, sequence + 1, b'')",
        "answer(frames.LOADED, sequence, b'extra')",
        "answer(frames.SIMULATION, sequence, b'')",
        "answer(99, sequence, b'')",
        "answer(frames.FAULT, sequence, b'short')",
        "answer(frames.FAULT, sequence, b'\\xff' * frames.FAULT_BYTES)",
        "answer(frames.FAULT, sequence, b'', 2**32 - 1)",
        "os.close(1)",
    ],
)
def test_a_child_that_answers_garbage_is_killed(tmp_path: Path, body: str) -> None:
    """What is no answer to the question makes the simulator unusable; the child is not asked again."""
    with Sandbox(command=_with_child(body)) as sandbox:
        assert SimulatorFault(Reason.SIMULATOR_UNUSABLE) == outcome(sandbox, tmp_path, GAME)
        assert sandbox._child is None


@pytest.mark.parametrize(
    "payload", ["b''", "b'\\xff' * 40", "b'\\x00' * 41", "b'\\x00' * 36 + b'\\xff' * 20"]
)
def test_a_simulation_of_the_wrong_size_is_garbage(tmp_path: Path, payload: str) -> None:
    """An announced number of statistics or checkpoints that the answer does not hold is not believed."""
    body = f"""
    os.read(0, length)
    answer(frames.LOADED, sequence, b'')
    kind, sequence, length = frames.HEADER.unpack(os.read(0, frames.HEADER.size))
    answer(frames.SIMULATION, sequence, {payload})
    """
    with Sandbox(command=_with_child(body)) as sandbox:
        assert SimulatorFault(Reason.SIMULATOR_UNUSABLE) == outcome(sandbox, tmp_path, GAME)


def test_an_answer_nobody_asked_for_is_never_taken_for_the_next(tmp_path: Path) -> None:
    """A child that goes on talking after its answer is replaced before the next question."""
    body = """
    answer(frames.FAULT, sequence, frames._FAULT.pack(3, -1, -1, -1, -1))
    time.sleep(0.2)
    os.write(1, b'more')
    time.sleep(600)
    """
    with Sandbox(command=_with_child(body)) as sandbox:
        outcome(sandbox, tmp_path, GAME)
        first, child = child_of(sandbox), sandbox._child
        assert child is not None
        assert select.select([child._stdout], [], [], 20)[0]
        outcome(sandbox, tmp_path, GAME)
        assert first != child_of(sandbox)
        assert wait_until_gone(first)


def test_a_silent_child_is_late(tmp_path: Path) -> None:
    """A child that says nothing is stopped at the limit."""
    with Sandbox(command=_with_child("pass"), load_wall_ms=200) as sandbox:
        assert SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 200}) == outcome(sandbox, tmp_path, GAME)


def test_P11_a_child_that_does_not_listen_is_late(tmp_path: Path) -> None:
    """P11: one that reads no further holds up a question larger than its pipe, and is stopped at the limit too."""
    large = broken(more=f'(data (i32.const 16384) "{"x" * 100_000}")')
    with Sandbox(command=_with_child("pass"), load_wall_ms=200) as sandbox:
        assert SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 200}) == outcome(sandbox, tmp_path, large)


@pytest.mark.parametrize("program", ["pass", "import sys; sys.exit('no wasmtime here')", "print('hello')"])
def test_a_child_that_cannot_start_is_our_trouble(tmp_path: Path, program: str) -> None:
    """Without a child there is no verdict at all, and the error says what the child said."""
    with (
        Sandbox(command=(sys.executable, "-c", program)) as sandbox,
        pytest.raises(SandboxUnavailable) as raised,
    ):
        outcome(sandbox, tmp_path, GAME)
    assert ("no wasmtime here" in program) == ("no wasmtime here" in str(raised.value))


def test_a_program_that_does_not_exist_is_our_trouble(tmp_path: Path) -> None:
    """A child that cannot even be executed is reported in the same way."""
    with Sandbox(command=("/nowhere/python",)) as sandbox, pytest.raises(SandboxUnavailable, match="nowhere"):
        outcome(sandbox, tmp_path, GAME)


@linux_only
@pytest.mark.parametrize("busy", [False, True])
def test_a_killed_parent_leaves_no_child(tmp_path: Path, busy: bool) -> None:
    """When the worker is killed, its child ends with it, idle or in the middle of a run."""
    module = store(tmp_path, broken(ENDLESS) if busy else broken())
    program = f"""
import sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from policies.replaying import Budget
from replay.simulators import SimulationRequest
from replay.simulators.sandbox import Sandbox
sandbox = Sandbox()
budget = Budget(fuel=10**13, wall_ms=60000)
asked = SimulationRequest(Path({str(module.path)!r}), {module.digest!r}, 1, b"", 0, 0, budget)
def tell():
    while not (sandbox._child and sandbox._child.loaded):
        time.sleep(0.01)
    print(sandbox._child._process.pid, flush=True)
telling = threading.Thread(target=tell)
telling.start()
sandbox.simulate(asked)
telling.join()
print("idle", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if not busy:
            assert b"idle\n" == parent.stdout.readline()
        assert is_alive(child)
        parent.kill()
    assert wait_until_gone(child)


@linux_only
def test_a_forked_copy_does_not_share_the_child(sandbox: Sandbox, tmp_path: Path) -> None:
    """Two processes on one pipe would read each other's verdicts, so a forked copy starts its own child."""
    assert_serves(sandbox, tmp_path)
    child = child_of(sandbox)
    pid = os.fork()
    if pid == 0:
        assert_serves(sandbox, tmp_path)
        other = child_of(sandbox)
        sandbox.close()
        os._exit(0 if other != child else 1)
    assert 0 == os.waitpid(pid, 0)[1]
    assert_serves(sandbox, tmp_path)
    assert child == child_of(sandbox)


# What the child may do


@linux_only
def test_P17_the_child_has_an_empty_environment_and_low_limits(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P17: no secret reaches the child by inheritance, and it can neither write files nor gain rights."""
    monkeypatch.setenv("SCOREGATE_MASTER_KEY", "secret")
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        assert_serves(sandbox, tmp_path)
    process = Path(f"/proc/{child_of(sandbox)}")
    limits = (process / "limits").read_text()
    assert "NoNewPrivs:\t1" in (process / "status").read_text()
    if is_root():  # nobody else may look into a process that has given up its rights
        assert b"" == (process / "environ").read_bytes()
        assert Path("/") == (process / "cwd").readlink()
        assert 3 == len(list((process / "fd").iterdir()))
    else:
        with pytest.raises(PermissionError):
            (process / "environ").read_bytes()
    memory = str(COMPILE_BYTES + BUDGET.memory_mib * 2**20)
    expected = {"Max file size": "0", "Max core file size": "0", "Max processes": "0", "Max open files": "16"}
    for name, limit in (expected | {"Max data size": memory}).items():
        line = next(line for line in limits.splitlines() if line.startswith(name))
        assert limit == line.removeprefix(name).split()[0]


@linux_only
def test_the_child_knows_nothing_of_the_gateway() -> None:
    """The child's program imports neither the gateway nor anything that talks to a network."""
    program = "import sys, replay.simulators.child; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {name.partition(".")[0] for name in found.stdout.split()}
    assert not names & {
        "gateway",
        "validators",
        "pydantic",
        "redis",
        "rq",
        "socket",
        "asyncio",
        "ssl",
        "sqlite3",
    }


def _confined(statement: str) -> str:
    """What a confined process prints after the statement: `denied`, or `allowed`."""
    program = f"""
import os, socket, sys
sys.path.insert(0, {str(ROOT)!r})
from replay.confined.confinement import confine
confine({os.getpid()})
try:
    {statement}
    print("allowed")
except OSError:
    print("denied")
"""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    ).stdout.strip()


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    "statement", ["open('/etc/passwd')", "os.listdir('/')", "os.execv('/bin/true', ['true'])"]
)
def test_P17_a_confined_process_reads_no_file(statement: str) -> None:
    """P17: even native code inside the child could not open the key file or start a program."""
    assert "denied" == _confined(statement)


@pytest.mark.skipif(not has_namespaces(), reason="this system grants no network namespace")
def test_P17_a_confined_process_has_no_network() -> None:
    """P17: even native code inside the child could reach no server, not on this machine either."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        assert "denied" == _confined(f"socket.socket().connect({address!r})")
        assert "denied" == _confined(f"socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', {address!r})")


@linux_only
def test_a_child_whose_parent_is_gone_does_not_start() -> None:
    """A parent that died before the child could ask to be told of it is noticed."""
    program = "from replay.confined.confinement import confine; confine(1234567); print('still here')"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "" == found.stdout
