"""`policy new`: the file that each path of answers makes is one that loads, and is what was answered."""

from __future__ import annotations

import errno
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from policies.advice import advice_on
from policies.choices import Writes
from policies.fields import SortOrder
from policies.loader import load_board, load_policies
from policies.model import Policy
from policies.vocabulary import SCORE_LIMIT, SimulatorKind
from scoregate import policy_file
from scoregate.cli import app
from tests.support.game import MODULE


def new(file: Path, *options: object, answers: str | None = None) -> Result:
    return CliRunner().invoke(app, ["policy", "new", str(file), *map(str, options)], input=answers)


def told(policy: Policy) -> dict[str, Any]:
    """What the answers decide."""
    replay = policy.replay
    return {
        "board": policy.board,
        "title": policy.title,
        "writes": policy.writes,
        "order": policy.order,
        "score": (policy.score.minimum, policy.score.maximum),
        "windows": [each.value for each in policy.windows],
        "replay": replay
        and (replay.simulator, replay.maximum_ticks, replay.ticks_per_second, [*policy.builds]),
        "buttons": policy.forensics.buttons,
    }


def expected(**changes: Any) -> dict[str, Any]:
    return {
        "board": "coins",
        "title": "Coins",
        "writes": Writes.OPEN,
        "order": SortOrder.DESCENDING,
        "score": (0, 500),
        "windows": ["alltime"],
        "replay": None,
        "buttons": 2**32 - 1,
    } | changes


PATHS = {
    "open, by return alone": (["", "", "", "", "500", "", ""], expected()),
    "open, each answered": (
        ["null", 'Drei Münzen: "gut" #1', "open", "lower", "-1", "-500", "daily, alltime"],
        expected(
            board="null",
            title='Drei Münzen: "gut" #1',
            order=SortOrder.ASCENDING,
            score=(-500, -1),
            windows=["daily", "alltime"],
        ),
    ),
    "wrong answers are asked again": (
        [
            "Coins!",
            "coins",
            "x" * 81,
            "Coins",
            "everybody",
            "open",
            "best",
            "higher",
            "many",
            "500",
            "900",
            "0",
            "hourly",
            "",
        ],
        expected(),
    ),
    "trusted, without bounds": (
        ["", "", "trusted", "", "", "weekly"],
        expected(writes=Writes.TRUSTED, score=(-SCORE_LIMIT, SCORE_LIMIT), windows=["weekly"]),
    ),
    "trusted, with bounds": (["", "", "trusted", "", "500", "", ""], expected(writes=Writes.TRUSTED)),
    "verified": (
        ["", "", "verified", "", "500", "", "", "nowhere.wasm", str(MODULE), "", "7200", "", "5"],
        expected(writes=Writes.VERIFIED, replay=(SimulatorKind.WASM, 7200, 60, ["coins-1"]), buttons=31),
    ),
    "verified, nothing said of buttons": (
        ["", "", "verified", "", "500", "", "", str(MODULE), "v1.0", "7200", "30", ""],
        expected(writes=Writes.VERIFIED, replay=(SimulatorKind.WASM, 7200, 30, ["v1.0"])),
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_N02_each_path_of_answers_makes_a_right_file(tmp_path: Path, name: str):
    """Every question is answered in turn; the file loads and says what was answered, each setting with a comment."""
    file, (answers, says) = tmp_path / "coins.yaml", PATHS[name]
    result = new(file, answers="".join(f"{each}\n" for each in answers))

    assert 0 == result.exit_code, result.output
    policy = load_board(file).policy
    assert says == told(policy)
    assert set() == {each.partition(":")[0] for each in advice_on(policy)} - {"forensics.buttons"}
    assert file.read_text().count("\n#") >= 4
    assert 0 == CliRunner().invoke(app, ["policy", "check", "--no-run", str(file)]).exit_code


def test_N02_options_answer_without_a_question(tmp_path: Path):
    """Nothing is read from standard input, and what only the studio knows is named when it is missing."""
    file = tmp_path / "coins.yaml"
    lacking = new(file, "--no-ask")
    wrong = new(file, "--no-ask", "--maximum", "500", "--order", "best")
    options = ["--simulator", MODULE, "--maximum-ticks", 7200, "--buttons", 5, "--maximum", 500]
    result = new(file, "--no-ask", *options)

    assert "--maximum is needed" in str(lacking.exception)
    assert "--order: expected higher or lower; got 'best'" == str(wrong.exception)
    assert (0, "") == (result.exit_code, result.stderr)
    assert PATHS["verified"][1] == told(load_board(file).policy)


def test_N02_a_simulator_is_found_from_the_file_and_not_from_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Named as the shell sees it, it is written as the file does, so that both may move together."""
    for name in ("game", "boards"):
        (tmp_path / "studio" / name).mkdir(parents=True)
    (tmp_path / "studio" / "game" / "sim.wasm").write_bytes(MODULE.read_bytes())
    monkeypatch.chdir(tmp_path)
    options = ["--simulator", "studio/game/sim.wasm", "--maximum-ticks", 7200, "--maximum", 500]
    made = new(Path("studio/boards/coins.yaml"), "--no-ask", *options)
    assert 0 == made.exit_code, made.output
    (tmp_path / "studio").rename(tmp_path / "moved")
    [simulator] = load_board(tmp_path / "moved" / "boards" / "coins.yaml").simulators.values()
    assert (tmp_path / "moved" / "game" / "sim.wasm").samefile(simulator.path)


def test_N02_a_simulator_is_found_from_a_folder_behind_a_link(tmp_path: Path):
    """From where the folder is: `..` behind a link leads to another place than it seems to."""
    (tmp_path / "far" / "away" / "boards").mkdir(parents=True)
    (tmp_path / "boards").symlink_to(tmp_path / "far" / "away" / "boards")
    (tmp_path / "sim.wasm").write_bytes(MODULE.read_bytes())
    options = ["--simulator", tmp_path / "sim.wasm", "--maximum-ticks", 7200, "--maximum", 500]
    made = new(tmp_path / "boards" / "coins.yaml", "--no-ask", *options)
    assert 0 == made.exit_code, made.output
    [simulator] = load_board(tmp_path / "boards" / "coins.yaml").simulators.values()
    assert (tmp_path / "sim.wasm").samefile(simulator.path)


def test_N02_no_answer_leads_to_a_default_or_a_list_that_is_refused(tmp_path: Path):
    """The build of a board with a long name has one that builds may have; a window that is named twice is kept once."""
    name = "coins" * 9 + "abc"
    file = tmp_path / f"{name}.yaml"
    options = ["--simulator", MODULE, "--maximum-ticks", 7200, "--maximum", 500]
    assert 0 == new(file, "--no-ask", *options, "--windows", "daily,alltime, daily,").exit_code
    policy = load_board(file).policy
    assert (name, ["daily", "alltime"]) == (policy.board, [each.value for each in policy.windows])
    assert [f"{name[:30]}-1"] == [*policy.builds]


def test_N02_a_file_that_is_there_is_left_alone(tmp_path: Path):
    """Nothing is asked, and nothing is written; what cannot be loaded is not left behind either."""
    file, other = tmp_path / "coins.yaml", tmp_path / "other.yaml"
    file.write_text("mine")
    refused = new(file, "--no-ask", "--maximum", 500)
    nowhere = new(tmp_path / "none" / "coins.yaml", "--no-ask", "--maximum", 500)
    other.symlink_to("dangling")

    assert (2, "mine") == (refused.exit_code, file.read_text())
    assert "is there already" in refused.stderr
    assert "cannot be written: No such file or directory" in str(nowhere.exception)
    assert "is there already" in str(new(other, "--no-ask", "--maximum", 500).exception)


def test_N02_what_is_not_right_is_not_left_behind(tmp_path: Path):
    """A folder with such a file would start no part any more: here the path of the simulator cannot be written down."""
    file, simulator = tmp_path / "coins.yaml", Path(os.fsdecode(os.fsencode(tmp_path) + b"/g\xff.wasm"))
    simulator.write_bytes(MODULE.read_bytes())
    refused = new(file, "--no-ask", "--maximum", 500, "--maximum-ticks", 60, "--simulator", simulator)
    assert f"{file}: cannot be read" in str(refused.exception)
    assert not file.exists()


def test_N02_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The fault names the file; the same command works once there is room."""

    def full(*_: object) -> Iterator[str]:
        yield "# A board"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command = ["policy", "new", str(tmp_path / "race.yaml"), "--writes", "trusted", "--no-ask"]
    with monkeypatch.context() as patched:
        patched.setattr(policy_file, "_lines", full)
        refused = CliRunner().invoke(app, command)
    assert f"{tmp_path / 'race.yaml'}: cannot be written: No space left on device" == str(refused.exception)
    assert [] == list(tmp_path.iterdir())
    assert 0 == CliRunner().invoke(app, command).exit_code


def test_N02_it_is_asked_at_a_terminal(tmp_path: Path):
    """On a real pseudo-terminal the questions have their defaults, and standard output is left to the result."""
    file = tmp_path / "coins.yaml"
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "scoregate", "policy", "new", str(file)])
    seen = ""
    for question, answer in [
        ("keys [coins]", ""),
        ("readers [Coins]", ""),
        ("[open]", ""),
        ("[higher]", ""),
        ("Highest score there can be", "500"),
        ("[0]", ""),
        ("[alltime]", "daily"),
    ]:
        while question not in seen:
            seen += os.read(terminal, 1024).decode()
        seen = ""
        os.write(terminal, f"{answer}\n".encode())
    _, status = os.waitpid(child, 0)
    os.close(terminal)

    assert 0 == os.waitstatus_to_exitcode(status)
    assert expected(windows=["daily"]) == told(load_board(file).policy)


FAMILIES = {
    "opened by servers, by return alone": (
        [],
        ["", "", "", "500", "", "", "", "", ""],
        ("servers", None, "run"),
    ),
    "opened by players, each answered": (
        [],
        [
            "Tracks",
            "open",
            "lower",
            "500",
            "0",
            "daily",
            "anybody",
            "both",
            "",
            "[a-",
            "[a-z]{1,9}",
            "game",
            "board",
        ],
        ("both", "[a-z]{1,9}", "board"),
    ),
    "trusted, which has no seeds": (
        ["--writes", "trusted"],
        ["", "", "", "", "", ""],
        ("servers", None, "run"),
    ),
    "by options alone": (
        ["--no-ask", "--maximum", 500, "--opened-by", "players", "--names", "a|b", "--seed", "board"],
        [],
        ("players", "a|b", "board"),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_each_path_of_answers_makes_a_right_family(tmp_path: Path, name: str):
    """What was answered of names, of who opens boards and of seeds is in the file, each with a comment."""
    file, (options, answers, says) = tmp_path / "anything.yaml", FAMILIES[name]
    result = new(file, "--family", "track", *options, answers="".join(f"{each}\n" for each in answers))

    assert 0 == result.exit_code, result.output
    [family] = load_policies(tmp_path).families.values()
    policy = family.policy
    assert ("track", *says) == (family.name, policy.opened_by, policy.names, policy.seed)
    assert f"{file}: family 'track', {family.digest}; next: scoregate policy check {file}" in result.output
    assert "# Its boards are called track.<name>." in file.read_text()
    assert 0 == CliRunner().invoke(app, ["policy", "check", "--no-run", str(file)]).exit_code


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--board", "a", "--family", "b"], "--board and --family: a file describes one of them"),
        (["--family", "Track"], "--family: expected small letters"),
        (["--family", "track", "--opened-by", "anybody"], "--opened-by: expected servers, players, both"),
        (["--family", "track", "--opened-by", "both"], "--names is needed: Pattern for their names"),
        (
            ["--family", "track", "--opened-by", "both", "--names", ""],
            "--names: players may only open boards",
        ),
        (
            ["--family", "track", "--names", "[a-"],
            "--names: not a pattern that can be matched in linear time",
        ),
        (["--family", "track", "--seed", "game"], "--seed: expected run, board"),
    ],
)
def test_a_wrong_option_of_a_family_is_named(tmp_path: Path, options: list[str], fault: str):
    """And no file is left."""
    file = tmp_path / "track.yaml"
    result = new(file, "--no-ask", "--maximum", 500, *options)
    assert str(result.exception).startswith(fault)
    assert not file.exists()
