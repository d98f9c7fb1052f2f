"""What each part loads, and so how large it is: none has in memory what only another one uses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import literal, select

from gateway.deployment.run_files import running_parts
from gateway.ledger.transaction import Query
from tests.support.ports import free_port
from tests.support.valkey import running_valkey

PROGRAM: Final = """
import atexit, json, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # until the part has a handler of its own
atexit.register(lambda: print(json.dumps(sorted(sys.modules))))
from scoregate.cli import main
main()
"""

COMMANDS: Final = {"edge": "serve", "steward": "steward", "worker": "worker"}

FOREIGN: Final = {
    "edge": {"gateway.steward", "replay", "rq", "numpy", "datasketches", "wasmtime"},
    "steward": {"gateway.edge", "replay", "joserfc", "wasmtime"},
    "worker": {"gateway.edge", "gateway.derived", "aiohttp", "joserfc", "datasketches", "wasmtime"},
}
"""Packages of another part, or of a rare use."""

RARE: Final = {"alembic", "asyncpg", "authlib", "cel", "confusable_homoglyphs", "confluent_kafka"} | {
    *("jinja2", "markdown_it", "obstore", "pygments", "rich", "segno")
}
"""Packages that no idle part has loaded, without PostgreSQL, providers and stores."""

MOST_MIB: Final = {"edge": 132, "steward": 123, "worker": 108}
"""Bounds of the resident memory, a tenth above what was measured: a library too many shows, and a page more does not."""


@dataclass(frozen=True)
class SizeOfPart:
    """The modules of a part, and its resident memory (MiB) once it was ready."""

    modules: frozenset[str]
    resident_mib: float


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, SizeOfPart]]:
    folder = tmp_path_factory.mktemp("parts")
    with running_valkey() as valkey:
        yield {name: size_of(name, folder, valkey.url) for name in COMMANDS}


def size_of(name: str, folder: Path, redis_url: str) -> SizeOfPart:
    """Start a part as its command does, and end it once it is ready."""
    environment = os.environ | {
        "SCOREGATE_DATA_DIR": str(folder),
        "SCOREGATE_REDIS_URL": redis_url,
        "SCOREGATE_BIND": f"127.0.0.1:{free_port()}",
        "SCOREGATE_SHUTDOWN_PAUSE_S": "0",
    }
    command = [sys.executable, "-c", PROGRAM, COMMANDS[name]]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while not is_ready(process.pid, folder):
            assert process.poll() is None
            time.sleep(0.05)
        resident_mib = resident_mib_of(process.pid)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    return SizeOfPart(frozenset(json.loads(output.splitlines()[-1])), resident_mib)


def is_ready(pid: int, folder: Path) -> bool:
    """Whether a part has said which policies it has, which is the last that it does before its work."""
    return any(part.pid == pid and part.note() is not None for part in running_parts(folder))


def resident_mib_of(pid: int) -> float:
    [kib] = re.findall(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(kib) / 1024


@pytest.mark.parametrize("name", COMMANDS)
def test_SZ01_a_part_loads_nothing_of_the_others(parts: Mapping[str, SizeOfPart], name: str):
    """An edge has no duties and no simulator, a steward no routes, a worker neither; none has what is rare."""
    unused = FOREIGN[name] | RARE

    assert [] == sorted(each for each in parts[name].modules if is_in(each, unused))


def is_in(module: str, packages: set[str]) -> bool:
    """Whether a module belongs to one of the packages."""
    names = module.split(".")
    return any(".".join(names[:length]) in packages for length in (1, 2))


@pytest.mark.parametrize("name", COMMANDS)
def test_SZ02_a_part_stays_small(parts: Mapping[str, SizeOfPart], name: str):
    """Each part that has just started is within its bound of memory."""
    assert parts[name].resident_mib < MOST_MIB[name]


def test_SZ03_a_statement_is_compiled_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch):
    """A part loads a thousand statements, and uses a fraction of them: loading one compiles nothing."""
    compiled: list[object] = []
    statement = select(literal(7))
    compile_it = statement.compile
    monkeypatch.setattr(
        type(statement), "compile", lambda _, **how: compiled.append(how) or compile_it(**how)
    )
    query = Query(statement)

    assert [] == compiled
    assert {"param_1": 7} == query.values({})
    assert "SELECT :param_1 AS anon_1" == query.sqlite
    assert 1 == len(compiled)
