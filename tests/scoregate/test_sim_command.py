"""Trying simulators from the command line: what is printed, for people and for machines, and the status."""

from __future__ import annotations

import base64
import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from policies.vocabulary import Divergence, InputRun, Reason, Verdict, VerdictKind
from replay.kit.check import CheckReport, RunReport
from replay.kit.differences import ResultDifference
from replay.kit.remarks import Remark, Weight
from replay.kit.verdict import JudgedRun
from replay.simulators import Simulation
from scoregate.cli import app
from scoregate.sim_report import checked_lines, verdict_as_dict, verdict_lines
from tests.replay.games import COURSES, END, GAME, broken, play, store
from tests.support.boards import write_board
from tests.support.programs import need_programs, serving

SEED = 2**64 - 3
glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
PLAY = play([1, 2, 3] * 10 + [END], SEED, 10)
CLAIM = {"score": PLAY.score, "ticks": PLAY.ticks, "stats": PLAY.stats}


PLUGIN = """
def simulate(seed, inputs, ticks, checkpoint_ticks, recording):
    state, score, checkpoints = seed, 0, []
    for tick, word in enumerate(inputs, 1):
        state = (state * 6364136223846793005 + word) % 2**64
        score += word & 1
        if tick % checkpoint_ticks == 0:
            checkpoints.append(f"{state:016x}")
    state = (state + 0) % 2**64
    return {"ticks": tick, "is_over": True, "score": score, "stats": {},
            "state_hash": f"{state:016x}", "checkpoints": checkpoints}
"""


def sim(*words: object) -> Result:
    return CliRunner().invoke(app, ["sim", *map(str, words)])


@pytest.fixture
def module(tmp_path: Path) -> Path:
    return store(tmp_path, GAME).path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.sgr"
    path.write_bytes(PLAY.recording)
    return path


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run.json", **CLAIM)


def write_run(path: Path, seed: int = SEED, **claim: object) -> Path:
    recording = base64.b64encode(PLAY.recording).decode()
    path.write_text(json.dumps({"seed": str(seed), "recording": recording} | claim))
    return path


def test_a_recording_is_verified_against_itself(module: Path, recording: Path):
    """Without a claim, its own checkpoints and its end decide; score, ticks and statistics are shown."""
    result = sim("run", module, recording, "--seed", SEED)

    assert (0, "verified") == (result.exit_code, result.output.partition(":")[0])
    assert f"score       {PLAY.score}" in result.output
    assert "statistics  21, 57005" in result.output


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (("--score", PLAY.score), "verified"),
        (("--score", PLAY.score + 1), "score-mismatch"),
        (("--ticks", PLAY.ticks - 1), "ticks-mismatch"),
        (("--stats", "21,57005"), "verified"),
        (("--stats", "21,3"), "stats-mismatch"),
    ],
)
def test_a_claim_on_the_command_line_is_compared(
    module: Path, recording: Path, claim: tuple[object, ...], reason: str
):
    """What is not claimed is taken from the simulation; the status is 1 for a mismatch."""
    result = sim("run", module, recording, "--seed", SEED, "--json", *claim)

    assert reason == json.loads(result.output)["reason"]
    assert (reason != "verified") == result.exit_code


def test_a_run_file_has_its_seed_and_its_claim(module: Path, run_file: Path, tmp_path: Path):
    """The claim of the file is compared; one under another seed parts at the first checkpoint, with both hashes."""
    assert 0 == sim("run", module, run_file).exit_code
    assert 1 == sim("run", module, run_file, "--score", 0).exit_code

    other = sim("run", module, write_run(tmp_path / "other.json", SEED - 1, **CLAIM), "--json")
    found = json.loads(other.output)
    assert (1, "diverged", 0, 10) == (
        other.exit_code,
        found["reason"],
        found["divergence"]["after_tick"],
        found["divergence"]["at_tick"],
    )
    assert f"{PLAY.checkpoints[0]:016x}" == found["divergence"]["claimed"]
    assert found["simulation"]["checkpoints"][0] == found["divergence"]["simulated"]


def test_a_run_is_judged_as_its_board_would(tmp_path: Path, module: Path, run_file: Path):
    """The policy's budget and statistics are in force: too little fuel is no verdict, other names are a mismatch."""
    policy = write_board(tmp_path / "p", budget={"fuel": 1_000})
    poor = sim("run", module, run_file, "--policy", policy, "--json")
    assert (1, "out-of-fuel") == (poor.exit_code, json.loads(poor.output)["reason"])

    policy = write_board(tmp_path / "q")
    claim = CLAIM | {"stats": {"scoring_ticks": 21, "other": 57005}}
    named = sim("run", module, write_run(tmp_path / "n.json", **claim), "--policy", policy, "--json")
    assert "stats-mismatch" == json.loads(named.output)["reason"]


def test_a_run_is_judged_and_checked_on_its_board(tmp_path: Path, recording: Path, run_file: Path):
    """Parameters and asset come from files, whatever the layout, and are the same in every setting of a check."""
    module, parameters, asset = store(tmp_path, COURSES).path, tmp_path / "board.json", tmp_path / "board.map"
    parameters.write_text('{ "b": 1,\n  "a": 2 }')
    asset.write_bytes(b"walls on the left")
    content = ("--parameters", parameters, "--asset", asset)
    numbers = [int.from_bytes(data, "little") for data in (b'{"a"', b"wall")]
    result = sim("run", module, recording, "--seed", SEED, *content, "--json")
    assert (0, numbers) == (result.exit_code, json.loads(result.output)["simulation"]["stats"])
    checked = sim("check", module, recording, "--seed", SEED, *content, "--repeats", 1)
    assert (0, "replay-safe") == (checked.exit_code, checked.output.splitlines()[-1])
    old = sim("check", store(tmp_path, GAME).path, run_file, *content)
    assert (1, True) == (old.exit_code, "it takes no parameters" in old.output), old.output


def test_a_safe_module_is_told_with_the_limits_to_set(module: Path, run_file: Path, tmp_path: Path):
    """Status 0, what it cost, and a line for the policy that a policy takes."""
    result = sim("check", module, run_file, "--repeats", 2, "--maximum-ticks", 3100)
    lines = result.output.splitlines()
    [budget] = [line.strip() for line in lines if line.strip().startswith("budget:")]

    assert (0, "replay-safe") == (result.exit_code, lines[-1])
    limits = dict(part.split(": ") for part in budget.removeprefix("budget: {").removesuffix("}").split(", "))
    assert {"fuel", "memory_mib", "wall_ms"} == limits.keys()
    policy = write_board(tmp_path / "p", budget={name: int(value) for name, value in limits.items()})
    assert 0 == sim("run", module, run_file, "--policy", policy).exit_code


def test_limits_are_for_the_longest_run_that_was_said_or_else_the_policys(
    module: Path, run_file: Path, tmp_path: Path
):
    """What is said on the command line goes before what the policy says."""
    policy = write_board(tmp_path / "p")

    def fuel(*words: object) -> int:
        checked = sim("check", module, run_file, "--repeats", 1, "--json", *words)
        return int(json.loads(checked.stdout)["budget"]["fuel"])

    said = fuel("--maximum-ticks", 3_100)
    assert said == fuel("--maximum-ticks", 3_100, "--policy", policy)
    assert fuel("--maximum-ticks", 100_000) == fuel("--policy", policy)
    assert said < fuel("--policy", policy)


def test_an_unsafe_module_is_told_why(tmp_path: Path, run_file: Path):
    """Status 1: one that is not usable is not run, one whose start leaves something is named with the setting."""
    imports = store(tmp_path, broken(imports='(import "env" "now" (func (result i64)))')).path
    unusable = sim("check", imports, run_file)
    assert 1 == unusable.exit_code
    assert unusable.output.startswith("unusable: it imports env.now")

    forgetful = store(tmp_path, GAME.replace("(global.set $score (i64.const 0))", "")).path
    checked = sim("check", forgetful, run_file, "--repeats", 1, "--json")
    unsafe = json.loads(checked.output)
    assert 1 == checked.exit_code
    assert not unsafe["is_safe"]
    assert [("played-before", "score")] == [
        (each["setting"], each["what"]) for each in unsafe["runs"][0]["differences"]
    ]


def test_a_run_that_parts_from_its_recording_is_told_with_both_hashes():
    """Between which ticks, with what each side has, the inputs there, and the cost in milliseconds."""
    parted = Divergence(50, 100, 0xAB, 0xCD, (InputRun(51, 9, 0x10),))
    verdict = Verdict(
        VerdictKind.MISMATCH, Reason.SCORE_MISMATCH, "sha256:00", "wasmtime 1", divergence=parted
    )
    simulated = Simulation(
        120, is_over=True, score=7, state_hash=0xCD, stats=(1, 2), checkpoints=(5,), fuel=9
    )
    judged = JudgedRun(verdict, simulated, seconds=0.0125)
    lines = list(verdict_lines(judged))
    assert "  ticks       120, the run is over" in lines
    assert "  cost        9 fuel, 12.50 ms" in lines
    assert "  parted      after tick 50, and not after tick 100" in lines
    assert f"  hashes      {0xAB:016x} in the recording, {0xCD:016x} in the simulation" in lines
    assert "  inputs      51: 9 x 0x10" in lines
    programs = verdict_as_dict(judged)
    assert (12.5, 50, f"{0xAB:016x}") == (
        programs["wall_ms"],
        programs["divergence"]["after_tick"],
        programs["divergence"]["claimed"],
    )
    run = RunReport("one", verdict)
    [_, checked, *_] = checked_lines(CheckReport((), (run, run), None, None))
    assert checked.endswith(" It parts after tick 50, and not after tick 100.")


def test_people_are_told_what_differs_from_what():
    """What the setting gave, and then what the judging setting gave; a fault with what it said."""
    verdict = Verdict(VerdictKind.VERIFIED, Reason.VERIFIED, "sha256:00", "wasmtime 1")
    difference = ResultDifference("run", "played-before", "score", expected="12", found="24")
    fault = replace(verdict, kind=VerdictKind.INCONCLUSIVE, reason=Reason.SIMULATOR_TRAPPED, said="no map")
    runs = (RunReport("one", verdict, (difference,), untried=("cranelift",)), RunReport("two", fault))
    lines = list(checked_lines(CheckReport((Remark(Weight.NOTE, "it is large"),), runs, None, None)))
    assert "one: verified" in lines
    assert "  played-before: score is 24, not 12" in lines
    assert "  could not be tried, too slow or not supported by the engine: cranelift" in lines
    assert any("no map" in line for line in lines)
    assert "not replay-safe" == lines[-1]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.sgr", b"SGR1", "does not contain its seed"),
        ("run.json", b'{"seed": "1"}', "recording: Field required"),
        ("run.json", b'{"seed": "-1", "recording": ""}', "seed: String should match"),
        ("run.json", b'{"seed": "99999999999999999999", "recording": ""}', "a number of 64 bits"),
        ("run.json", b'{"seed": "1", "recording": "?"}', "expected base64"),
        ("run.json", b'{"seed": "1", "recording": "AAAA"}', "not a recording"),
    ],
)
def test_what_holds_no_run_is_an_error(tmp_path: Path, module: Path, name: str, content: bytes, words: str):
    """Status 2 territory: the file is named, and what was expected in it."""
    path = tmp_path / name
    path.write_bytes(content)
    result = sim("check", module, path)

    assert result.exit_code not in {0, None}
    assert words.replace("it does", "does") in str(result.exception)


def test_a_plug_in_is_tried_like_a_module(tmp_path: Path, recording: Path):
    """Its kind is told by the suffix; it is played many times, in fresh processes."""
    plugin = tmp_path / "game.py"
    plugin.write_text(PLUGIN)
    assert 0 == sim("run", plugin, recording, "--seed", SEED).exit_code
    assert 0 == sim("check", plugin, recording, "--seed", SEED, "--repeats", 2).exit_code

    plugin.write_text("import random\n" + PLUGIN.replace("state + 0", "state + random.randrange(2**60)"))
    fickle = sim("check", plugin, recording, "--seed", SEED, "--repeats", 2)
    assert (1, True) == (fickle.exit_code, "again: " in fickle.output)


@glibc_only
def test_P13_a_program_that_reads_what_it_did_not_write_is_found(tmp_path: Path, recording: Path):
    """In a process of its own fresh memory is zeros, day after day; here it is filled with one number and another."""
    need_programs()
    adds = "ctypes.c_char.from_address(libc.malloc(2**22) + 4096).value[0]"
    before = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
    program = serving(
        tmp_path,
        f"found = honest(asked); say(dict(found, stats={{}}, score=found['score'] + {adds}))",
        before,
    )
    options = [recording, "--seed", SEED, "--repeats", 1]
    found = json.loads(sim("check", program.path, *options, "--json").stdout)
    assert [False, ["memory-85", "memory-170"]] == [found["is_safe"], found["settings"]]
    [run] = found["runs"]
    assert {("memory-85", "score", PLAY.score + 170), ("memory-170", "score", PLAY.score + 85)} == {
        (each["setting"], each["what"], int(each["found"])) for each in run["differences"]
    }

    honest = serving(tmp_path, "say(dict(honest(asked), stats={}))")
    assert 0 == sim("check", honest.path, *options).exit_code


@pytest.mark.parametrize(
    ("body", "words"),
    [("raise OSError('no map E1M9')", "OSError: no map E1M9"), ("import sys; sys.exit('gone')", "gone")],
)
def test_a_simulator_that_fails_tells_its_developer_why(
    tmp_path: Path, run_file: Path, body: str, words: str
):
    """Its own words are printed, whether it said them in an answer or as it died."""
    plugin = tmp_path / "game.py"
    plugin.write_text(f"def simulate(**asked):\n    {body}\n")
    result = sim("run", plugin, run_file)
    assert (1, True) == (result.exit_code, f"it said     {words}" in result.output)
    assert words == json.loads(sim("run", plugin, run_file, "--json").stdout)["said"]
