"""Draw breakages of the product by lot, and say which of them the tests that run their lines do not notice.

    python -m tests.mutants.by_lot FOLDER --count 100 --seed 7 -j 2

FOLDER has what `tests.mutants.impact` noted of the same source. A survivor is printed as an entry of
`tests/mutants/rooms/`. The exit status is 1 if one survived.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from tests.mutants.breakages import Breakage, breakages_of, functions_of
from tests.mutants.catalogue import Mutant
from tests.mutants.impact import PRODUCT, Run, read_runs
from tests.mutants.trials import CHECKOUT, Fate, Trial, summary_of, try_all

LEFT_OUT: Final = "gateway/ledger/migrations/versions"
"""Steps of the schema, which are written once and compared with the schema as a whole."""

START_S: Final = 0.3
"""What a test costs beside the time it takes."""

NO_TEST: Final = "no test runs it"


def main(words: Sequence[str] | None = None, checkout: Path = CHECKOUT) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.by_lot", description=__doc__)
    parser.add_argument("folder", type=Path, help="what `--impact` of the tests wrote")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", nargs="*", default=PRODUCT, help="folders or files of the product")
    parser.add_argument("--seconds", type=float, default=30, help="of tests for a breakage, nearest first")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    given = parser.parse_args(words)
    runs = read_runs(given.folder)
    drawn = list(draw(checkout, given.under, given.count, random.Random(given.seed)))
    mutants = [
        as_mutant(f"L{number:03}", file, breakage, (checkout / file).read_text(encoding="utf-8"), tests)
        for number, (file, breakage) in enumerate(drawn, 1)
        for tests in [nearest_tests(file, breakage, runs, given.seconds, checkout)]
    ]
    fates: Counter[Fate] = Counter()
    for trial in _trials(mutants, given.jobs, checkout):
        fates[trial.fate] += 1
        _tell(trial)
    sys.stdout.write(f"{summary_of(fates)}\n")
    return 1 if fates[Fate.SURVIVED] else 0


def draw(
    checkout: Path, under: Sequence[str], count: int, lot: random.Random
) -> Iterator[tuple[str, Breakage]]:
    """Yield breakages, each once: a file by its lines, and any of its breakages. Fewer if there are no more."""
    files = [file for name in under for file in _files(checkout / name) if LEFT_OUT not in file.as_posix()]
    sources = {file: file.read_text(encoding="utf-8") for file in files}
    left = {file: len(source.splitlines()) for file, source in sources.items()}
    not_drawn: dict[Path, list[Breakage]] = {}
    for _ in range(count):
        while any(left.values()):
            [file] = lot.choices([*left], [*left.values()])
            if file not in not_drawn:
                not_drawn[file] = breakages_of(sources[file])
                lot.shuffle(not_drawn[file])
            if not_drawn[file]:
                yield str(file.relative_to(checkout)), not_drawn[file].pop()
                break
            left[file] = 0


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def nearest_tests(
    file: str, breakage: Breakage, runs: Sequence[Run], seconds: float, checkout: Path
) -> tuple[str, ...]:
    """Return tests that run the line of a breakage, or the last line before it in its function that any runs.

    Those that run little else come first. All of them together take `seconds`, as they did when they were noted.
    """
    function = _function_around(checkout / file, breakage.line)
    running: list[Run] = []
    for line in range(breakage.line, function.start - 1, -1):
        if running := [run for run in runs if run.has(file, range(line, line + 1))]:
            break
    running.sort(key=lambda run: run.size * (START_S + run.seconds))
    chosen: list[str] = []
    for run in running:
        seconds -= run.seconds
        if chosen and seconds < 0:
            break
        chosen.append(run.test)
    return tuple(chosen)


@cache
def _functions(file: Path) -> list[range]:
    return functions_of(file.read_text(encoding="utf-8"))


def _function_around(file: Path, line: int) -> range:
    """Return the lines of the innermost function that has a line."""
    return min((lines for lines in _functions(file) if line in lines), key=len)


def as_mutant(name: str, file: str, breakage: Breakage, source: str, tests: tuple[str, ...]) -> Mutant:
    """Return a breakage as an entry of the list: with as many lines around it as make its text unique."""
    raw = source.encode()
    start, end = breakage.start, breakage.end
    while raw.count(raw[start:end]) > 1 or start == end:
        start = raw.rfind(b"\n", 0, max(0, start - 1)) + 1
        end = raw.find(b"\n", end) + 1 or len(raw)
    text = raw[start:end].decode()
    becomes = (raw[start : breakage.start] + breakage.becomes.encode() + raw[breakage.end : end]).decode()
    return Mutant(name, file, text, becomes, tests, f"line {breakage.line}: {breakage.why}")


def _trials(mutants: Sequence[Mutant], jobs: int, checkout: Path) -> Iterator[Trial]:
    yield from (Trial(mutant, Fate.SURVIVED, NO_TEST) for mutant in mutants if not mutant.tests)
    yield from try_all([mutant for mutant in mutants if mutant.tests], jobs, checkout)


def _tell(trial: Trial) -> None:
    mutant = trial.mutant
    sys.stdout.write(f"{mutant.id}: {trial.fate.value} ({mutant.file}, {mutant.why})\n")
    if trial.fate is Fate.SURVIVED:
        shown = {"file": mutant.file, "text": mutant.text, "becomes": mutant.becomes}
        YAML().dump([{"id": mutant.id, **shown, "tests": list(mutant.tests[:5])}], sys.stdout)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
