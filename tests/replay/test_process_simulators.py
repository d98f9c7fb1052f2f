"""Real programs in the real sandbox, with bubblewrap and without: what one does wrong stays inside, the next run is served."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from policies.digests import sha256_of, simulator_digest
from policies.loader import Simulator
from policies.replaying import Budget, RecordingKind, Replay
from policies.vocabulary import Claim, Reason, SimulatorKind, VerdictKind
from replay.simulators import (
    MalformedRecording,
    Simulation,
    SimulatorFault,
    bubblewrap,
    line_simulators,
    process,
)
from replay.simulators.all_simulators import AllSimulators
from replay.simulators.line_child import COMPLAINT_BYTES
from replay.simulators.line_protocol import ProtocolRule
from replay.simulators.process import TASKS_INSIDE, ProcessSimulators
from replay.simulators.workspace import Workspace
from replay.verify import verify
from tests.replay.games import STATS, play
from tests.support.programs import (
    BUDGET,
    HURRIED,
    PROGRAM,
    SEED,
    WORDS,
    need_bubblewrap,
    need_programs,
    request,
    serving,
    wordless,
    write,
)
from tests.support.thorough import thoroughly

ROOT = Path(__file__).resolve().parents[2]
PLAY = play(WORDS, SEED, 50)
REPLAY = Replay(simulator="process", maximum_ticks=1000, checkpoint_ticks=50, stats=STATS, budget=BUDGET)
RAW = REPLAY.model_copy(update={"recording": RecordingKind.RAW})
CLAIM = Claim(PLAY.score, PLAY.ticks, PLAY.stats)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def simulators(how: str) -> ProcessSimulators:
    need_programs()
    if how == "inside":
        need_bubblewrap()
    return ProcessSimulators(start_wall_ms=20_000, is_alone=how == "alone")


@pytest.fixture
def inside() -> Iterator[ProcessSimulators]:
    """Programs in bubblewrap."""
    with simulators("inside") as found:
        yield found


def assert_serves(programs: ProcessSimulators, directory: Path) -> None:
    """An honest program is simulated rightly."""
    found = programs.simulate(request(serving(directory)))
    assert isinstance(found, Simulation), found
    assert (PLAY.score, PLAY.checkpoints) == (found.score, list(found.checkpoints))


def score_of(programs: ProcessSimulators, simulator: Simulator) -> int:
    found = programs.simulate(request(simulator))
    assert isinstance(found, Simulation), found
    return found.score


def children(programs: ProcessSimulators) -> list[int]:
    return [child._process.pid for child in programs._children.values()]


def running(mark: str) -> list[int]:
    """The processes that have the mark in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end at any moment
            if mark.encode() in (path / "cmdline").read_bytes() and is_alive(int(path.name)):
                found.append(int(path.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so: Callable[[], object], within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(is_so())


# Honest programs


@pytest.mark.parametrize("seed", [2**64 - 1, *thoroughly(0, 2**63)])
def test_the_simulation_is_the_games(programs: ProcessSimulators, tmp_path: Path, seed: int) -> None:
    """Every number of the simulation is what the game's twin gives, for any seed; one process serves them all."""
    asked = replace(request(serving(tmp_path)), seed=seed)
    expected = play(WORDS, seed, 50)
    for _ in range(3):
        found = programs.simulate(asked)
        assert isinstance(found, Simulation)
        assert (expected.ticks, True, expected.score) == (found.ticks, found.is_over, found.score)
        assert (expected.state_hash, tuple(expected.checkpoints)) == (found.state_hash, found.checkpoints)
        assert tuple(expected.stats[name] for name in STATS) == found.stats
    assert [3] == [child.questions for child in programs._children.values()]


def test_P06_verdicts_of_a_program(programs: ProcessSimulators, tmp_path: Path) -> None:
    """P06, P01: the true claim is verified, a higher one and one of another seed are not."""
    program = serving(tmp_path)
    lie = Claim(PLAY.score + 1, PLAY.ticks, PLAY.stats)
    honest = verify(CLAIM, PLAY.recording, SEED, REPLAY, program, programs)
    assert Reason.VERIFIED is honest.reason
    assert honest.engine == programs.engine_of(SimulatorKind.PROCESS)
    assert Reason.SCORE_MISMATCH is verify(lie, PLAY.recording, SEED, REPLAY, program, programs).reason
    assert Reason.DIVERGED is verify(CLAIM, PLAY.recording, SEED + 1, REPLAY, program, programs).reason


def test_a_recording_of_the_games_own_is_handed_over_whole(
    programs: ProcessSimulators, tmp_path: Path
) -> None:
    """Raw bytes are not read by us; the program says what they are worth, or that they are none of its own."""
    program = serving(
        tmp_path,
        """
        data = base64.b64decode(asked["recording"])
        if not data.startswith(b"LMP"):
            say({"malformed": True})
        else:
            assert asked["inputs"] is None
            say(play(int(asked["seed"]), list(data[3:]), asked["checkpoint_ticks"])
                | {"is_over": True, "checkpoints": []})
        """,
    )
    played = play([3, 5, 8], SEED, 50)
    claim = Claim(played.score, 3, played.stats)
    assert Reason.VERIFIED is verify(claim, b"LMP\x03\x05\x08", SEED, RAW, program, programs).reason
    longer = verify(replace(claim, ticks=4), b"LMP\x03\x05\x08", SEED, RAW, program, programs)
    assert (VerdictKind.MISMATCH, Reason.TICKS_MISMATCH) == (longer.kind, longer.reason)
    other = verify(claim, b"PNG", SEED, RAW, program, programs)
    assert (VerdictKind.MISMATCH, Reason.RECORDING_MALFORMED) == (other.kind, other.reason)


def test_large_recordings_pass_the_pipe(programs: ProcessSimulators, tmp_path: Path) -> None:
    """A question and an answer many times larger than a pipe's buffer, and a program that complains all the while."""
    words = [index % 9 for index in range(100_000)]
    program = serving(
        tmp_path,
        'sys.stderr.write("y" * 90_000); say(honest(asked))',
        before='sys.stderr.write("x" * 90_000)',
    )
    asked = replace(request(program, words=words), checkpoint_ticks=5)
    found = programs.simulate(asked)
    assert isinstance(found, Simulation), found
    assert play(words, SEED, 5).checkpoints == list(found.checkpoints)


def test_a_program_reads_its_files_and_writes_its_scratch(
    programs: ProcessSimulators, tmp_path: Path
) -> None:
    """Files are there by name, for reading alone; what it writes for itself goes to a folder of its own."""
    simulator = serving(
        tmp_path,
        """
        folder = os.environ["SCOREGATE_FILES"]
        denied = 0
        for path in (folder + "/rules.txt", folder + "/new", os.path.dirname(folder) + "/program"):
            try:
                open(path, "w")
            except OSError:
                denied += 1
        with open(os.environ["HOME"] + "/note", "w") as note, open(os.environ["TMPDIR"] + "/other", "w"):
            note.write("x")
        number(denied * 1000 + int(open(folder + "/rules.txt").read()))
        """,
    )
    rules = tmp_path / "rules.txt"
    rules.write_text("42")
    digest = simulator_digest(sha256_of(simulator.path), {"rules.txt": sha256_of(rules)})
    assert 3042 == score_of(programs, Simulator(digest, simulator.path, (rules,)))


@linux_only
def test_P13_a_program_can_be_nondeterministic_and_two_runs_show_it(
    programs: ProcessSimulators, tmp_path: Path
) -> None:
    """P13: unlike a module a program has clock and randomness, so the same recording asked twice is what tells."""
    program = serving(tmp_path, "number(int.from_bytes(os.urandom(6), 'little') + time.time_ns() % 1000)")
    assert score_of(programs, program) != score_of(programs, program)


# Programs that take too much


ONCE = "say(honest(asked)) if globals().setdefault('first', asked) is asked else {then}"


def second(
    programs: ProcessSimulators, program: Simulator
) -> Simulation | SimulatorFault | MalformedRecording:
    """What comes of a second run of a program that has started well, and has little time for it."""
    asked = request(program, budget=HURRIED)
    assert isinstance(programs.simulate(asked), Simulation)
    return programs.simulate(asked)


def test_P08_an_endless_program_is_late(programs: ProcessSimulators, tmp_path: Path) -> None:
    """P08, P11: a program that does not answer is killed from outside, whatever signals it ignores, and replaced."""
    before = (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef endless():\n    while True: pass"
    )
    found = second(programs, serving(tmp_path, ONCE.format(then="endless()"), before))
    assert SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 300}) == found
    assert [] == children(programs)
    assert_serves(programs, tmp_path)


def test_P09_a_memory_bomb_is_out_of_memory(programs: ProcessSimulators, tmp_path: Path) -> None:
    """P09: memory beyond the budget is denied, private or shared."""
    private = programs.simulate(request(serving(tmp_path, "data = bytearray(2**28)")))
    assert SimulatorFault(Reason.OUT_OF_MEMORY) == wordless(private)
    shared = "import mmap\ndata = mmap.mmap(-1, 2**31)"
    found = programs.simulate(request(serving(tmp_path, shared)))
    assert isinstance(found, SimulatorFault)
    assert Reason.SIMULATOR_TRAPPED is found.reason
    assert_serves(programs, tmp_path)


def test_P09_scratch_is_limited(inside: ProcessSimulators, tmp_path: Path) -> None:
    """P09: files in memory are memory: there is room for so much, wherever a program writes."""
    program = serving(
        tmp_path,
        """
        written = 0
        for folder in ("/tmp", "/dev/shm", "/dev", "/", "/simulator"):
            try:
                for index in range(8):
                    with open(folder + "/big%d" % index, "wb") as file:
                        for _ in range(16):
                            written += file.write(bytes(2**20))
            except OSError:
                pass
        number(written)
        """,
    )
    assert 0 < score_of(inside, program) <= bubblewrap.SCRATCH_BYTES + bubblewrap.SHARED_MEMORY_BYTES


def test_a_fork_bomb_is_bounded(inside: ProcessSimulators, tmp_path: Path) -> None:
    """Processes are counted in the sandbox, and all of them end with it."""
    mark = uuid.uuid4().hex
    program = serving(
        tmp_path,
        f"""
        forks = 0
        try:
            while forks < 500:
                if os.fork() == 0:
                    os.setsid()
                    os.execv("/bin/sleep", ["{mark}", "600"])
                forks += 1
        except OSError:
            pass
        number(forks)
        """,
    )
    assert 0 < score_of(inside, program) < TASKS_INSIDE
    assert wait_until(lambda: running(mark))
    inside.close()
    assert wait_until(lambda: not running(mark))


@pytest.mark.parametrize(
    "body",
    [
        "while True: sys.stdout.write('x' * 4096)",
        f"sys.stderr.write('x' * {COMPLAINT_BYTES + 1}); say(honest(asked))",
        *thoroughly(
            "sys.stdout.write('x' * 100_000); sys.stdout.flush(); time.sleep(60)",
            "while True: sys.stderr.write('x' * 4096)",
        ),
    ],
)
def test_a_chatty_program_is_killed(programs: ProcessSimulators, tmp_path: Path, body: str) -> None:
    """What it says is bounded, on both of its outputs."""
    found = programs.simulate(request(serving(tmp_path, body)))
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ProtocolRule.OUTPUT}) == wordless(found)
    assert [] == children(programs)


# Programs that lie, break off, or are not there


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (
            "print(json.dumps(honest(asked)) + chr(10) + json.dumps(honest(asked)), flush=True)",
            ProtocolRule.ONE_LINE,
        ),
        ("print('verified', flush=True)", ProtocolRule.STRICT_JSON),
        ("say(dict(honest(asked), score=float('nan')))", ProtocolRule.STRICT_JSON),
        ("say(dict(honest(asked), score=10**30))", ProtocolRule.FIELDS),
        ("say(dict(honest(asked), ticks=10**6))", ProtocolRule.TICKS),
        ("say(dict(honest(asked), stats={}))", ProtocolRule.STATS),
        ("say(dict(honest(asked), checkpoints=[]))", ProtocolRule.CHECKPOINTS),
    ],
)
def test_a_lying_program_convicts_nobody(
    inside: ProcessSimulators, tmp_path: Path, body: str, rule: ProtocolRule
) -> None:
    """An answer that is none is inconclusive; its program is not asked again, and the next one serves."""
    verdict = verify(CLAIM, PLAY.recording, SEED, REPLAY, serving(tmp_path, body), inside)
    assert (VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_UNUSABLE) == (verdict.kind, verdict.reason)
    assert {"broken_rule": rule} == verdict.detail
    assert [] == children(inside)


def test_half_an_answer_is_none(programs: ProcessSimulators, tmp_path: Path) -> None:
    """A line that ends with its program was not finished."""
    body = "sys.stdout.write(json.dumps(honest(asked))); sys.exit(0)"
    found = programs.simulate(request(serving(tmp_path, body)))
    assert SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 0}) == found


def test_an_answer_nobody_asked_for_is_never_taken_for_the_next(
    inside: ProcessSimulators, tmp_path: Path
) -> None:
    """A program that goes on talking after its answer is replaced before the next question."""
    body = "say(honest(asked)); say(dict(honest(asked), score=10**6))"
    program = serving(tmp_path, body.replace("; say(dict", "; time.sleep(0.2); say(dict"))
    assert PLAY.score == score_of(inside, program)
    first = children(inside)
    child = next(iter(inside._children.values()))
    assert wait_until(lambda: not child.is_idle())
    assert PLAY.score == score_of(inside, program)
    assert first != children(inside)


def test_an_answer_that_comes_late_is_never_taken_for_the_next(
    inside: ProcessSimulators, tmp_path: Path
) -> None:
    """The second answer to one question comes while the next one waits, and would convict somebody else."""
    late = (
        "seen = globals().get('seen', 0) + 1; say(dict(honest(asked), score=7, id=asked['id'] - (seen == 2)))"
    )
    program = serving(tmp_path, late)
    assert isinstance(inside.simulate(request(program)), Simulation)
    found = inside.simulate(request(program))
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": ProtocolRule.ANOTHER_QUESTION}) == found


@pytest.mark.parametrize("number", ["0", "1", "2"])
def test_F14_a_program_that_answers_before_it_was_asked_convicts_nobody(
    inside: ProcessSimulators, tmp_path: Path, number: str
) -> None:
    """A whole answer at its start, of another run: its number cannot be known, so it is none."""
    early = (
        "print(json.dumps(dict(id=%s, ticks=1, is_over=True, score=1, stats=%s, "
        "state_hash='0' * 16, checkpoints=[])), flush=True)"
    )
    program = serving(tmp_path, before=early % (number, dict.fromkeys(STATS, 1)))
    verdict = verify(CLAIM, PLAY.recording, SEED, REPLAY, program, inside)
    assert (VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_UNUSABLE) == (verdict.kind, verdict.reason)


def test_a_banner_is_not_an_answer(programs: ProcessSimulators, tmp_path: Path) -> None:
    """What a program says at its start, before it was asked, is no simulation."""
    found = programs.simulate(request(serving(tmp_path, before="print('Welcome!', flush=True)")))
    assert isinstance(found, SimulatorFault)
    assert Reason.SIMULATOR_UNUSABLE is found.reason


def test_a_program_that_says_it_failed_is_started_anew(programs: ProcessSimulators, tmp_path: Path) -> None:
    """Its words are for its developer; the verdict has none of them."""
    program = serving(tmp_path, "say({'fault': 'out of cheese'})")
    assert SimulatorFault(Reason.SIMULATOR_TRAPPED, said="out of cheese") == programs.simulate(
        request(program)
    )
    assert [] == children(programs)
    verdict = verify(CLAIM, PLAY.recording, SEED, REPLAY, program, programs)
    assert (VerdictKind.INCONCLUSIVE, {}) == (verdict.kind, verdict.detail)


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        (PROGRAM + "sys.exit(3)", {3}),
        (PROGRAM + "raise SystemError", {1}),
        ("#!/nowhere/interpreter\n", {126, 127}),  # as the shell has it
        ("", {0}),
    ],
    ids=["leaves", "crashes", "no interpreter", "empty"],
)
def test_a_program_that_cannot_start_is_a_fault(
    programs: ProcessSimulators, tmp_path: Path, text: str, statuses: set[int]
) -> None:
    """A crash before the first question is told by its exit status, and nobody waits for it."""
    found = programs.simulate(request(write(tmp_path, text)))
    assert isinstance(found, SimulatorFault)
    assert Reason.SIMULATOR_TRAPPED is found.reason
    assert found.detail["exit_status"] in statuses
    assert_serves(programs, tmp_path)


def test_a_crash_in_a_run_is_told_by_its_signal(inside: ProcessSimulators, tmp_path: Path) -> None:
    """A program that is killed, by itself or the system, is a fault and no verdict."""
    found = inside.simulate(request(serving(tmp_path, "os.kill(os.getpid(), 11)")))
    assert SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 128 + 11}) == found


def test_a_program_that_is_gone_is_missing(programs: ProcessSimulators, tmp_path: Path) -> None:
    """No file, no simulation: neither the program nor what it reads."""
    gone = Simulator("sha256:" + "0" * 64, tmp_path / "gone")
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == programs.simulate(request(gone))
    without = replace(serving(tmp_path), files=(tmp_path / "gone.wad",))
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == programs.simulate(request(without))


def test_P19_a_changed_program_is_not_run(programs: ProcessSimulators, tmp_path: Path) -> None:
    """P19: other bytes than the policy's are not the policy's simulator, and a running one goes on with its own."""
    program = serving(tmp_path)
    assert PLAY.score == score_of(programs, program)
    serving(tmp_path, "number(10**6)")
    assert PLAY.score == score_of(programs, program)
    programs.close()
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == programs.simulate(request(program))


def test_P19_a_changed_file_is_not_read(programs: ProcessSimulators, tmp_path: Path) -> None:
    """P19: what a program reads is part of what it is known by."""
    program, wad = serving(tmp_path), tmp_path / "rules.wad"
    wad.write_text("1")
    digest = simulator_digest(sha256_of(program.path), {wad.name: sha256_of(wad)})
    known = Simulator(digest, program.path, (wad,))
    assert PLAY.score == score_of(programs, known)
    programs.close()
    wad.write_text("2")
    assert SimulatorFault(Reason.SIMULATOR_MISSING) == programs.simulate(request(known))


def test_P18_a_program_of_any_size_is_not_taken(
    programs: ProcessSimulators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P18: what would fill the worker's memory is not read into it."""
    program = serving(tmp_path)
    huge = tmp_path / "huge.pak"
    huge.touch()
    os.truncate(huge, 2**40)
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE) == programs.simulate(
        request(replace(program, files=(huge,)))
    )
    monkeypatch.setattr(process, "FILES_BYTES_LIMIT", 1000)
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE) == programs.simulate(request(program))


def test_nothing_is_left_of_a_program_that_ran_alone(tmp_path: Path) -> None:
    """Its folder goes with its child, and that of all goes with the simulators."""
    with simulators("alone") as programs:
        assert_serves(programs, tmp_path)
        workspace = programs._copies.workspace.path
        assert {"lock"} < {each.name for each in workspace.iterdir()}
        programs._drop(next(iter(programs._children)))
        assert ["lock"] == [each.name for each in workspace.iterdir()]
    assert not workspace.exists()


# Warm children

COUNTING = "count = globals().get('count', 0) + 1; number(count)"


def test_a_child_is_replaced_after_many_questions(inside: ProcessSimulators, tmp_path: Path) -> None:
    """What adds up in a program does not go on for ever."""
    asked = replace(request(serving(tmp_path, COUNTING)), runs_per_process=2)
    assert [1, 2, 1] == [inside.simulate(asked).score for _ in range(3)]


def test_P17_a_recording_that_takes_a_program_over_answers_for_no_other_run(
    programs: ProcessSimulators, tmp_path: Path
) -> None:
    """P17: unless the board says otherwise each run has a process of its own; nor is it another board's warm one."""
    takes_over = (
        "if asked['recording'] == 'ZXZpbA==': honest = lambda asked: dict(play(0, [1], 50), id=asked['id'])"
    )
    program = serving(tmp_path, takes_over + "\nsay(honest(asked))")
    evil = replace(request(program), recording=b"evil")
    warm = REPLAY.model_copy(update={"runs_per_process": 256})
    assert [Reason.VERIFIED, Reason.VERIFIED] == [
        (programs.simulate(evil), verify(CLAIM, PLAY.recording, SEED, REPLAY, program, programs).reason)[1]
        for _ in range(2)
    ]
    assert Reason.VERIFIED is not verify(CLAIM, PLAY.recording, SEED, warm, program, programs).reason


def test_a_bounded_number_of_programs_is_kept(inside: ProcessSimulators, tmp_path: Path) -> None:
    """The one that was asked longest ago makes room, and each budget has a child of its own."""
    program = serving(tmp_path)
    budgets = [
        Budget(memory_mib=64 + index, wall_ms=20_000) for index in range(line_simulators.CHILDREN_AT_ONCE + 1)
    ]
    for budget in (*budgets[:-1], budgets[0], budgets[-1]):
        assert isinstance(inside.simulate(request(program, budget=budget)), Simulation)
    assert [*budgets[2:-1], budgets[0], budgets[-1]] == [key.budget for key in inside._children]


def test_a_child_killed_between_runs_is_replaced(programs: ProcessSimulators, tmp_path: Path) -> None:
    """Nobody notices a program that died while it was idle."""
    assert_serves(programs, tmp_path)
    [child] = children(programs)
    os.kill(child, signal.SIGKILL)
    assert wait_until(lambda: programs._children and not next(iter(programs._children.values())).is_idle())
    assert_serves(programs, tmp_path)


@linux_only
def test_a_forked_copy_does_not_share_the_child(inside: ProcessSimulators, tmp_path: Path) -> None:
    """Two processes on one pipe would read each other's verdicts, so a forked copy starts its own child."""
    assert_serves(inside, tmp_path)
    mine = children(inside)
    pid = os.fork()
    if pid == 0:
        is_another = (
            isinstance(inside.simulate(request(serving(tmp_path))), Simulation) and children(inside) != mine
        )
        inside.close()
        os._exit(0 if is_another else 1)
    assert 0 == os.waitpid(pid, 0)[1]
    assert_serves(inside, tmp_path)
    assert mine == children(inside)


# What a program may do

REACH = """
reached = 0
def reach(bit, action):
    global reached
    try:
        action()
        reached |= bit
    except OSError:
        pass
"""


def _has_landlock() -> bool:
    return bool(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1)


@linux_only
def test_P17_a_program_reads_no_key_file(programs: ProcessSimulators, tmp_path: Path) -> None:
    """P17: not the key, not the ledger, nothing of a home or of another process, with bubblewrap or by Landlock."""
    if programs._is_alone and not _has_landlock():
        pytest.skip("this kernel has no Landlock")
    key = tmp_path / "master.key"
    key.write_text("secret")
    tmp_path.chmod(0o755)
    before = REACH + textwrap.dedent(f"""
        reach(1, lambda: open({str(key)!r}))
        reach(2, lambda: open("/etc/passwd"))
        reach(4, lambda: open("/proc/{os.getpid()}/environ"))
        reach(8, lambda: os.listdir({str(ROOT)!r}))
        reach(16, lambda: os.listdir("/root"))
        reach(32, lambda: open({str(tmp_path)!r} + "/new", "w"))
        reach(64, lambda: open("/usr/new", "w"))
    """)
    assert 0 == score_of(programs, serving(tmp_path, "number(reached)", before))


@linux_only
def test_P17_a_program_reaches_no_network_and_no_other_process(
    programs: ProcessSimulators, tmp_path: Path
) -> None:
    """P17: no server on this machine or elsewhere; it can neither see nor signal nor trace the worker."""
    if programs._is_alone and os.geteuid() != 0:
        pytest.skip("without bubblewrap a program is the worker's own user, if that is not root")
    name = f"\0{uuid.uuid4().hex}"
    with ExitStack() as entered:
        server = entered.enter_context(socket.create_server(("127.0.0.1", 0)))
        local = entered.enter_context(socket.socket(socket.AF_UNIX))
        datagrams = entered.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        local.bind(name)
        local.listen()
        before = REACH + textwrap.dedent(f"""
            import ctypes, socket
            def traced():
                if ctypes.CDLL(None).ptrace(16, {os.getpid()}, 0, 0) != 0:
                    raise OSError
            reach(1, lambda: socket.socket().connect({server.getsockname()!r}))
            reach(2, lambda: socket.socket(socket.AF_UNIX).connect({name!r}))
            reach(4, lambda: os.kill({os.getpid()}, 0))
            reach(8, traced)
            try:
                socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", {datagrams.getsockname()!r})
            except OSError:
                pass
        """)
        assert 0 == score_of(programs, serving(tmp_path, "number(reached)", before))
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)


@linux_only
def test_M17_a_program_is_in_a_session_of_its_own(inside: ProcessSimulators, tmp_path: Path) -> None:
    """Its session begins in the sandbox: in the worker's it could type into the operator's terminal (TIOCSTI)."""
    program = serving(tmp_path, "number(int(os.getsid(0) > 0))")
    assert 1 == score_of(inside, program)


@linux_only
def test_M17_nobody_looks_into_the_memory_of_what_is_confined() -> None:
    """It cannot be traced by another process of its user, and leaves no core (prctl's PR_GET_DUMPABLE).

    Leaving the network clears the flag as well, where that is allowed: here it is as where it is refused.
    """
    confined = """if True:
        import ctypes, os
        from replay.confined import confinement
        from replay.confined.confinement import leave
        confinement._leave_network = lambda libc: None
        libc = ctypes.CDLL(None)
        before = libc.prctl(3, 0, 0, 0, 0)
        leave(os.getppid(), {})
        os.write(1, b"%d %d" % (before, libc.prctl(3, 0, 0, 0, 0)))
    """
    told = subprocess.run([sys.executable, "-c", confined], capture_output=True, check=True, timeout=30)
    assert b"1 0" == told.stdout


@linux_only
def test_P17_a_program_inherits_nothing(
    programs: ProcessSimulators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P17: no secret of the environment, no open file, no rights, not even those of root."""
    monkeypatch.setenv("SCOREGATE_MASTER_KEY", "secret")
    before = """
        names = set(os.environ) - {"PATH", "LANG", "HOME", "TMPDIR", "SCOREGATE_FILES", "PWD", "LC_CTYPE"}
        import fcntl
        def is_open(number):
            try:
                return fcntl.fcntl(number, fcntl.F_GETFD) >= 0
            except OSError:
                return False
        held = [number for number in range(3, 256) if is_open(number)]
        try:
            rights = [line for line in open("/proc/self/status") if line.startswith("CapEff")][0].split()[1]
        except OSError:
            rights = "0"
    """
    body = "number((len(names) > 0) + 2 * len(held) + 4 * (int(rights, 16) > 0) + 8 * (os.getuid() == 0))"
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        assert 0 == score_of(programs, serving(tmp_path, body, textwrap.dedent(before)))


LINGERING = """
import subprocess
subprocess.Popen(["/bin/sh", "-c", "sleep 600; : {mark}"], start_new_session=True)
"""


@linux_only
def test_P17_nothing_survives_its_run(inside: ProcessSimulators, tmp_path: Path) -> None:
    """P17: whatever a late program has started ends with it, in whatever session."""
    mark = uuid.uuid4().hex
    program = serving(tmp_path, ONCE.format(then="time.sleep(600)"), LINGERING.format(mark=mark))
    asked = request(program, budget=HURRIED)
    assert isinstance(inside.simulate(asked), Simulation)
    assert wait_until(lambda: running(mark))
    assert SimulatorFault(Reason.TIMED_OUT, {"wall_ms": 300}) == inside.simulate(asked)
    assert wait_until(lambda: not running(mark))


@linux_only
def test_P17_what_a_program_started_does_not_survive_its_end(
    programs: ProcessSimulators, tmp_path: Path
) -> None:
    """P17: a program that ends by itself, and leaves others of its group behind, leaves them to be killed."""
    mark = uuid.uuid4().hex
    lingering = LINGERING.replace(", start_new_session=True", ", stdin=0, stdout=2").format(mark=mark)
    program = serving(tmp_path, "os._exit(3)", lingering)
    assert SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 3}) == programs.simulate(request(program))
    assert wait_until(lambda: not running(mark))


@linux_only
@pytest.mark.parametrize("how", ["inside", "alone"])
def test_P17_nothing_survives_the_worker(tmp_path: Path, how: str) -> None:
    """P17: a worker that is killed takes its program with it, in bubblewrap all that the program has started.

    What it copied for programs is taken away by the next worker.
    """
    simulators(how).close()
    mark = uuid.uuid4().hex
    before = LINGERING.format(mark=mark) if how == "inside" else ""
    program = serving(tmp_path, f"say(honest(asked)); time.sleep(600); '{mark}'", before)
    worker = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from policies.loader import Simulator
from replay.simulators.process import ProcessSimulators
from tests.support.programs import request
programs = ProcessSimulators(is_alone={how == "alone"})
print(programs.simulate(request(Simulator({program.digest!r}, Path({str(program.path)!r})))), flush=True)
[child] = programs._children.values()
print(child._process.pid, programs._copies.workspace.path, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert "Simulation" in started.stdout.readline()
        child, _, folder = started.stdout.readline().strip().partition(" ")
        assert how == "alone" or wait_until(lambda: running(mark))
        started.kill()
    assert wait_until(lambda: not is_alive(int(child)) and not running(mark))
    assert Path(folder).is_dir()
    Workspace().close()  # the next worker's
    assert not Path(folder).exists()


def test_the_engine_says_what_holds_the_program(inside: ProcessSimulators) -> None:
    """A verdict tells whether the program was in bubblewrap or had limits alone."""
    assert inside.engine_of(SimulatorKind.PROCESS).startswith("json-lines 1, bubblewrap ")
    assert "json-lines 1, rlimits" == ProcessSimulators(is_alone=True).engine_of(SimulatorKind.PROCESS)


def test_each_kind_goes_to_its_own(tmp_path: Path) -> None:
    """One port for all kinds: the request says which."""
    need_programs()
    with AllSimulators() as everything:
        engines = [everything.engine_of(kind).split()[0] for kind in SimulatorKind]
        assert ["wasmtime", "json-lines", "json-lines"] == engines
        assert isinstance(everything.simulate(request(serving(tmp_path))), Simulation)
        no_module = everything.simulate(request(serving(tmp_path), kind=SimulatorKind.WASM))
        assert isinstance(no_module, SimulatorFault)
        assert Reason.SIMULATOR_UNUSABLE is no_module.reason
