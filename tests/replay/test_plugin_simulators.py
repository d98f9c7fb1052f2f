"""Real plug-ins in their confined child: a verifier in twenty lines of Python, and what others may try."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.replaying import RecordingKind, Replay
from policies.vocabulary import Claim, Reason, SimulatorKind, VerdictKind
from replay.confined.plugin_child import MODULES
from replay.simulators import Simulation, SimulationOutcome, SimulatorFault
from replay.simulators.child_process import SandboxUnavailable
from replay.simulators.line_child import COMPLAINT_BYTES
from replay.simulators.line_protocol import ProtocolRule
from replay.simulators.plugin import SOURCE_BYTES_LIMIT, PluginSimulators
from replay.verify import verify
from tests.replay.games import STATS, play
from tests.support.programs import BUDGET, HURRIED, PLUGIN, SEED, WORDS, request, wordless, write

PLAY = play(WORDS, SEED, 50)
CLAIM = Claim(PLAY.score, PLAY.ticks, PLAY.stats)
REPLAY = Replay(simulator="plugin", maximum_ticks=1000, checkpoint_ticks=50, stats=STATS, budget=BUDGET)
RAW = REPLAY.model_copy(update={"recording": RecordingKind.RAW})

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(scope="module")
def shared() -> Iterator[PluginSimulators]:
    """Plug-ins whose children are replaced as they fail."""
    with PluginSimulators() as plugins:
        yield plugins


@pytest.fixture
def plugins() -> Iterator[PluginSimulators]:
    """Plug-ins of the test's own."""
    with PluginSimulators() as plugins:
        yield plugins


def plugin(directory: Path, body: str = "", before: str = "") -> Simulator:
    """A plug-in that does `body` in every run before it is honest, and `before` when it is loaded."""
    inside = textwrap.indent(textwrap.dedent(body), "    ")
    text = PLUGIN.replace("    return play(", f"{inside}\n    return play(")
    return write(directory, textwrap.dedent(before) + text, "plugin.py")


def numbered(directory: Path, body: str, before: str = "") -> Simulator:
    """A plug-in whose score is `number`, as `body` sets it."""
    return plugin(
        directory, f"{textwrap.dedent(body)}\nreturn dict(play(seed, inputs, 50), score=number)", before
    )


def outcome(plugins: PluginSimulators, simulator: Simulator, **asked: object) -> SimulationOutcome:
    return plugins.simulate(replace(request(simulator, SimulatorKind.PLUGIN), **asked))


def score_of(plugins: PluginSimulators, simulator: Simulator) -> int:
    found = outcome(plugins, simulator)
    assert isinstance(found, Simulation), found
    return found.score


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
def test_the_simulation_is_the_games(shared: PluginSimulators, tmp_path: Path, seed: int) -> None:
    """Every number of the simulation is what the game gives, for any seed."""
    expected = play(WORDS, seed, 50)
    found = outcome(shared, plugin(tmp_path), seed=seed)
    assert isinstance(found, Simulation), found
    assert (expected.ticks, True, expected.score) == (found.ticks, found.is_over, found.score)
    assert (expected.state_hash, tuple(expected.checkpoints)) == (found.state_hash, found.checkpoints)
    assert tuple(expected.stats[name] for name in STATS) == found.stats


def test_P06_verdicts_of_a_plugin(shared: PluginSimulators, tmp_path: Path) -> None:
    """P06, P01: the true claim is verified, a higher one and one of another seed are not."""
    simulator = plugin(tmp_path)
    lie = Claim(PLAY.score + 1, PLAY.ticks, PLAY.stats)
    honest = verify(CLAIM, PLAY.recording, SEED, REPLAY, simulator, shared)
    assert Reason.VERIFIED is honest.reason
    assert honest.engine.startswith("json-lines 1, cpython 3.")
    assert Reason.SCORE_MISMATCH is verify(lie, PLAY.recording, SEED, REPLAY, simulator, shared).reason
    assert Reason.DIVERGED is verify(CLAIM, PLAY.recording, SEED + 1, REPLAY, simulator, shared).reason


def test_a_verifier_of_raw_recordings(shared: PluginSimulators, tmp_path: Path) -> None:
    """A format of the game's own, read and judged in a few lines."""
    simulator = write(
        tmp_path,
        textwrap.dedent("""
        import struct

        def simulate(seed, inputs, ticks, checkpoint_ticks, recording):
            if inputs is not None or recording[:3] != b"TRY":
                return {"malformed": True}
            moves = struct.unpack("<%dH" % (len(recording[3:]) // 2), recording[3:])
            stats = {"scoring_ticks": sum(move > 9 for move in moves), "largest_word": max(moves)}
            return {"ticks": len(moves), "is_over": True, "score": sum(moves), "stats": stats}
        """),
        "plugin.py",
    )
    claim = Claim(310, 2, {"scoring_ticks": 2, "largest_word": 300})
    assert Reason.VERIFIED is verify(claim, b"TRY\x0a\x00\x2c\x01", 5, RAW, simulator, shared).reason
    other = verify(claim, b"GIF89a", 5, RAW, simulator, shared)
    assert (VerdictKind.MISMATCH, Reason.RECORDING_MALFORMED) == (other.kind, other.reason)


def test_a_run_leaves_nothing_for_the_next(shared: PluginSimulators, tmp_path: Path) -> None:
    """Each run has the plug-in's own names anew."""
    counting = numbered(tmp_path, "runs.append(1)\nnumber = len(runs)", "runs = []")
    assert [1, 1, 1] == [score_of(shared, counting) for _ in range(3)]


def test_P13_hashes_are_the_same_for_ever(tmp_path: Path) -> None:
    """P13: what comes out of a set of strings comes out in one order, in every process."""
    found = set()
    for _ in range(2):
        with PluginSimulators() as fresh:
            found.add(score_of(fresh, numbered(tmp_path, "number = hash('a boss') % 10**9")))
    assert 1 == len(found)


def test_P13_a_plugin_can_be_nondeterministic_and_two_runs_show_it(
    shared: PluginSimulators, tmp_path: Path
) -> None:
    """P13: randomness that is not the run's own makes the same recording give two results."""
    drawing = numbered(tmp_path, "number = random.SystemRandom().randrange(2**48)", "import random")
    assert score_of(shared, drawing) != score_of(shared, drawing)


def test_what_a_plugin_may_import(shared: PluginSimulators, tmp_path: Path) -> None:
    """The listed modules are there; others cannot be read any more."""
    listed = "\n".join(f"import {name}" for name in MODULES)
    assert 1 == score_of(shared, numbered(tmp_path, "number = 1", listed))


# What goes wrong


def test_P08_an_endless_plugin_is_late(shared: PluginSimulators, tmp_path: Path) -> None:
    """P08, P11: in a run or while it is loaded, it is killed at the limit."""
    late = SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 300})
    assert late == outcome(shared, plugin(tmp_path, "while True: pass"), budget=HURRIED)
    assert late == outcome(shared, plugin(tmp_path, before="while True: pass\n"), budget=HURRIED)
    assert PLAY.score == score_of(shared, plugin(tmp_path))


@linux_only
def test_P09_a_memory_bomb_is_out_of_memory(shared: PluginSimulators, tmp_path: Path) -> None:
    """P09: the plug-in has its budget and no more, even if it catches the error."""
    assert SimulatorFault(Reason.OUT_OF_MEMORY) == wordless(
        outcome(shared, plugin(tmp_path, "data = bytearray(2**28)"))
    )
    kept = "data = []\ntry:\n    while True: data.append(bytearray(2**20))\nexcept MemoryError: number = len(data)"
    assert score_of(shared, numbered(tmp_path, kept)) < 2 * BUDGET.memory_mib


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "raise ValueError('no such level')",
            SimulatorFault(Reason.SIMULATOR_TRAPPED, said="ValueError: no such level"),
        ),
        ("def deeper(): deeper()\ndeeper()", None),
        ("return object()", None),
        ("raise SystemExit(7)", SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 7})),
        ("import os; os.kill(os.getpid(), 9)", SimulatorFault(Reason.SIMULATOR_TRAPPED, {"signal": 9})),
        ("return None", SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ProtocolRule.STRICT_JSON})),
        (
            "return {'score': 5}",
            SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ProtocolRule.FIELDS}),
        ),
        (
            "return dict(play(seed, inputs, 50), score=float('nan'))",
            SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ProtocolRule.STRICT_JSON}),
        ),
        (
            "return dict(play(seed, inputs, 50), score=10**5000)",
            SimulatorFault(Reason.SIMULATOR_TRAPPED, said=""),
        ),
        (
            "return dict(play(seed, inputs, 50), checkpoints=['f' * 16] * 10**5)",
            SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ProtocolRule.OUTPUT}),
        ),
        (
            f"import sys; sys.stderr.write('x' * {COMPLAINT_BYTES + 1}); sys.stderr.flush()",
            SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ProtocolRule.OUTPUT}),
        ),
    ],
)
def test_a_plugin_that_fails_convicts_nobody(
    shared: PluginSimulators, tmp_path: Path, body: str, expected: SimulatorFault | None
) -> None:
    """An exception, an exit, a wrong result: inconclusive, and the next plug-in is served."""
    found = outcome(shared, plugin(tmp_path, body))
    assert isinstance(found, SimulatorFault), found
    assert found.reason is (expected.reason if expected else Reason.SIMULATOR_TRAPPED)
    assert expected is None or expected.detail == found.detail
    assert not (expected and expected.said) or expected.said == found.said
    assert PLAY.score == score_of(shared, plugin(tmp_path))


def test_what_it_prints_is_nobodys_answer(shared: PluginSimulators, tmp_path: Path) -> None:
    """A plug-in may print and read: both lead nowhere."""
    talking = "print('hello', flush=True)\nimport sys\nassert sys.stdin.read() == ''"
    assert PLAY.score == score_of(shared, plugin(tmp_path, talking, "print('loaded', flush=True)\n"))


@pytest.mark.parametrize(
    "text", ["def simulate(:\n", "import numpy_or_what\n", "raise RuntimeError\n", "\x00"]
)
def test_a_plugin_that_cannot_be_loaded_is_a_fault(
    shared: PluginSimulators, tmp_path: Path, text: str
) -> None:
    """No Python, an import that is not there, an error at its start."""
    found = outcome(shared, write(tmp_path, text, "plugin.py"))
    assert isinstance(found, SimulatorFault), found
    assert (Reason.SIMULATOR_TRAPPED, {"exit_status": 1}) == (found.reason, found.detail)
    assert "Error" in found.said


def test_P18_a_file_that_is_a_bomb_costs_its_limits(shared: PluginSimulators, tmp_path: Path) -> None:
    """P18: memory taken while it is loaded, a file of megabytes, nesting without end: the child's trouble alone."""
    greedy = outcome(shared, write(tmp_path, "table = [0] * 10**9\n", "plugin.py"))
    assert SimulatorFault(Reason.OUT_OF_MEMORY) == wordless(greedy)
    huge = outcome(shared, write(tmp_path, "x = 1\n" * (SOURCE_BYTES_LIMIT // 6 + 1), "plugin.py"))
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE) == huge
    nested = outcome(shared, write(tmp_path, "x = " + "-" * 200_000 + "1\n", "plugin.py"))
    assert isinstance(nested, SimulatorFault)
    assert PLAY.score == score_of(shared, plugin(tmp_path))


def test_a_plugin_without_the_function_is_a_fault(shared: PluginSimulators, tmp_path: Path) -> None:
    """The one function is all that is asked of it."""
    found = outcome(shared, write(tmp_path, "def verify(): pass\n", "plugin.py"))
    assert isinstance(found, SimulatorFault)
    assert Reason.SIMULATOR_TRAPPED is found.reason


def test_P19_only_the_very_file_is_run(plugins: PluginSimulators, tmp_path: Path) -> None:
    """P19: a plug-in that is gone or has changed is missing; a child goes on with what it was sent."""
    simulator = plugin(tmp_path)
    assert PLAY.score == score_of(plugins, simulator)
    numbered(tmp_path, "number = 10**6")
    assert PLAY.score == score_of(plugins, simulator)
    plugins.close()
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == outcome(plugins, simulator)
    simulator.path.unlink()
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == outcome(plugins, simulator)


def test_a_child_that_does_not_start_is_our_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a child there is no verdict at all."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with PluginSimulators() as plugins, pytest.raises(SandboxUnavailable):
        outcome(plugins, plugin(tmp_path))


# What a plug-in may do

REACH = """
import os
def reached(*actions):
    found = 0
    for bit, action in enumerate(actions):
        try:
            action()
            found |= 1 << bit
        except (OSError, ImportError):
            pass
    return found
"""


def _has_landlock() -> bool:
    program = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return found.stdout.strip() == "True"


@linux_only
def test_P17_a_plugin_reaches_no_file(shared: PluginSimulators, tmp_path: Path) -> None:
    """P17: no key, no program, not even the standard library, and nothing can be written."""
    if not _has_landlock():
        pytest.skip("this kernel has no Landlock")
    key = tmp_path / "master.key"
    key.write_text("secret")
    body = f"""
    number = reached(
        lambda: open({str(key)!r}), lambda: os.listdir("/"), lambda: open({str(tmp_path / "new")!r}, "w"),
        lambda: open("/proc/{os.getpid()}/environ"), lambda: os.execv("/bin/true", ["true"]),
        lambda: __import__("sqlite3"), lambda: os.fork(),
    )
    """
    assert 0 == score_of(shared, numbered(tmp_path, body, REACH))


@linux_only
def test_P17_a_plugin_reaches_no_network_and_no_worker(shared: PluginSimulators, tmp_path: Path) -> None:
    """P17: the sockets of this machine and the worker itself are out of its reach, and no secret came with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        body = f"""
        number = reached(
            lambda: __import__("_socket").socket().connect({server.getsockname()!r}),
            lambda: os.kill({os.getpid()}, 0),
        ) + 4 * len(os.environ)
        """
        assert 0 == score_of(shared, numbered(tmp_path, body, REACH))


@linux_only
def test_P17_a_child_knows_nothing_of_the_gateway_and_a_program_waits_for_few_modules() -> None:
    """P17: it imports neither the gateway nor anything that talks to a network. Each run of a program starts one."""
    program = (
        "import sys, replay.confined.launch; print(*sys.modules);"
        "import replay.confined.plugin_child; print(*sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    found = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    before, after = map(str.split, found.stdout.splitlines())
    assert not {"contextlib", "dataclasses", "pathlib", "re", "typing"}.intersection(before)
    names = {name.partition(".")[0] for name in after}
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
