"""Measures how well the judgement judges, how fast runs are verified, and how near-duplicates are found.

    python -m bench.judgement [--quick] [--only detection,speed,similarity] [--seed 1]

`detection` makes a population with known cheats from real runs of the bundled game. It prints what each
layer, and all together, find of each kind of cheat at 1 % and 0.1 % false positives, with 95 % intervals of
Wilson. The same seed gives the same result. `speed` is bench.replay and bench.queued, `similarity`
bench.similarity. --quick takes half a minute: it shows that everything works, with wide intervals.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Final

from bench.judgement.measurement import Extent, measure
from bench.judgement.population import Size
from bench.judgement.report import lines

PARTS: Final = ("detection", "speed", "similarity")

FULL: Final = Extent(levels=19, runs_per_level=100, superhuman=200, size=Size(honest=1600, cheating=40))
QUICK: Final = Extent(levels=7, runs_per_level=10, superhuman=10, size=Size(honest=100, cheating=4))

_PROGRAMS: Final = {
    "speed": {
        "bench.replay": ("--runs", "4", "--rounds", "3"),
        "bench.queued": ("--runs", "4", "--jobs", "48"),
    },
    "similarity": {"bench.similarity": ("--recordings", "500", "--queries", "5")},
}
"""The programs of each part, with their options for --quick."""


def main() -> None:
    """Run the requested parts."""
    arguments = _arguments()
    if "detection" in arguments.only:
        extent = QUICK if arguments.quick else FULL
        for line in lines(measure(extent, arguments.seed, os.cpu_count() or 1)):
            print(line)
    for part in PARTS[1:]:
        if part in arguments.only:
            for module, quick in _PROGRAMS[part].items():
                print(f"\n## {module}\n", flush=True)
                command = [sys.executable, "-m", module, *(quick if arguments.quick else ())]
                subprocess.run(command, check=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.judgement",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="use a small population, to see that it works")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PARTS), help=", ".join(PARTS)
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(PARTS):
        parser.error(f"--only: no such part: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    main()
