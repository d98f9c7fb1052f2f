"""What a simulator says as it fails reaches whoever can mend it: the worker's log, the case, and `sim check`."""

from __future__ import annotations

import base64
import json
from contextlib import AsyncExitStack
from pathlib import Path

from structlog.testing import capture_logs
from typer.testing import CliRunner

from gateway.ledger import queries
from policies.vocabulary import Reason
from replay.simulators import SAID_CHARACTERS, SAID_LINES, Simulation, SimulatorFault
from replay.simulators.all_simulators import AllSimulators
from replay.simulators.process import ProcessSimulators
from scoregate.cli import app
from tests.support import boards
from tests.support.boards import BUILD, CHECKPOINT_TICKS, tiny_play
from tests.support.programs import need_programs, request, serving
from tests.support.valkey import ValkeyServer
from tests.support.yard import a_yard

BROKEN = """
import sys
def simulate(ticks, **asked):
    sys.stderr.write("x" * 100_000 + "\\n" * 50 + f"level {ticks} is not there\\n" + "\\x1b[2J\\u202e" + "y" * 999)
    sys.stderr.flush()
    raise SystemExit(3)
"""


def broken_board(folder: Path) -> Path:
    """A board whose plug-in writes much, and ends."""
    folder.mkdir()
    plugin = folder / "broken.py"
    plugin.write_text(BROKEN)
    replay = {"simulator": "plugin", "maximum_ticks": 100_000, "checkpoint_ticks": CHECKPOINT_TICKS}
    stats = list(boards.STATS)
    return boards.write_board(
        folder, builds={BUILD: {"simulator": "broken.py"}}, replay={**replay, "stats": stats}
    )


async def test_N01_the_log_and_the_case_have_what_the_simulator_said(tmp_path: Path, valkey: ValkeyServer):
    """At warning, with board, build, and run; bounded, and without control characters."""
    broken_board(tmp_path / "policies")
    async with AsyncExitStack() as stack:
        yard = await a_yard(stack, tmp_path, valkey)
        await yard.append("first", "second")
        with AllSimulators() as simulators, capture_logs() as logs:
            assert ["held", "held"] == await yard.verify("first", "second", simulators=simulators)
        [*_, event] = await yard.ledger.read(queries.history_of("second"))
    told = [each for each in logs if each["event"] == "simulator_failed"]
    assert [("warning", name, "tiny", BUILD) for name in ("first", "second")] == [
        (each["log_level"], each["submission"], each["board"], each["build"]) for each in told
    ]
    said, ticks = told[1]["said"], tiny_play(1, points=6).ticks
    assert Reason.SIMULATOR_TRAPPED == told[1]["reason"]
    assert {"exit_status": 3} == told[1]["detail"]
    assert (said, 3) == (event["detail"]["said"], event["detail"]["exit_status"])
    lines = said.splitlines()
    assert [f"level {ticks} is not there", "[2J" + "y" * (SAID_CHARACTERS - 5)] == lines[-2:]
    assert len(lines) <= SAID_LINES


def test_N01_sim_check_says_what_the_simulator_said(tmp_path: Path):
    """The exit status and its words, for people and for machines."""
    policy, played = broken_board(tmp_path / "policies"), tiny_play(1, points=6)
    run = {
        "seed": "1",
        "score": played.score,
        "ticks": played.ticks,
        "stats": played.stats,
        "recording": base64.b64encode(played.recording).decode(),
    }
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run))
    command = ["sim", "check", str(policy.parent / "broken.py"), str(file), "--policy", str(policy)]
    result = CliRunner().invoke(app, command)
    assert 1 == result.exit_code
    assert "  it ended with status 3" in result.output
    assert f"level {played.ticks} is not there" in result.output
    [checked] = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["runs"]
    assert (3, True) == (checked["detail"]["exit_status"], "is not there" in checked["said"])


def test_N01_what_was_said_of_another_run_is_not_told_of_this_one(tmp_path: Path):
    """A process that plays several runs complains of one player's, and fails at the next."""
    need_programs()
    body = """
        seen = globals().get("seen", 0) + 1
        print("run", seen, file=sys.stderr, flush=True)
        if seen == 2: sys.exit(4)
        say(honest(asked))
    """
    program = serving(tmp_path, body)
    with ProcessSimulators(is_alone=True) as programs:
        assert isinstance(programs.simulate(request(program)), Simulation)
        expected = SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 4}, "run 2")
        assert expected == programs.simulate(request(program))


def test_N01_what_is_said_after_the_answers_end_is_told(tmp_path: Path):
    """A program that closes its output first, and complains as it ends, is heard to its end."""
    need_programs()
    body = "os.close(1); time.sleep(0.2); sys.stderr.write('too late'); sys.stderr.flush(); os._exit(5)"
    with ProcessSimulators(is_alone=True) as programs:
        expected = SimulatorFault(Reason.SIMULATOR_TRAPPED, {"exit_status": 5}, "too late")
        assert expected == programs.simulate(request(serving(tmp_path, body)))
