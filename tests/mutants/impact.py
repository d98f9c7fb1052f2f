"""Notes which tests run which lines of the product, for `tests.mutants.by_lot`: a plugin of pytest.

    python3.12 -m pytest -n 4 --dist loadfile -p tests.mutants.impact --impact=FOLDER

CPython 3.12 and newer tell of each line once for each test, which costs the tests an eighth more. What other
processes run, such as the parts that some tests start, is not seen.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, Final, NamedTuple

import pytest

from tests.mutants.trials import CHECKOUT

PRODUCT: Final = ("gateway", "validators", "replay", "policies")

_TOOL: Final = 4
"""One of the two identifiers of `sys.monitoring` that are nobody's in particular."""


class Run(NamedTuple):
    """A test, how long it took, and the lines of each file that it ran: bit n stands for line n."""

    test: str
    seconds: float
    lines: Mapping[str, int]

    def has(self, file: str, lines: range) -> bool:
        """Return whether the test ran one of these lines."""
        return bool(self.lines.get(file, 0) >> lines.start & ((1 << len(lines)) - 1))

    @property
    def size(self) -> int:
        """How many lines it ran."""
        return sum(lines.bit_count() for lines in self.lines.values())


def read_runs(folder: Path) -> list[Run]:
    """Return what each process of the tests has noted."""
    return [
        Run(test, seconds, {file: int(lines, 16) for file, lines in by_file.items()})
        for file in sorted(folder.glob("*.jsonl.gz"))
        for test, seconds, by_file in map(json.loads, gzip.open(file, "rt", encoding="utf-8"))
    ]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--impact", type=Path, metavar="FOLDER", help="note there which tests run which lines")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to listen, in each process that runs tests."""
    folder = config.getoption("impact")
    if folder is None:
        return
    if sys.version_info < (3, 12):
        raise pytest.UsageError("--impact needs CPython 3.12 or newer")
    folder.mkdir(parents=True, exist_ok=True)
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    config.pluginmanager.register(_Noting(folder / f"{worker}.jsonl.gz"))


class _Noting:
    """Writes a line of JSON for each test."""

    def __init__(self, file: Path) -> None:
        self._file = gzip.open(file, "wt", compresslevel=1, encoding="utf-8")  # noqa: SIM115 - closed at the end
        self._seen: defaultdict[str, set[int]] = defaultdict(set)
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        self._roots = tuple(f"{CHECKOUT / name}/" for name in PRODUCT)
        events = self._monitoring.events.LINE
        self._monitoring.use_tool_id(_TOOL, "impact")
        self._monitoring.register_callback(_TOOL, events, self._note)
        self._monitoring.set_events(_TOOL, events)

    def _note(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(self._roots):
            self._seen[code.co_filename].add(line)
        return self._monitoring.DISABLE  # until events are restarted, at the next test

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the lines that run between the setup of a test and its teardown."""
        self._seen.clear()
        self._monitoring.restart_events()
        begun = time.perf_counter()
        result = yield
        lines = {
            str(Path(file).relative_to(CHECKOUT)): f"{sum(1 << line for line in tuple(seen)):x}"
            for file, seen in tuple(self._seen.items())  # threads may go on
        }
        took = round(time.perf_counter() - begun, 3)
        self._file.write(json.dumps([item.nodeid, took, lines]) + "\n")
        return result

    def pytest_unconfigure(self) -> None:
        """Stop listening."""
        self._monitoring.set_events(_TOOL, 0)
        self._monitoring.free_tool_id(_TOOL)
        self._file.close()
