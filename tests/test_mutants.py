"""The tool that breaks the product on purpose: what it says of breakages that are noticed, survive, or do not apply."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.mutants import trials
from tests.mutants.__main__ import main
from tests.mutants.catalogue import CatalogueError, Mutant, read_catalogue
from tests.mutants.trials import CHECKOUT

PRODUCT = "def least(numbers):\n    return min(numbers)\n\n\ndef unused():\n    return 1\n"
WAITING_TESTS = """import asyncio, uvloop
from product import least

def test_least():
    uvloop.run(asyncio.sleep(0 if least([2, 1]) == 1 else 15))
"""
TESTS = "from product import least\n\n\ndef test_least():\n    assert 1 == least([2, 1])\n"


def breakage(name: str, text: str, becomes: str, **other: Any) -> dict[str, Any]:
    known = {"file": "product.py", "tests": ["test_product.py"], "why": "the wrong number"}
    return {"id": name, "text": text, "becomes": becomes} | known | other


NOTICED = breakage("N", "min(", "max(")
SURVIVING = breakage("S", "return 1", "return 2")
STALE = breakage("A", "sorted(", "list(")
AMBIGUOUS = breakage("B", "return", "return not")
EQUIVALENT = breakage("E", "return 1", "return 1 + 0", equivalent="one and nothing is one")
UNTESTED = breakage("U", "min(", "max(", tests=["test_other.py"])
UNREADABLE = breakage("R", "def least", "def def least")


@pytest.fixture(autouse=True)
def bare_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files need none of the plugins that are installed here, and each trial would load them all."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")


def tried(folder: Path, *entries: dict[str, Any], words: tuple[str, ...] = (), tests: str = TESTS) -> int:
    """The exit status of the command over a checkout of two files."""
    checkout, rooms = folder / "checkout", folder / "rooms"
    for each in (checkout, rooms):
        each.mkdir()
    (checkout / "product.py").write_text(PRODUCT)
    (checkout / "test_product.py").write_text(tests)
    YAML(typ="safe").dump(list(entries), rooms / "room.yaml")
    status = main(words, rooms, checkout)
    assert PRODUCT == (checkout / "product.py").read_text()
    return status


def test_a_breakage_that_survives_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """With its place and why it matters; the exit status is 1, and what was noticed is counted beside it."""
    assert 1 == tried(tmp_path, NOTICED, SURVIVING, words=("-j", "2"))
    said = capsys.readouterr().out
    assert "N: noticed\n" in said
    assert "S: SURVIVED (product.py: the wrong number)\n" in said
    assert said.endswith("2 breakages: 1 noticed, 1 SURVIVED\n")


def test_all_noticed_is_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Others than those that are asked for are not tried."""
    assert 0 == tried(tmp_path, NOTICED, SURVIVING, words=("--only", "N"))
    assert capsys.readouterr().out.endswith("1 breakages: 1 noticed\n")


def test_a_change_that_changes_nothing_is_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What the list says cannot be noticed does not count as surviving, with the reason beside it."""
    assert 0 == tried(tmp_path, EQUIVALENT)
    assert "E: changes nothing (one and nothing is one)\n1 breakages: 1 changes nothing\n" in (
        capsys.readouterr().out
    )


def test_a_breakage_that_hangs_in_a_loop_of_events_is_noticed_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Though the loop of the tests goes on after a signal, whatever its handler raises."""
    monkeypatch.setattr(trials, "TEST_S", 2)
    assert 0 == tried(tmp_path, NOTICED, tests=WAITING_TESTS)
    assert "N: noticed\n" in capsys.readouterr().out


@pytest.mark.parametrize("entry", [STALE, AMBIGUOUS, UNTESTED, UNREADABLE], ids=lambda entry: entry["id"])
def test_a_breakage_that_cannot_be_tried_is_an_error(tmp_path: Path, entry: dict[str, Any]):
    """Its text is gone or there twice, its tests are not there, or it breaks their import: none of them counts as noticed."""
    assert 2 == tried(tmp_path, entry, words=("--skip-control",))


def test_tests_that_fail_on_what_is_not_broken_notice_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """They are run first as things are."""
    assert 2 == tried(tmp_path, NOTICED, tests=TESTS.replace("1 ==", "3 =="))
    assert "the tests fail as things are" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--only", "X"), ()])
def test_a_list_that_is_wrong_is_refused(tmp_path: Path, words: tuple[str, ...]):
    """An id that nobody has, and one that two have."""
    assert 2 == tried(tmp_path, NOTICED, *([] if words else [NOTICED]), words=words)


@pytest.fixture(scope="module")
def catalogue() -> list[Mutant]:
    """The list, which takes a second to read."""
    return read_catalogue()


@cache
def text_of(file: str) -> str:
    return (CHECKOUT / file).read_text(encoding="utf-8")


def test_every_breakage_on_the_list_applies(catalogue: list[Mutant]):
    """A change of the code takes the list along; the tests that are named are there."""
    wrong = []
    for mutant in catalogue:
        try:
            mutant.applied(text_of(mutant.file))
        except (CatalogueError, OSError) as error:
            wrong.append(str(error))
        wrong += [
            f"{mutant.id}: no {test}"
            for test in mutant.tests
            if not (CHECKOUT / test.split("::")[0]).exists()
        ]
    assert [] == wrong


def test_no_breakage_breaks_by_a_name_that_is_not_there(tmp_path: Path, catalogue: list[Mutant]):
    """A name that was renamed since raises a NameError, which every test would notice, and says nothing."""
    for breakage in catalogue:
        if breakage.file.endswith(".py"):
            text = breakage.applied(text_of(breakage.file))
            (tmp_path / f"{breakage.id}.py").write_text(text, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"]
    given = [*ruff, "--select", "F821,F823", "--output-format", "concise", str(tmp_path)]
    assert "" == subprocess.run(given, capture_output=True, text=True, check=False).stdout
