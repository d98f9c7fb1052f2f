"""Breakages drawn by lot: what is broken, which tests are tried, and what is said of those that nobody noticed."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.mutants.breakages import applied, breakages_of
from tests.mutants.by_lot import as_mutant, draw, main, nearest_tests
from tests.mutants.impact import Run, read_runs
from tests.mutants.trials import CHECKOUT
from tests.test_mutants import bare_pytest

__all__ = ["bare_pytest"]

PRODUCT = '''"""A product."""
LIMIT = 1


def first(numbers: list[int], least: int = 0) -> int | None:
    """The first number above the least."""
    for number in numbers:
        if number <= least:
            continue
        return number
    return None


def unused(x):
    return f"{x + 1}" if x else None
'''


def broken(source: str) -> Counter[tuple[str, str]]:
    """Each breakage: what stands there, and what becomes of it."""
    raw = source.encode()
    return Counter((raw[each.start : each.end].decode(), each.becomes) for each in breakages_of(source))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("return a < b", {(" < ", " <= ")}),
        ("return a is not b", {(" is not ", " is ")}),
        ("return a not in b", {(" not in ", " in ")}),
        ("return a == b != c", {(" == ", " != "), (" != ", " == ")}),
        ("return a and b", {("a and b", "((b))"), ("a and b", "((a))")}),
        ("return a or b or c", {("a or b or c", "((b) or (c))"), ("a or b or c", "((a) or (c))"), ("a or b or c", "((a) or (b))")}),
        ("return not a", {("not a", "(a)")}),
        ("return a if b else c", {("a if b else c", "(a)"), ("a if b else c", "(c)")}),
        ("return a + b", {("a + b", "(a)")}),
        ("return True", {("True", "False")}),
        ("return 1", {("1", "2")}),
        ("return 3, 'text', None, 1.5", set()),
        ("return min(a)", {("min", "max")}),
        ("return sorted(a)", {("sorted", "list")}),
        ("return sorted(a, key=b)", {("sorted", "list")}),
        ("return [a for a in b if c]", {("c", "True")}),
        ("raise a", {("raise a", "pass")}),
        ("a.b = c", {("a.b = c", "pass")}),
        ("a[b] = c", {("a[b] = c", "pass")}),
        ("a += b", {("a += b", "pass")}),
        ("a = b", set()),
        ("a()", {("a()", "pass")}),
        ("'docstring'", set()),
        ("assert a < b", set()),
        ("if a:\n        return b", {("a", "not (a)"), ("a", "False"), ("a", "True")}),
        ("if a:\n        return b\n    else:\n        return c", {("a", "not (a)")}),
        ("if TYPE_CHECKING:\n        a()", set()),
        ("while a:\n        continue", {("a", "not (a)"), ("continue", "break")}),
        ("a: dict[1, 2] = b", set()),
        ("return f'{a + 1}'", set()),
        ("return 'SELECT a WHERE b <= c AND d IS NULL ORDER BY e DESC'", {("<=", "<"), ("IS NULL", "IS NOT NULL"), ("DESC", "ASC")}),
        ("return f'SELECT {a} FROM b LEFT JOIN c'", {("LEFT JOIN", "JOIN")}),
        ("return 'é', a < b", {(" < ", " <= ")}),
    ],
)  # fmt: skip
def test_what_may_be_broken_of_a_function(statement: str, expected: set[tuple[str, str]]):
    """One thing at a time; and nothing that people read, that types say, or that was chosen."""
    source = f"LIMIT = 1\n\n\ndef function(a, b=0, *, c: 1 = 2) -> 1:\n    {statement}\n"
    assert Counter(expected) == broken(source)
    for each in breakages_of(source):
        compile(applied(source, each), "broken", "exec")


def test_functions_in_functions_and_classes_are_broken_once():
    source = "class A:\n    def b(self):\n        def c():\n            return 1\n        return c\n"
    assert {("1", "2"): 1} == broken(source)


SMALL = "def least(a, b):\n    return a if a < b else b\n\n\ndef unused():\n    return 1\n"
SMALL_TESTS = "from product import least\n\n\ndef test_least():\n    assert 1 == least(2, 1)\n"


def checkout_of(folder: Path, product: str = PRODUCT) -> Path:
    folder.mkdir()
    (folder / "product.py").write_text(product)
    (folder / "test_product.py").write_text(SMALL_TESTS)
    return folder


def noted(folder: Path, *runs: tuple[str, float, dict[str, list[int]]]) -> Path:
    """A folder of what the tests are said to run."""
    folder.mkdir()
    with gzip.open(folder / "gw0.jsonl.gz", "wt") as file:
        for test, seconds, lines in runs:
            shown = {name: f"{sum(1 << line for line in those):x}" for name, those in lines.items()}
            file.write(json.dumps([test, seconds, shown]) + "\n")
    return folder


LEAST = ("test_product.py::test_least", 0.01, {"product.py": [2]})


def test_survivors_are_printed_as_entries_of_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Also one in a line that no test runs."""
    checkout, runs = checkout_of(tmp_path / "checkout", SMALL), noted(tmp_path / "runs", LEAST)
    assert 1 == main([str(runs), "--count", "9", "--under", "product.py", "-j", "2"], checkout)
    said = capsys.readouterr().out.splitlines()
    assert SMALL == (checkout / "product.py").read_text()
    assert "4 breakages: 1 noticed, 3 SURVIVED" == said[-1]
    fates = sorted(line.partition(": ")[2] for line in said if line.startswith("L0"))
    assert fates == [
        "SURVIVED (product.py, line 2: <= and not <)",
        "SURVIVED (product.py, line 2: one of two values always counts)",
        "SURVIVED (product.py, line 6: one more)",
        "noticed (product.py, line 2: one of two values always counts)",
    ]
    entries = YAML(typ="safe").load("\n".join(line for line in said[:-1] if not line.startswith("L0")))
    [one_more] = [each for each in entries if each["text"] == "1"]
    assert {"id", "file", "text", "becomes", "tests"} == set(one_more)
    assert ("product.py", "2", []) == (one_more["file"], one_more["becomes"], one_more["tests"])
    assert [["test_product.py::test_least"]] * 2 == [
        each["tests"] for each in entries if each is not one_more
    ]


def test_all_noticed_is_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    product = "def least(a, b):\n    return min([a, b])\n"
    checkout, runs = checkout_of(tmp_path / "checkout", product), noted(tmp_path / "runs", LEAST)
    assert 0 == main([str(runs), "--under", "product.py"], checkout)
    assert capsys.readouterr().out.endswith("1 breakages: 1 noticed\n")


def test_a_draw_has_each_breakage_once_and_the_same_for_a_seed(tmp_path: Path):
    """Larger files come more often; steps of the schema never."""
    checkout = checkout_of(tmp_path / "checkout")
    steps = checkout / "gateway" / "ledger" / "migrations" / "versions"
    steps.mkdir(parents=True)
    (steps / "r0001.py").write_text(PRODUCT)
    (checkout / "gateway" / "small.py").write_text("def one():\n    return 1\n")
    under = ["product.py", "gateway"]
    drawn = [list(draw(checkout, under, 99, random.Random(7))) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == len(set(drawn[0])) == len(breakages_of(PRODUCT)) + 1
    assert {"product.py", "gateway/small.py"} == {file for file, _ in drawn[0]}
    first = Counter(file for seed in range(60) for file, _ in draw(checkout, under, 1, random.Random(seed)))
    assert first["product.py"] > first["gateway/small.py"] > 0


def test_tests_that_run_the_line_and_little_else_come_first(tmp_path: Path):
    """As many as take the seconds, one at least; of the last line before it that any runs, if none runs the line itself."""
    checkout = checkout_of(tmp_path / "checkout")
    [turned] = [each for each in breakages_of(PRODUCT) if each.becomes == "not (number <= least)"]
    wide = {"product.py": (1 << 30) - 1}
    runs = [
        Run("wide", 1.0, wide),
        Run("slow", 9.0, {"product.py": 1 << 8}),
        Run("near", 1.0, {"product.py": 1 << 8}),
        Run("elsewhere", 1.0, {"other.py": 1 << 8}),
        Run("beside", 1.0, {"product.py": 1 << 10}),
    ]
    for seconds, expected in (
        (99, ("near", "slow", "wide")),
        (10, ("near", "slow")),
        (9, ("near",)),
        (0, ("near",)),
    ):
        assert expected == nearest_tests("product.py", turned, runs, seconds, checkout)
    before = Run("before", 1.0, {"product.py": 1 << 7})
    assert ("before",) == nearest_tests("product.py", turned, [before, runs[4]], 99, checkout)
    outside = Run("import", 1.0, {"product.py": 1 << 5})
    assert () == nearest_tests("product.py", turned, [outside], 99, checkout)


def test_the_text_of_an_entry_is_there_once(tmp_path: Path):
    source = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"
    for each in breakages_of(source):
        entry = as_mutant("L1", "product.py", each, source, ())
        assert 1 == source.count(entry.text)
        assert applied(source, each) == entry.applied(source)


def noting(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "tests.mutants.impact"]
    return subprocess.run(
        [*command, "--impact", str(folder), *words], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython 3.11 tells of no lines: the next test")
def test_which_tests_run_which_lines_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By processes of xdist too."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.delenv("PYTEST_PLUGINS")
    test = "tests/validators/test_progress.py"
    done = noting(tmp_path / "runs", "-n", "1", test)
    assert 0 == done.returncode, done.stdout
    runs = read_runs(tmp_path / "runs")
    assert all(run.test.startswith(test) and run.seconds >= 0 for run in runs)
    ran = [run for run in runs if run.has("validators/progress.py", range(1, 200))]
    assert 0 < len(ran) <= len(runs)
    assert all(run.size >= 2 for run in ran)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer ones tell of lines: the test before")
def test_an_older_cpython_that_cannot_tell_of_lines_says_so(tmp_path: Path):
    done = noting(tmp_path / "runs", "--collect-only", "tests/validators/test_progress.py")
    assert 4 == done.returncode
    assert "--impact needs CPython 3.12 or newer" in done.stdout + done.stderr
