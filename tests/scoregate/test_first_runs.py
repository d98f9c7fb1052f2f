"""`policy check` starts the simulators that a policy names; what they say when they fail is told wherever it matters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result
from wasmtime import wat2wasm

from replay.recording import encode
from scoregate import first_runs
from scoregate.cli import app
from tests.replay.games import GAME, STATS
from tests.support.policies import a_policy, write_policies
from tests.support.programs import PLUGIN, PROGRAM, SERVE, need_programs

PLAYS = PROGRAM + SERVE.format(body="say(honest(asked))")


def checked(folder: Path, simulators: dict[str, str | bytes], *more: str, **replay: Any) -> Result:
    """The answer for a policy with a build for each of these files."""
    folder.mkdir(exist_ok=True)
    for name, content in simulators.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    section = {"maximum_ticks": 600, "checkpoint_ticks": 50, "stats": STATS} | replay
    builds = {f"of-{name}": {"simulator": name} for name in simulators}
    write_policies(folder, a_policy(writes="verified", builds=builds, replay=section))
    return CliRunner().invoke(app, ["policy", "check", str(folder / "sprint.yaml"), *more])


def troubles(result: Result, folder: Path) -> dict[str, str]:
    """The cause for each file, of an error whose every part names policy, line, build and file."""
    assert 1 == result.exit_code, result.output
    place = rf"^{re.escape(str(folder))}/sprint\.yaml:1: builds\.of-(\S+)\.simulator: {re.escape(str(folder))}/\1: "
    _, *parts = re.split(place, str(result.exception), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def missing(expected: dict[str, tuple[str, ...]], told: dict[str, str]) -> list[str]:
    """What was expected of each and is not told, and whom nothing was expected of."""
    unexpected = sorted(told.keys() ^ expected.keys())
    return unexpected + [
        f"{word!r} in {told[name]!r}"
        for name, words in expected.items()
        for word in words
        if word not in told.get(name, "")
    ]


def test_N01_plugins_that_cannot_play_are_refused_with_the_cause(tmp_path: Path):
    """A syntax error, a package that is not there, no function, an exception, half an answer; the good one is told."""
    files: dict[str, str | bytes] = {
        "good.py": PLUGIN,
        "typo.py": "import math\ndef simulate(:\n",
        "package.py": "import not_there_at_all\n",
        "empty.py": "",
        "raises.py": "def simulate(**asked):\n    return 1 // 0\n",
        "short.py": "def simulate(**asked):\n    return {}\n",
    }
    result = checked(tmp_path, files, simulator="plugin")
    expected = {
        "typo.py": ('File "plugin.py", line 2', "SyntaxError"),
        "package.py": ("No module named 'not_there_at_all'",),
        "empty.py": ("no function `simulate`",),
        "raises.py": ("ZeroDivisionError",),
        "short.py": ("lacks a field",),
    }
    assert [] == missing(expected, troubles(result, tmp_path))
    assert "of-good.py: good.py loads and answers (json-lines 1, cpython" in result.output
    assert 0 == checked(tmp_path, files, "--no-run", simulator="plugin").exit_code


def test_N01_the_simulator_of_a_blocked_build_is_left_alone(tmp_path: Path):
    """It may be why the build is blocked, and is no reason to refuse the policy that says so."""
    for name, content in (("good.py", PLUGIN), ("bad.py", "not python at all")):
        (tmp_path / name).write_text(content)
    replay = {"maximum_ticks": 600, "stats": STATS, "simulator": "plugin"}
    for status, code in (("blocked", 0), ("provisional", 1)):
        builds = {"b-1": {"simulator": "good.py"}, "b-0": {"simulator": "bad.py", "status": status}}
        write_policies(tmp_path, a_policy(writes="verified", builds=builds, replay=replay))
        result = CliRunner().invoke(app, ["policy", "check", str(tmp_path / "sprint.yaml")])
        assert (code, False) == (result.exit_code, "b-0: bad.py loads" in result.output), result.output
        assert "b-1: good.py loads and answers" in result.output


def test_N01_a_plugin_that_hangs_is_refused_within_its_budget(tmp_path: Path):
    """The policy's own limit of time is the check's, and what it said before is told."""
    says = "import sys\ndef simulate(**asked):\n    sys.stderr.write('looking for level 7\\n'); sys.stderr.flush()\n"
    hangs = says + "    while True: pass\n"
    result = checked(tmp_path, {"hangs.py": hangs}, simulator="plugin", budget={"wall_ms": 900})
    expected = {"hangs.py": ("did not answer within 900 ms", "looking for level 7")}
    assert [] == missing(expected, troubles(result, tmp_path))


def test_N01_a_plugin_that_may_take_long_is_not_waited_for_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One tick takes no minute, whatever the budget allows a whole run."""
    monkeypatch.setattr(first_runs, "FIRST_RUN_MS", 900)
    hangs = "def simulate(**asked):\n    while True: pass\n"
    result = checked(tmp_path, {"hangs.py": hangs}, simulator="plugin", budget={"wall_ms": 20_000})
    assert [] == missing({"hangs.py": ("did not answer within 900 ms",)}, troubles(result, tmp_path))


def test_N01_modules_that_cannot_play_are_refused_with_the_cause(tmp_path: Path):
    """Bytes that are no module, one that lacks the interface, one that traps, one with other statistics."""
    traps = GAME.replace("(local.set $goes_on (i32.const 1))", "unreachable")
    files: dict[str, str | bytes] = {
        "good.wasm": bytes(wat2wasm(GAME)),
        "junk.wasm": b"\x7fELF and so on",
        "torn.wasm": bytes(wat2wasm(GAME))[:200],
        "bare.wasm": bytes(wat2wasm("(module)")),
        "traps.wasm": bytes(wat2wasm(traps)),
    }
    result = checked(tmp_path, files)
    expected = {
        "junk.wasm": ("not a WebAssembly module",),
        "torn.wasm": ("the gateway does not accept this WebAssembly module",),
        "bare.wasm": ("exports no function simulate", "exports no memory"),
        "traps.wasm": ("it trapped: unreachable",),
    }
    assert [] == missing(expected, troubles(result, tmp_path))
    assert "of-good.wasm: good.wasm loads and answers (wasmtime" in result.output
    unlike = checked(tmp_path / "stats", {"good.wasm": files["good.wasm"]}, stats=["one"])
    assert [] == missing({"good.wasm": ("gives 2 statistics",)}, troubles(unlike, tmp_path / "stats"))


@pytest.mark.parametrize("checkpoint_ticks", [1, 2])
def test_a_simulator_gets_a_recording_as_its_board_has_them(tmp_path: Path, checkpoint_ticks: int):
    """Of one tick: with a hash if the board wants one of each, and otherwise with none."""
    expected = len(encode(bytes(4), [0] if checkpoint_ticks == 1 else [], checkpoint_ticks))
    asserts = f"    assert len(recording) == {expected}\n    return play(seed"
    files: dict[str, str | bytes] = {"reads.py": PLUGIN.replace("    return play(seed", asserts)}
    result = checked(tmp_path, files, simulator="plugin", checkpoint_ticks=checkpoint_ticks)
    assert 0 == result.exit_code, result.exception
    assert "reads.py loads and answers" in result.output


def test_N01_programs_that_cannot_play_are_refused_with_the_cause(tmp_path: Path):
    """Bytes that nothing runs, an interpreter that is not there, a crash with its last words, a banner, no program."""
    need_programs()
    files: dict[str, str | bytes] = {
        "good": PLAYS,
        "strange": "#!/nowhere/interpreter\n",
        "crashes": PROGRAM + "import not_there_at_all\n",
        "chatty": PROGRAM + "print('Welcome!', flush=True)\n" + SERVE.format(body="pass"),
    }
    result = checked(tmp_path, files, simulator="process")
    expected = {
        "strange": ("it ended with status 12",),
        "crashes": ("No module named 'not_there_at_all'", "it ended with status 1"),
        "chatty": ("JSON",),
    }
    assert [] == missing(expected, troubles(result, tmp_path))
    assert "of-good: good loads and answers (json-lines 1, " in result.output
    (tmp_path / "crashes").unlink()
    gone = CliRunner().invoke(app, ["policy", "check", str(tmp_path / "sprint.yaml")])
    assert "builds.of-crashes.simulator: expected a simulator" in str(gone.exception)


def test_N01_a_raw_recording_may_be_called_malformed(tmp_path: Path):
    """An empty one is no recording of the game: that is an answer, and a crash is told with what was sent."""
    files: dict[str, str | bytes] = {
        "careful.py": "def simulate(recording, **asked):\n    return {'malformed': True}\n",
        "careless.py": "def simulate(recording, **asked):\n    return recording[0]\n",
    }
    result = checked(tmp_path, files, simulator="plugin", recording="raw")
    expected = {"careless.py": ("IndexError", "empty recording")}
    assert [] == missing(expected, troubles(result, tmp_path))


MAPPED = """
import json
def simulate(parameters=None, asset=None, **asked):
    map, gap = asset.decode(), parameters["gap"]
    return {"malformed": True} if gap < 90 else 1 // 0
"""


def test_a_familys_simulator_is_tried_with_the_content_of_its_boards(tmp_path: Path):
    """A plug-in that needs parameters and a map gets the sample's; a board that it cannot play is named."""
    (tmp_path / "game.py").write_text(MAPPED)
    (tmp_path / "monza.map").write_text("a map")
    policy = {
        **a_policy(writes="verified", builds={"b1": {"simulator": "game.py"}}),
        "replay": {"maximum_ticks": 600, "simulator": "plugin", "recording": "raw"},
        "family": "track",
        "sample": {"parameters": {"gap": 60}, "asset": "monza.map"},
    }
    del policy["board"]

    def answer(**changes: Any) -> Result:
        (tmp_path / "track.yaml").write_text(json.dumps(policy | changes))
        return CliRunner().invoke(app, ["policy", "check", str(tmp_path / "track.yaml")])

    good = answer()
    assert "b1: game.py loads and answers (json-lines 1, cpython" in good.output, good.exception
    assert "with the content of the policy's sample" in good.output
    [tried] = re.findall(r"with the content of (.*)", good.output)
    assert "the policy's sample" == tried
    daily = answer(schedule="daily")
    assert "AttributeError" in str(daily.exception), "the board of a day has no map"
    spared = answer(boards={"a": {"title": "A", "parameters": {"gap": 95}}}, sample=None)
    assert "AttributeError" in str(spared.exception)  # there is no map
    assert "(with the content of track.a)" in str(spared.exception)
    assert "ZeroDivisionError" in str(
        answer(sample={**policy["sample"], "parameters": {"gap": 90}}).exception
    )
    lost = answer(sample={"asset": "gone.map"})
    assert f"{tmp_path}/track.yaml:1: sample.asset: {tmp_path}/gone.map: cannot be read" in str(
        lost.exception
    )
