"""The limits that the reference promises, as the kernel has them for simulators of each kind.

A limit that is not there is noticed by nobody until a program uses the whole machine, so each is read back.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.replaying import Budget
from policies.vocabulary import Reason, SimulatorKind
from replay.confined.confinement import (
    ADDRESS_BYTES,
    COMPILE_BYTES,
    MEMORY_BYTES_LIMIT,
    NOBODY,
    PROGRAM_ADDRESS_BYTES,
    READ,
)
from replay.confined.launch import DEVICES, SCRATCH, _allowed
from replay.confined.plugin_child import INTERPRETER_BYTES
from replay.simulators import Simulation, SimulationRequest, SimulatorFault, bubblewrap
from replay.simulators.plugin import PluginSimulators
from replay.simulators.process import PATH, TASKS_ALONE, TASKS_INSIDE, ProcessSimulators
from replay.simulators.sandbox import Sandbox
from tests.replay.games import GAME, store
from tests.support.kernel import has_namespaces, is_root
from tests.support.programs import PLUGIN, need_bubblewrap, need_programs, request, serving, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process")

MIB = 1024 * 1024
BUDGET = Budget(fuel=50_000_000, memory_mib=96, wall_ms=20_000)
UNLIMITED = str(resource.RLIM_INFINITY)


@pytest.fixture
def group() -> Iterator[None]:
    """A group of the worker's, as a service may have one that opens its keys."""
    before = os.getgroups()
    if is_root():
        os.setgroups([*before, 4711])
    yield
    if is_root():
        os.setgroups(before)


def told(programs: ProcessSimulators, directory: Path, expression: str, runs: int = 1) -> object:
    """What a program makes of a Python expression, which it tells by its answer."""
    program = serving(
        directory,
        f"say({{'fault': json.dumps({expression})}})",
        "import resource as kept\nR = kept.getrlimit",
    )
    found = programs.simulate(replace(request(program, budget=BUDGET), runs_per_process=runs))
    assert isinstance(found, SimulatorFault), found
    assert Reason.SIMULATOR_TRAPPED is found.reason, found
    return json.loads(found.said)


def test_P09_a_program_has_every_limit_of_its_page(programs: ProcessSimulators, tmp_path: Path):
    """P09: files, memory, addresses, processor time of all its runs, tasks; no core. None of them can be raised again."""
    expected = {
        "CORE": 0,
        "NOFILE": 256,
        "FSIZE": 64 * MIB,
        "NPROC": TASKS_ALONE if programs._is_alone else TASKS_INSIDE,
        "CPU": 3 * 20,
        "DATA": 96 * MIB,
        "AS": 96 * MIB + PROGRAM_ADDRESS_BYTES,
    }
    found = told(programs, tmp_path, f"[R(getattr(kept, 'RLIMIT_' + each)) for each in {[*expected]}]", 3)
    assert [[limit, limit] for limit in expected.values()] == found
    assert (1024 * MIB, 16) == (PROGRAM_ADDRESS_BYTES, TASKS_INSIDE)


def test_P17_a_program_finds_the_variables_and_the_room_of_its_page(
    programs: ProcessSimulators, tmp_path: Path
):
    """P17: the documented path and language, and one folder to write in, empty at the start, where nobody else may look."""
    names = "{**os.environ, 'HOME': os.environ['HOME'] == os.environ['TMPDIR']}"
    expression = f"[{names}[each] for each in ('PATH', 'LANG', 'HOME')] + [os.listdir(os.environ['HOME'])]"
    assert [PATH, "C.UTF-8", True, []] == told(programs, tmp_path, expression)
    assert "/usr/local/bin:/usr/bin:/bin:/usr/games" == PATH
    if programs._is_alone:  # in bubblewrap it is the sandbox's own
        assert 0o700 == told(programs, tmp_path, "os.stat(os.environ['HOME']).st_mode & 0o777")


def test_P17_a_program_alone_may_write_to_its_room_and_to_devices(tmp_path: Path):
    """P17: whatever the modes of files are: a worker that is not root runs programs as its own user."""
    written = {path for path, rights in _allowed(str(tmp_path)).items() if rights & ~READ}
    assert {str(tmp_path / SCRATCH), *DEVICES} == written


@pytest.mark.usefixtures("group")
def test_P17_a_program_is_nobody(programs: ProcessSimulators, tmp_path: Path):
    """P17: neither user nor group nor further groups of the worker's, where the worker is root."""
    found = told(programs, tmp_path, "[*os.getresuid(), *os.getresgid(), *os.getgroups()]")
    if is_root():
        assert [NOBODY] * 6 == found
    else:
        assert {os.getuid(), os.getgid(), *os.getgroups(), NOBODY} >= set(found)


@pytest.mark.skipif(not has_namespaces(), reason="this system grants no namespaces")
@pytest.mark.parametrize("namespace", ["ipc", "net"])
def test_P17_a_program_shares_no_memory_and_no_network_with_the_machine(
    programs: ProcessSimulators, tmp_path: Path, namespace: str
):
    """P17: what other processes keep under System V's keys, and on the machine's addresses, is not there."""
    path = f"/proc/self/ns/{namespace}"
    assert os.stat(path).st_ino != told(programs, tmp_path, f"os.stat({path!r}).st_ino")  # noqa: PTH116


# Modules and plug-ins


def _module(directory: Path) -> tuple[Sandbox, SimulationRequest, Callable[[Sandbox], int]]:
    module = store(directory, GAME)
    asked = request(Simulator(module.digest, module.path), SimulatorKind.WASM, budget=BUDGET)
    return Sandbox(), asked, lambda sandbox: sandbox._child._process.pid


def _plugin(
    directory: Path,
) -> tuple[PluginSimulators, SimulationRequest, Callable[[PluginSimulators], int]]:
    asked = request(write(directory, PLUGIN, "plugin.py"), SimulatorKind.PLUGIN, budget=BUDGET)
    return PluginSimulators(), asked, lambda found: [*found._children.values()][-1]._process.pid


def _limits(process: int) -> Mapping[str, tuple[str, str]]:
    """Soft and hard limits of a process by the names that Linux gives them."""
    lines = Path(f"/proc/{process}/limits").read_text().splitlines()[1:]
    return {line[:25].strip(): tuple(line[25:].replace("unlimited", UNLIMITED).split()[:2]) for line in lines}


def _status(process: int) -> Mapping[str, list[str]]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize(("opened", "room"), [(_module, COMPILE_BYTES), (_plugin, INTERPRETER_BYTES)])
def test_P09_modules_and_plugins_have_every_limit(tmp_path: Path, opened: Callable, room: int):
    """P09: those of the process for good; memory and time as each run's budget has them, more or less than before."""
    simulators, asked, child_of = opened(tmp_path)
    least, more = BUDGET.model_copy(update={"memory_mib": 32, "wall_ms": 5_000}), BUDGET
    with simulators:
        for budget in (BUDGET, least, more):
            assert isinstance(simulators.simulate(replace(asked, budget=budget)), Simulation)
            found = _limits(child_of(simulators))
            for name, limit in {
                "Max core file size": 0,
                "Max file size": 0,
                "Max processes": 0,
                "Max open files": 16,
                "Max address space": ADDRESS_BYTES,
            }.items():
                assert (str(limit), str(limit)) == found[name], name
            soft, hard = str(room + budget.memory_mib * MIB), str(COMPILE_BYTES + MEMORY_BYTES_LIMIT)
            assert (soft, hard) == found["Max data size"]
            # One more than a run may take, beyond what the process has used: that is some of a second by now.
            assert str(budget.wall_ms // 1000 + 2) == found["Max cpu time"][0]


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("opened", [_module, _plugin])
def test_P17_modules_and_plugins_are_nobody_in_a_session_of_their_own(tmp_path: Path, opened: Callable):
    """P17: no rights of root's, no groups, no new ones to be had by a program that would give them, no terminal."""
    simulators, asked, child_of = opened(tmp_path)
    with simulators:
        simulators.simulate(asked)
        child = child_of(simulators)
        status = _status(child)
        assert child == os.getsid(child)
    assert (["0" * 16], ["1"]) == (status["CapEff"], status["NoNewPrivs"])
    if is_root():
        assert ([str(NOBODY)] * 4, [str(NOBODY)] * 4, []) == (status["Uid"], status["Gid"], status["Groups"])


CONFINED = """
import os
from replay.confined import confinement
if os.geteuid() == 0:
    confinement.become_nobody()
with open("/proc/self/status") as status:
    status.read()
    confinement.confine(os.getppid())
    status.seek(0)
    print(status.read())
"""


@pytest.mark.skipif(not has_namespaces(), reason="this system grants no namespaces")
def test_P17_a_worker_that_is_not_root_gains_nothing_by_the_namespace_it_makes():
    """P17: who makes one is its root, with every right over what the kernel keeps in it, until they are given up."""
    done = subprocess.run([sys.executable, "-c", CONFINED], capture_output=True, text=True, check=True)
    status = dict(line.split(":\t") for line in done.stdout.splitlines() if line.startswith("Cap"))
    assert {"0" * 16} == {status[each] for each in ("CapInh", "CapPrm", "CapEff", "CapAmb")}


@pytest.mark.skipif(not has_namespaces(), reason="this system grants no namespaces")
def test_P17_a_plugin_shares_no_memory_and_no_network_with_the_machine(tmp_path: Path):
    """P17: what other processes keep under System V's keys, and on the machine's addresses, is not there."""
    own = [os.stat(f"/proc/self/ns/{each}").st_ino for each in ("ipc", "net")]  # noqa: PTH116
    looks = "import os\ndef simulate(**asked):\n    raise ValueError(*[os.stat(f'/proc/self/ns/{n}').st_ino for n in ('ipc', 'net')])\n"
    with PluginSimulators() as plugins:
        found = plugins.simulate(request(write(tmp_path, looks, "plugin.py"), SimulatorKind.PLUGIN))
    assert isinstance(found, SimulatorFault)
    other = [int(each) for each in found.said.removeprefix("ValueError: ").strip("()").split(", ")]
    assert not set(own) & set(other)


def test_P09_a_plugin_has_the_memory_of_its_budget_while_it_is_loaded(tmp_path: Path):
    """P09: what it takes before its first run is no less limited than what it takes in one."""
    first = "import string\nif not hasattr(string, 'is_loaded'):\n    string.is_loaded = len(bytearray(600 * 2**20))\n"
    greedy = write(tmp_path, first + PLUGIN, "plugin.py")
    with PluginSimulators() as plugins:
        found = plugins.simulate(request(greedy, SimulatorKind.PLUGIN, budget=BUDGET))
    assert isinstance(found, SimulatorFault)
    assert Reason.OUT_OF_MEMORY is found.reason


def test_P08_a_warm_plugin_has_the_processor_time_of_each_run_anew(tmp_path: Path):
    """P08: what its earlier runs used is not taken off that of later ones: honest runs would be ended by it."""
    busy = "import time\nwhile time.process_time() < 1: pass\n"
    asked = request(write(tmp_path, busy + PLUGIN, "plugin.py"), SimulatorKind.PLUGIN, budget=BUDGET)
    with PluginSimulators() as plugins:
        assert isinstance(plugins.simulate(asked), Simulation)
        [child] = plugins._children.values()
        assert str(BUDGET.wall_ms // 1000 + 3) == _limits(child._process.pid)["Max cpu time"][0]


# The worker's side


def test_P17_nothing_stays_open_in_the_worker(programs: ProcessSimulators, tmp_path: Path):
    """P17: neither pipes of a child that ended, nor what was handed to a program that has begun."""
    asked = request(serving(tmp_path, "sys.exit(1)"))
    programs.simulate(asked)
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(2):
        assert isinstance(programs.simulate(asked), SimulatorFault)
    assert len(before) == len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_P09_the_rooms_of_a_program_in_bubblewrap_are_bounded(tmp_path: Path):
    """P09: its two folders in memory have the sizes that they are said to have, and what it finds cannot be changed."""
    need_programs()
    need_bubblewrap()
    sizes = (
        "[(lambda found: found.f_frsize * found.f_blocks)(os.statvfs(each)) for each in ('/tmp', '/dev/shm')]"
    )
    with ProcessSimulators(start_wall_ms=20_000) as programs:
        found = told(programs, tmp_path, f"[os.getcwd(), {sizes}]")
        assert ["/tmp", [bubblewrap.SCRATCH_BYTES, bubblewrap.SHARED_MEMORY_BYTES]] == found
    assert (64 * MIB, 16 * MIB) == (bubblewrap.SCRATCH_BYTES, bubblewrap.SHARED_MEMORY_BYTES)
