"""Break the product in every way that is on the list, and say which breakages no test noticed.

The exit status is 1 if one survived, and 2 if one does not apply any more, has no tests, or its tests fail as things are.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.catalogue import ROOMS, CatalogueError, chosen, read_catalogue
from tests.mutants.trials import CHECKOUT, Fate, Trial, failing_unbroken, summary_of, try_all


def main(words: Sequence[str] | None = None, rooms: Path = ROOMS, checkout: Path = CHECKOUT) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="this one; can be repeated")
    parser.add_argument("--list", action="store_true", help="say what is on the list, and break nothing")
    parser.add_argument(
        "-j", "--jobs", type=int, default=1, help="how many at once, each in a copy of its own"
    )
    parser.add_argument(
        "--skip-control", action="store_true", help="do not first see the tests pass on what is not broken"
    )
    given = parser.parse_args(words)
    try:
        mutants = chosen(read_catalogue(rooms), given.only)
    except CatalogueError as error:
        return _end(str(error), 2)
    if given.list:
        return _end("\n".join(f"{each.id}  {each.file}: {each.why}" for each in mutants), 0)
    if not given.skip_control and (failing := failing_unbroken(mutants, checkout)):
        return _end(f"the tests fail as things are:\n{failing}", 2)
    fates: Counter[Fate] = Counter()
    for trial in try_all(mutants, given.jobs, checkout):
        fates[trial.fate] += 1
        _tell(trial)
    return _end(summary_of(fates), _status(fates))


def _status(fates: Counter[Fate]) -> int:
    if fates[Fate.DOES_NOT_APPLY] or fates[Fate.NO_TESTS]:
        return 2
    return 1 if fates[Fate.SURVIVED] else 0


def _tell(trial: Trial) -> None:
    line = f"{trial.mutant.id}: {trial.fate.value}"
    if trial.fate is Fate.EQUIVALENT:
        line += f" ({trial.mutant.equivalent})"
    elif trial.fate is not Fate.NOTICED:
        line += f" ({trial.mutant.file}: {trial.mutant.why})\n{trial.said}"
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end(text: str, status: int) -> int:
    sys.stdout.write(f"{text}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
