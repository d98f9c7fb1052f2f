"""What people expect of a command line: the version, short help, completion, light starts, and errors of one line."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scoregate.cli import app
from scoregate.commands.groups import GROUPS

KEY = "A" * 43 + "="


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--version"], version("scoregate")),
        (["version"], version("scoregate")),
        (["-h"], "Usage:"),
        (["key", "-h"], "Usage:"),
        (["key", "add", "-h"], "--public-key"),
    ],
)
def test_N08_what_every_command_line_answers(words: list[str], said: str):
    """The version both ways, and help by `-h` at each level."""
    result = CliRunner().invoke(app, words, prog_name="scoregate")

    assert 0 == result.exit_code, result.output
    assert said in result.output


def test_N08_a_shell_completes_commands():
    """What is asked by the script that `--install-completion` puts in place."""
    asked = {"_SCOREGATE_COMPLETE": "complete_bash", "COMP_WORDS": "scoregate webh", "COMP_CWORD": "1"}
    result = CliRunner(env=asked).invoke(app, [], prog_name="scoregate")

    assert (0, "webhook") == (result.exit_code, result.output.strip())


LIGHT = (
    ["--version"],
    ["version"],
    ["-h"],
    [],
    ["up", "-h"],
    *([name, "-h"] for name in GROUPS),
    ["key", "add", "-h"],
    ["keyy"],
)
"""What is asked often, or by somebody who looks around: it is answered before a second thought of the machine."""

HEAVY = {
    *("aiohttp", "redis", "sqlalchemy", "structlog", "rq", "numpy", "prometheus_client"),
    *("pydantic", "rich", "asyncio", "ssl", "ruamel", "gateway", "replay", "validators"),
}


def test_N08_a_light_command_loads_no_part():
    """Neither HTTP, Redis, SQL nor a log is loaded to say the version, to help or to complete; nor what makes typer slow."""
    program = f"""if True:
        import os, sys
        from scoregate.cli import app
        def heavy():
            return sorted({HEAVY!r} & set(sys.modules))
        for words in {LIGHT!r}:
            try:
                app(words, prog_name="scoregate")
            except SystemExit:
                pass
            print(words, heavy(), file=sys.stderr)
        os.environ |= {{"_SCOREGATE_COMPLETE": "complete_bash", "COMP_WORDS": "scoregate key re", "COMP_CWORD": "2"}}
        try:
            app([], prog_name="scoregate")
        except SystemExit:
            pass
        print("completion", heavy(), file=sys.stderr)
    """
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    listed = [line for line in told.stderr.splitlines() if line.endswith("]")]

    assert [f"{words} []" for words in [*LIGHT, "completion"]] == listed
    assert "revoke" == told.stdout.splitlines()[-1]


def test_N08_each_group_is_listed_by_what_it_is():
    """Every group has commands, and every command of the whole is in its list with a sentence that is not cut."""
    for words in ([], *([name] for name in GROUPS)):
        result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*words, "-h"], prog_name="scoregate")
        _, _, listed = result.output.partition("Commands:\n")
        assert "  " in listed, words
        assert [] == [line for line in listed.splitlines() if "..." in line]


def test_a_key_in_a_new_ledger_is_not_taken_for_one_of_the_deployment(tmp_path: Path):
    """Whoever registers it in another folder than the deployment's is told so; a key that is none begins no ledger."""
    data = tmp_path / "data"
    add = ["key", "add", "eu-1", "--data-dir", str(data), "--public-key"]
    public_key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    told = f"{data / 'ledger.sqlite3'}: nothing has run here, so this is a new ledger"

    refused = CliRunner().invoke(app, [*add, "nope"])
    assert (1, "", False) == (refused.exit_code, refused.stderr, data.exists())
    first = CliRunner().invoke(app, [*add, public_key])
    assert (0, True) == (first.exit_code, first.stderr.startswith(told)), first.stderr
    assert "" == CliRunner().invoke(app, [*add, public_key]).stderr


def test_a_webhook_in_a_new_ledger_is_not_taken_for_one_of_the_deployment(tmp_path: Path):
    """Nobody would ever deliver to it; an address that is not allowed begins no ledger."""
    data = tmp_path / "data"
    add = ["webhook", "add", "--data-dir", str(data)]
    told = f"{data / 'ledger.sqlite3'}: nothing has run here, so this is a new ledger"
    refused = CliRunner().invoke(app, [*add, "http://example.com/"])
    assert (1, "", False) == (refused.exit_code, refused.stderr, data.exists())
    first = CliRunner().invoke(app, [*add, "https://example.com/"])
    assert (0, True) == (first.exit_code, first.stderr.startswith(told)), first.stderr
    assert "" == CliRunner().invoke(app, [*add, "https://example.com/"]).stderr


@pytest.mark.parametrize(
    "words",
    [
        ["key", "add", "eu-1", "--public-key", KEY],
        ["token", "moderator", "mara"],
    ],
)
def test_N06_a_board_that_there_is_not_is_refused_by_name(tmp_path: Path, words: list[str]):
    """Nothing is registered or minted for it, nor for the board beside it; the boards that there are are named."""
    scope = ["--board", "arcade", "--board", "nope", "--data-dir", str(tmp_path)]
    refused = CliRunner().invoke(app, [*words, *scope])

    assert refused.exit_code
    assert "there is no board or family 'nope'" in str(refused.exception)
    assert str(refused.exception).endswith("; boards: arcade; families: arcade-course, daily")
    assert [] == list(tmp_path.iterdir())
