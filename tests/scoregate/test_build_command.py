"""`scoregate build`: what each build may do, by whom, since when and why."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from policies.loader import load_board
from scoregate.cli import app
from tests.support.harness import POLICY

BLOCKED = ("block", "arcade", "arcade-1")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCOREGATE_DATA_DIR", str(tmp_path))
    assert 0 == CliRunner().invoke(app, ["ledger", "migrate"]).exit_code
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["build", *words])


def test_N08_builds_are_listed_with_who_changed_them_and_why(data: Path):
    """What an operator said holds over the policy; a reason is shown without what a terminal would obey."""
    assert 0 == run("block", "arcade", "arcade-1", "--reason", "a speed patch\x1b[31m").exit_code
    assert "it was that before" in run("block", "arcade", "arcade-1", "--reason", "again").output
    listed = run("list", "arcade")
    head, *lines = listed.output.splitlines()
    assert ["BOARD", "BUILD", "STATUS", "SIMULATOR", "BY", "SINCE", "REASON"] == head.split()
    digest = load_board(POLICY).simulators["arcade-1"].digest
    assert [["arcade", "arcade-1", "blocked", digest, "operator"]] == [line.split()[:5] for line in lines]
    assert lines[0].endswith("  a speed patch?[31m")

    rows = [json.loads(line) for line in run("list", "arcade", "--json").output.splitlines()]
    assert [("arcade-1", "blocked", digest, "a speed patch\x1b[31m")] == [
        (each["build"], each["status"], each["simulator"], each["reason"]) for each in rows
    ]
    assert 0 == run("allow", "arcade", "arcade-1", "--reason", "mended").exit_code
    assert "allow" in run("list", "arcade").output


def test_N08_a_change_needs_a_reason_and_a_build_that_there_is_or_was(data: Path):
    """Nothing but blanks is no reason; a build that left the policy can still be changed, for its runs may be open."""
    for reason in ("", " \t", "x" * 501):
        assert "--reason: expected 1 to 500 characters" in str(run(*BLOCKED, "--reason", reason).exception)
    assert 0 == run(*BLOCKED, "--reason", "x" * 500).exit_code
    change = ("allow", "arcade", "arcade-0", "--reason", "old")
    assert "arcade knows no build arcade-0; there are arcade-1" in str(run(*change).exception)
    with sqlite3.connect(data / "ledger.sqlite3") as database:
        columns = "board, revision, status, actor, reason, at_ms"
        database.execute(
            f"INSERT INTO build_changes (build, {columns}) SELECT 'arcade-0', {columns} FROM build_changes"
        )
    assert 0 == run(*change).exit_code
    assert "arcade knows no build arcade-2" in str(run("allow", "arcade", "arcade-2", *change[3:]).exception)


def test_N08_builds_that_nobody_changed_are_the_policys(data: Path):
    """No time and no reason: a dash for people, null for programs. Families have theirs in common for all their boards."""
    line, *of_families = run("list").output.splitlines()[1:]
    assert ["arcade-course", "daily"] == [line.split()[0] for line in of_families]
    assert ["arcade", "arcade-1", "allow", "policy", "-", "-"] == [
        word for word in line.split() if "sha256" not in word
    ]
    row, *_ = [json.loads(line) for line in run("list", "--json").output.splitlines()]
    assert ("policy", None, None) == (row["by"], row["since"], row["reason"])
