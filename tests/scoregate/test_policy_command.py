"""`policy check` and `policy diff`: what a policy file means, in words, and in what two differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from policies.judging import Modes
from scoregate.cli import app
from tests.support.game import BUILD
from tests.support.policies import a_policy, arcade_policy, write_policies

ROOT = Path(__file__).parents[2]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["policy", *map(str, words)])


def a_file(folder: Path, **changes: Any) -> Path:
    return write_policies(folder, arcade_policy(**changes)) / "arcade.yaml"


def test_a_right_file_is_explained(tmp_path: Path):
    """Who writes, what counts, what time is expected, which builds, and each validator with its mode."""
    result = run("check", a_file(tmp_path))
    lines = [line.split(maxsplit=1) for line in result.output.splitlines()[1:]]

    assert 0 == result.exit_code
    assert "players (a run counts once its replay gives the claim)" in result.output
    assert "0 to 115400 in steps of 10; the highest is first; a player's best counts" in result.output
    assert "the longest run has 7200 (120 s)" in result.output
    assert f"{BUILD} (allow, sha256:" in result.output
    assert "flag: a run with a finding waits for a moderator." in result.output
    assert set(Modes.model_fields) <= {name for name, _ in lines}
    assert "warning" not in result.output


def test_each_validator_says_what_it_looks_for_in_one_sentence(tmp_path: Path):
    """In `policy check`, in the schema and in the reference: from the description of its setting."""
    output = run("check", a_file(tmp_path)).output
    schema = Modes.model_json_schema()["properties"]
    reference = (ROOT / "docs" / "reference" / "policy.md").read_text("utf-8")

    for name, field in Modes.model_fields.items():
        text = field.description or "nothing"
        assert f" Looks for {text.replace('`', '')}." in " ".join(output.split()), name
        assert text == schema[name]["description"]
        assert re.search(
            rf"^\| `validators\.{name}` \| .* \| `{field.default}` \| {re.escape(text)}",
            reference,
            re.MULTILINE,
        )


def test_what_no_sentence_tells_is_listed(tmp_path: Path):
    """A setting that somebody adds to the model is shown as soon as a file sets it."""
    result = run("check", a_file(tmp_path, details={"integers": 4}, staleness_s=0.0))

    assert "also               details.integers: 4" in result.output
    assert "staleness_s" not in result.output


def test_an_unwise_file_is_right_with_a_warning(tmp_path: Path):
    """The status stays 0: it can be put in force."""
    result = run("check", a_file(tmp_path, run_lifetime_s=60))

    assert 0 == result.exit_code
    assert (
        "  warning: run_lifetime_s: a ticket expires after 60 s, but the longest run takes 120 s"
        in result.output
    )


def test_a_wrong_file_is_told_with_its_line(tmp_path: Path):
    """The first word is the file, then the line, then the setting."""
    file = a_file(tmp_path, run_lifetime_s=1)
    result = run("check", file)

    assert result.exit_code
    assert f"{file}:1: run_lifetime_s:" in str(result.exception)


def test_all_files_are_checked_though_one_is_wrong(tmp_path: Path):
    """What is right is explained, and what is wrong of each of the others is told at the end."""
    wrong = [a_file(tmp_path / name, run_lifetime_s=1) for name in ("a", "c")]
    right = a_file(tmp_path / "b")
    for more in ([], ["--json"]):
        result = run("check", "--no-run", wrong[0], right, wrong[1], *more)
        assert str(right) in result.output
        assert [f"{file}:1: run_lifetime_s" for file in wrong] == [
            line.rpartition(": expected")[0] for line in str(result.exception).splitlines()
        ]


def test_a_folder_is_checked_as_its_files_are(tmp_path: Path):
    """Each by itself, and then together: two files may describe the same board."""
    file = a_file(tmp_path)
    assert run("check", "--no-run", file).output == run("check", "--no-run", tmp_path).output
    (tmp_path / "other.yaml").write_bytes(file.read_bytes())
    (empty := tmp_path / "empty").mkdir()
    for folder, fault in ((tmp_path, "'arcade' is already described"), (empty, "at least one policy file")):
        assert fault in str(run("check", "--no-run", folder).exception)


def test_the_files_of_a_folder_are_told_by_name(tmp_path: Path):
    """So that what is told of two folders can be compared, whatever order a disk keeps."""
    names = [f"{letter}{number}" for letter in "zab" for number in range(4)]
    for name in names:
        write_policies(tmp_path, a_policy(name))
    lines = run("check", "--no-run", tmp_path, "--json").stdout.splitlines()
    assert sorted(names) == [json.loads(line)["board"] for line in lines]


def test_two_files_of_one_folder_are_refused_as_their_folder_is(tmp_path: Path):
    """Each names the other; the same board in two folders is of two deployments, and a file given twice is one."""
    first, elsewhere = a_file(tmp_path / "two"), a_file(tmp_path / "one")
    (second := first.with_name("second.yaml")).write_bytes(first.read_bytes())
    for files in ((first, second), (first.parent,), (second.parent / ".." / "two" / second.name, first)):
        fault = str(run("check", "--no-run", *files).exception)
        assert fault.partition(": ")[2].startswith("board 'arcade' is already described by ")
        assert first.name in fault
        assert second.name in fault
    for files in ((first, elsewhere), (first, first)):
        assert 0 == run("check", "--no-run", *files).exit_code


def test_equal_files_are_told_by_the_status(tmp_path: Path):
    """Nothing is printed."""
    result = run("diff", a_file(tmp_path / "old"), a_file(tmp_path / "new"))

    assert (0, "") == (result.exit_code, result.output)


def test_a_difference_is_told_with_what_it_takes(tmp_path: Path):
    """Each by its name, both values, the effect, and what the section is about."""
    new = a_file(tmp_path / "new", order="ascending", title="Aphelion")
    result = run("diff", a_file(tmp_path / "old"), new)

    assert 1 == result.exit_code
    [title, order] = result.output.splitlines()
    assert "title: Perihelion -> Aphelion; takes effect at once" == title
    assert (
        "order: descending -> ascending; needs a restart of all parts; a steward then folds the board anew, and reads of it wait "
        "(The order of values: which of them rank first.)"
    ) == order


def test_a_wrong_file_is_no_difference(tmp_path: Path):
    """It is an error, and neither equal nor different."""
    result = run("diff", a_file(tmp_path / "old"), tmp_path / "none.yaml")

    assert "PolicyError" == type(result.exception).__name__


def test_N08_what_is_told_of_policies_is_json_for_programs(tmp_path: Path):
    """An object for each file, and one for each difference; the status is the same as without."""
    old, new = a_file(tmp_path / "old"), a_file(tmp_path / "new", title="Other")
    checked = [json.loads(line) for line in run("check", old, new, "--json").output.splitlines()]
    told = run("diff", old, new, "--json")

    assert [(str(old), "arcade", []), (str(new), "arcade", [])] == [
        (each["file"], each["board"], each["warnings"]) for each in checked
    ]
    assert [("title", "Other")] == [
        (each["setting"], each["new"]) for each in map(json.loads, told.output.splitlines())
    ]
    assert (1, 0) == (told.exit_code, run("diff", old, old, "--json").exit_code)
