"""Guards the cost of the hot paths in instructions, which do not depend on other work of the machine.

    python -m bench.guard            counts, and prints
    python -m bench.guard --check    fails if a path costs a tenth more than is recorded, or a tenth less,
                                     in each of three counts
    python -m bench.guard --record   writes the median of three counts to `bench/instructions.toml`

Needs valgrind with its headers, and gcc. Each path of `bench.hot_paths` runs in a process of its own under
`valgrind --tool=callgrind`, which counts only between a warm-up and the end: the process says so by
callgrind's client requests. Other processes (Valkey, the child that simulates) are not counted. Figures hold
for one version of CPython and of the libraries; with another version nothing is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import median_low
from typing import Any, Final

import uvloop

from bench.hot_paths import PATHS, prepare, settings_of
from gateway.runtime.telemetry import configure_logging
from tests.support.valkey import running_valkey

RECORDED: Final = Path(__file__).with_name("instructions.toml")

UNITS: Final = 32
WARM_UP: Final = 16
TOLERANCE: Final = 0.1
ROUNDS: Final = 3
"""How often is counted. Counts differ by up to 8 %, since more or less is done together."""

LIBRARIES: Final = ("aiohttp", "sqlalchemy", "pydantic", "redis", "uvloop", "numpy", "orjson")

_REQUESTS: Final = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void stop(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""

_TOTALS: Final = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def main() -> None:
    """Count, and compare or record."""
    arguments = _arguments()
    if arguments.perform:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_perform(*arguments.perform))
        return
    if not (shutil.which("valgrind") and shutil.which("gcc")):
        sys.exit("bench.guard needs valgrind and gcc: apt-get install valgrind gcc libc6-dev")
    if arguments.record:
        rounds = [_counted(PATHS) for _ in range(ROUNDS)]
        _record({name: median_low(counted[name] for counted in rounds) for name in PATHS})
    elif arguments.check:
        _check()
    else:
        _counted(PATHS)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--perform", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def surroundings() -> str:
    """Return the versions that the figures depend on."""
    named = [f"CPython {platform.python_version()} {platform.machine()}"]
    return ", ".join([*named, *(f"{each} {version(each)}" for each in LIBRARIES)])


def _record(counted: dict[str, int]) -> None:
    lines = [
        f"surroundings = {surroundings()!r}",
        "",
        "[instructions]",
        *(f"{n} = {c}" for n, c in counted.items()),
    ]
    RECORDED.write_text("\n".join(lines).replace("'", '"') + "\n")


def _check() -> None:
    """End with status 1 if a path costs other than was recorded, each time that it is counted."""
    recorded = tomllib.loads(RECORDED.read_text())
    if recorded["surroundings"] != surroundings():
        print(f"not compared: recorded with {recorded['surroundings']}, here is {surroundings()}")
        return
    paths, faults = list(PATHS), dict[str, str]()
    for _ in range(ROUNDS):
        faults = compared(_counted(paths), recorded["instructions"])
        paths = list(faults)
        if not paths:
            break
    print("\n".join(faults.values()) or "each is within a tenth of what is recorded")
    sys.exit(bool(faults))


def _counted(paths: Iterable[str]) -> dict[str, int]:
    """Count the instructions of paths side by side, and print them."""
    paths = list(paths)
    with ThreadPoolExecutor(len(paths)) as pool:
        counted = dict(zip(paths, pool.map(_count, paths), strict=True))
    for name, count in counted.items():
        print(f"{name:12} {count:11,} instructions", flush=True)
    return counted


def compared(counted: dict[str, int], recorded: dict[str, int]) -> dict[str, str]:
    """Return a sentence for each path that costs over a tenth more or less than is recorded."""
    return {
        name: f"{name}: {count:,} instructions, {count / recorded[name] - 1:+.0%} beside what is recorded; "
        "if that is meant, python -m bench.guard --record"
        for name, count in counted.items()
        if abs(count / recorded[name] - 1) > TOLERANCE
    }


def _count(path: str) -> int:
    """Return the instructions of one unit of a path, on all threads of its process."""
    with tempfile.TemporaryDirectory(prefix="sgg-") as name, running_valkey() as valkey:
        folder = Path(name)
        library = _compile(folder)
        settings = settings_of(folder, valkey.url)
        prepare(settings, UNITS + WARM_UP)
        counts = folder / "counts"
        command: list[Any] = [
            *("valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=no"),
            *(f"--callgrind-out-file={counts}", sys.executable, "-m", "bench.guard", "--perform"),
            *(path, folder, valkey.url, library),
        ]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        ended = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
        if ended.returncode:
            sys.exit(f"{path}: {ended.stdout}{ended.stderr}")
        return max(int(_TOTALS.findall(each.read_text())[-1]) for each in folder.glob("counts*")) // UNITS


def _compile(folder: Path) -> Path:
    source, library = folder / "requests.c", folder / "requests.so"
    source.write_text(_REQUESTS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


async def _perform(path: str, folder: str, redis_url: str, library: str) -> None:
    """Do a warm-up and then the units of a path, which are counted."""
    configure_logging("info")  # as in service, where a submission has no line of its own
    requests = ctypes.CDLL(library)
    async with PATHS[path](settings_of(Path(folder), redis_url)) as perform:
        await perform(WARM_UP)
        requests.start()
        await perform(UNITS)
        requests.stop()


if __name__ == "__main__":
    main()
