"""Trying breakages: each in a copy of the checkout, with the tests that should notice it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import CatalogueError, Mutant

CHECKOUT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    "venv",
    "__pycache__",
    "*.pyc",
    ".*_cache",
    ".hypothesis",
    "node_modules",
    "dist",
    "build",
)
TEST_S = 60
"""How long one test may take: a breakage that hangs is noticed by that."""

PYTEST_PASSED, PYTEST_FAILED = 0, 1


class Fate(Enum):
    """What became of a breakage."""

    NOTICED = "noticed"
    SURVIVED = "SURVIVED"
    EQUIVALENT = "changes nothing"
    """It survived, as the list says that it must."""
    DOES_NOT_APPLY = "DOES NOT APPLY"
    NO_TESTS = "NO TESTS"
    """Its tests did not run: they are not there, or the breakage broke their import."""


@dataclass(frozen=True)
class Trial:
    """A breakage, what became of it, and the last that pytest or the catalogue said."""

    mutant: Mutant
    fate: Fate
    said: str


def summary_of(fates: Counter[Fate]) -> str:
    """Return how many breakages there were, and what became of them."""
    parts = ", ".join(f"{fates[fate]} {fate.value}" for fate in Fate if fates[fate])
    return f"{fates.total()} breakages: {parts}"


def try_all(mutants: Sequence[Mutant], jobs: int, checkout: Path = CHECKOUT) -> Iterator[Trial]:
    """Yield each trial as it ends, `jobs` at once, each in a copy of its own."""
    with _copies(checkout, jobs) as copies, ThreadPoolExecutor(jobs) as pool:
        trials = [pool.submit(_in_a_copy, mutant, copies) for mutant in mutants]
        for done in as_completed(trials):
            yield done.result()


def failing_unbroken(mutants: Sequence[Mutant], checkout: Path = CHECKOUT) -> str:
    """Return what pytest says of all their tests if they do not pass as things are, "" if they do."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    with _copies(checkout, 1) as copies:
        status, said = _run(copies.get(), tests)
    return "" if status == PYTEST_PASSED else said


@contextmanager
def _copies(checkout: Path, count: int) -> Iterator[SimpleQueue[Path]]:
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="sg-mutants-") as folder:
        for number in range(count):
            copy = Path(folder) / str(number)
            shutil.copytree(checkout, copy, ignore=LEFT_OUT, symlinks=True)
            copies.put(copy)
        yield copies


def _in_a_copy(mutant: Mutant, copies: SimpleQueue[Path]) -> Trial:
    copy = copies.get()
    try:
        return _tried(mutant, copy)
    finally:
        copies.put(copy)


def _tried(mutant: Mutant, copy: Path) -> Trial:
    file = copy / mutant.file
    try:
        source = file.read_text(encoding="utf-8")
        broken = mutant.applied(source)
    except (CatalogueError, OSError) as error:
        return Trial(mutant, Fate.DOES_NOT_APPLY, str(error))
    file.write_text(broken, encoding="utf-8")
    try:
        status, said = _run(copy, mutant.tests)
    finally:
        file.write_text(source, encoding="utf-8")
    survived = Fate.EQUIVALENT if mutant.equivalent else Fate.SURVIVED
    fates = {PYTEST_PASSED: survived, PYTEST_FAILED: Fate.NOTICED}
    return Trial(mutant, fates.get(status, Fate.NO_TESTS), said)


def _run(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Return pytest's exit status and last lines. No bytecode is kept: it could be that of the source before.

    A test that takes too long takes its process with it: uvloop swallows what a handler of signals raises.
    """
    paths = os.pathsep.join(map(str, (copy, copy / "clients" / "python")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
        + [f"--timeout={TEST_S}", "--timeout-method=thread", *tests],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, "\n".join(done.stdout.splitlines()[-8:])
