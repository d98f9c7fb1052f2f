"""The processes of simulators: none is left behind by whatever goes wrong, and none has more time than its budget."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.replaying import Budget
from policies.trees import TreeRefused
from policies.vocabulary import Reason, SimulatorKind
from replay.simulators import Simulation, SimulatorFault
from replay.simulators.all_simulators import AllSimulators
from replay.simulators.child_process import ChildProcess, SandboxUnavailable
from replay.simulators.folder_copies import FolderCopies
from replay.simulators.plugin import PluginSimulators
from replay.simulators.process import ProcessSimulators
from replay.simulators.sandbox import MODULE_BYTES_LIMIT, Sandbox
from replay.simulators.wasm import TABLE_ELEMENTS, TABLES
from tests.replay.games import GAME, Module, broken, store
from tests.support.programs import HURRIED, PLUGIN, need_programs, request, serving, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of processes")


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(path.parent.name))
    return found


@pytest.fixture
def none_is_left() -> Iterator[None]:
    before = children()
    yield
    assert before == children()


def sleeping(folder: Path) -> Path:
    """A program that neither says nor hears anything."""
    path = folder / "sleeping"
    path.write_text("#!/bin/sh\nexec sleep 600\n")
    path.chmod(0o755)
    return path


def module_request(module: Module, memory_mib: int = 16):
    budget = Budget(fuel=50_000_000, memory_mib=memory_mib, wall_ms=20_000)
    return request(Simulator(module.digest, module.path), SimulatorKind.WASM, budget=budget)


@pytest.mark.usefixtures("none_is_left")
@pytest.mark.parametrize("words", ["", "print('hello?', flush=True)"])
def test_P11_a_child_that_does_not_begin_as_it_should_is_ended(tmp_path: Path, words: str):
    """P11: whether it says nothing or something else, nobody waits for it, and it does not stay."""
    command = (sys.executable, "-c", f"{words}\nimport time\ntime.sleep(600)")
    module = store(tmp_path, GAME)
    sandbox = Sandbox(command=command, start_wall_ms=300)
    for _ in range(2):
        with pytest.raises(SandboxUnavailable):
            sandbox.simulate(module_request(module))
    sandbox.close()


@pytest.mark.usefixtures("none_is_left")
def test_P11_a_plugins_process_that_does_not_begin_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """P11: the same of what is to run plug-ins."""
    monkeypatch.setattr(sys, "executable", str(sleeping(tmp_path)))
    plugins = PluginSimulators(start_wall_ms=300)
    with pytest.raises(SandboxUnavailable):
        plugins.simulate(request(write(tmp_path, PLUGIN, "plugin.py"), SimulatorKind.PLUGIN))


@pytest.mark.usefixtures("none_is_left")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError\n", Reason.SIMULATOR_TRAPPED),
        ("while True: pass\n", Reason.TIMED_OUT),
    ],
    ids=["fails", "never ends"],
)
def test_P11_a_plugin_that_cannot_be_loaded_leaves_no_process(tmp_path: Path, text: str, reason: Reason):
    """P11: its child has no more to do, and would have what memory it took."""
    plugins = PluginSimulators()
    found = plugins.simulate(
        request(write(tmp_path, text, "plugin.py"), SimulatorKind.PLUGIN, budget=HURRIED)
    )
    assert isinstance(found, SimulatorFault)
    assert reason is found.reason


def _program(folder: Path, body: str) -> tuple[ProcessSimulators, Simulator, SimulatorKind]:
    need_programs()
    unhurried = ProcessSimulators(start_wall_ms=3_600_000, is_alone=True)
    return unhurried, serving(folder, body), SimulatorKind.PROCESS


def _plugin(folder: Path, body: str) -> tuple[PluginSimulators, Simulator, SimulatorKind]:
    text = PLUGIN.replace("    return play(", textwrap.indent(body, "    ") + "    return play(")
    return PluginSimulators(start_wall_ms=3_600_000), write(folder, text, "plugin.py"), SimulatorKind.PLUGIN


ONCE_SAID = "seen = globals().get('seen', 0) + 1\nif seen == 1: say(honest(asked)); continue\n"
ONCE = """\
import decimal; decimal.seen = getattr(decimal, "seen", 0) + 1
while decimal.seen > 1: pass
"""


@pytest.mark.usefixtures("none_is_left")
@pytest.mark.parametrize(
    ("opened", "body"),
    [(_program, ONCE + "say(honest(asked))"), (_plugin, ONCE)],
    ids=["program", "plugin"],
)
def test_P11_only_the_first_run_has_time_to_start(tmp_path: Path, opened: Callable, body: str):
    """P11: a warm process that does not answer is ended at its budget, however long it might take to start."""
    simulators, simulator, kind = opened(tmp_path, body)
    asked = request(simulator, kind, budget=Budget(memory_mib=64, wall_ms=600))
    with simulators:
        assert isinstance(simulators.simulate(asked), Simulation)
        assert SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 600}) == simulators.simulate(asked)


@pytest.mark.usefixtures("none_is_left")
def test_P11_a_process_that_goes_on_complaining_is_late_all_the_same(tmp_path: Path):
    """P11: whatever it says beside its answer, it has its budget and no more."""
    body = "while True: sys.stderr.write('x'); sys.stderr.flush(); time.sleep(0.01)"
    simulators, simulator, kind = _program(tmp_path, f"{ONCE_SAID}{body}")
    asked = request(simulator, kind, budget=Budget(memory_mib=64, wall_ms=600))
    with simulators:
        assert isinstance(simulators.simulate(asked), Simulation)
        found = simulators.simulate(asked)
    assert isinstance(found, SimulatorFault)
    assert (Reason.TIMED_OUT, {"wall_ms": 600}) == (found.reason, found.detail)


@pytest.mark.usefixtures("none_is_left")
def test_P11_the_simulators_of_a_worker_end_with_it(tmp_path: Path):
    """P11: those of every kind, warm as they are."""
    module, programs = store(tmp_path, GAME), serving(tmp_path)
    with AllSimulators() as simulators:
        plugin = write(tmp_path, PLUGIN, "plugin.py")
        asked = [module_request(module), request(plugin, SimulatorKind.PLUGIN), request(programs)]
        assert all(isinstance(simulators.simulate(each), Simulation) for each in asked)
        assert len(children()) >= len(asked)


@pytest.mark.usefixtures("none_is_left")
def test_P18_what_could_not_be_copied_for_a_program_is_not_kept(tmp_path: Path):
    """P18: a folder that is refused half-way leaves nothing of its copy; the next start tries again."""
    folder = tmp_path / "levels"
    folder.mkdir()
    (folder / "first").write_text("1")
    (folder / "leads out").symlink_to("/etc/passwd")
    copies = FolderCopies()
    for _ in range(2):
        with pytest.raises(TreeRefused), copies.copy_of(folder):
            pass
        assert ["lock"] == [each.name for each in copies.workspace.path.iterdir()]
    copies.close()


# Modules at the very limits


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (f"(table {TABLE_ELEMENTS} funcref)", f"(table {TABLE_ELEMENTS + 1} funcref)"),
        ("(table 1 funcref)" * TABLES, "(table 1 funcref)" * (TABLES + 1)),
    ],
    ids=["elements", "tables"],
)
def test_P09_a_module_has_so_many_tables_and_elements_and_no_more(
    sandbox: Sandbox, tmp_path: Path, most: str, more: str
):
    """P09: the limit itself is had; what is beyond it is not instantiated."""
    assert isinstance(sandbox.simulate(module_request(store(tmp_path, broken(more=most)))), Simulation)
    found = sandbox.simulate(module_request(store(tmp_path, broken(more=more))))
    assert isinstance(found, SimulatorFault)
    assert Reason.OUT_OF_MEMORY is found.reason


def test_P09_a_module_has_all_of_the_memory_of_its_budget(sandbox: Sandbox, tmp_path: Path):
    """P09: one that begins with it runs; one that begins with a page more does not, and is told how much it wants."""
    assert isinstance(
        sandbox.simulate(module_request(store(tmp_path, broken(memory="32")), memory_mib=2)), Simulation
    )
    found = sandbox.simulate(module_request(store(tmp_path, broken(memory="33")), memory_mib=2))
    assert SimulatorFault(Reason.OUT_OF_MEMORY, {"memory_bytes": 33 * 65_536}) == found


def test_a_crash_is_told_with_what_it_had_used(sandbox: Sandbox, tmp_path: Path):
    """Fuel and memory, and which trap it was: what a developer needs to find it."""
    found = sandbox.simulate(module_request(store(tmp_path, broken("unreachable", memory="3"))))
    assert isinstance(found, SimulatorFault)
    assert {"fuel", "memory_bytes", "trap"} == found.detail.keys()
    assert 0 < found.detail["fuel"] < 1_000
    assert 3 * 65_536 == found.detail["memory_bytes"]
    looping = sandbox.simulate(module_request(store(tmp_path, broken("(loop $l br $l) i32.const 1024"))))
    assert SimulatorFault(Reason.OUT_OF_FUEL, {"fuel": 50_000_000}) == looping


def test_P18_a_module_file_of_any_size_is_not_taken(sandbox: Sandbox, tmp_path: Path):
    """P18: more than the limit is not read, let alone hashed and compiled. As much as the limit is."""
    large = tmp_path / "large.wasm"
    large.touch()
    unknown = module_request(Module(large, "sha256:" + "0" * 64))
    os.truncate(large, MODULE_BYTES_LIMIT)
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == sandbox.simulate(unknown)  # another's digest
    os.truncate(large, MODULE_BYTES_LIMIT + 1)
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE) == sandbox.simulate(unknown)
    os.truncate(large, 2**40)
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE) == sandbox.simulate(unknown)


@pytest.mark.usefixtures("none_is_left")
@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("kill -XCPU $$", SimulatorFault(Reason.TIMED_OUT)),
        ("exit 152", SimulatorFault(Reason.TIMED_OUT)),
        ("echo MemoryError >&2; exit 1", SimulatorFault(Reason.OUT_OF_MEMORY)),
        ("echo memory allocation of 9 bytes failed >&2; kill -ABRT $$", SimulatorFault(Reason.OUT_OF_MEMORY)),
        ("exit 0", SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 0})),
        ("exit 7", SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 7})),
        ("kill -SEGV $$", SimulatorFault(Reason.SIMULATOR_TRAPPED, {"signal": 11})),
        ("echo why >&2; exit 7", SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 7}, "why")),
        ("exec >&-; sleep 600", SimulatorFault(Reason.SIMULATOR_UNUSABLE)),
    ],
)
def test_how_a_child_ended_is_told(script: str, fault: SimulatorFault):
    """Out of processor time, also by a shell or bubblewrap that tells of it (128 + 24); out of memory; or as it says."""
    child = ChildProcess(["/bin/sh", "-c", script])
    told = child.cause_of_death()
    child.kill()
    assert fault == told
