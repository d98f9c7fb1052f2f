"""What most tests stand on: a real Valkey, fresh settings, and a running edge."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
import uvloop
from hypothesis import settings as properties

from gateway.runtime.deadline import WAITER
from gateway.runtime.settings import Settings
from replay.simulators.sandbox import Sandbox
from tests.support.cluster import ValkeyCluster, running_cluster
from tests.support.harness import Harness, free_port, running_harness
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.thorough import IS_THOROUGH
from tests.support.thrift import (
    GARBAGE_THRESHOLD,
    copy_ledgers,
    keep_compiled,
    keep_rewritten,
    know_the_driver,
    look_for_cycles_seldom,
    print_plainly,
    read_the_environment_once,
    remember_policies,
    remember_shapes,
)
from tests.support.valkey import ValkeyServer, running_valkey

# A property that is true may not fail by chance: no deadlines, and the same examples in every run of a commit.
# `pytest --hypothesis-profile explore`, and a thorough run, look for new ones.
properties.register_profile("suite", deadline=None, derandomize=True)
properties.register_profile("explore", deadline=None, max_examples=1_000, print_blob=True)
properties.load_profile("explore" if IS_THOROUGH else "suite")

# A busy machine sheds load, which is right, and nobody's subject but that of tests that say so. Processes inherit it.
os.environ.setdefault("SCOREGATE_ANSWER_WITHIN_S", "60")

# Nor does Redis keep its callers waiting there: who tests that it does sets the limit.
os.environ.setdefault("SCOREGATE_REDIS_TIMEOUT_MS", "5000")


LONGEST = (
    "tests/faults/test_fault_matrix.py",
    "tests/browser/test_reference_pages.py",
    "tests/faults/test_stewards.py",
    "tests/contract/test_rollups_beside_sql.py",
    "tests/browser/test_game_page.py",
    "tests/faults/test_postgres_steps.py",
    "tests/contract/test_boards_on_cluster.py",
    "tests/faults/test_crashes.py",
    "tests/gateway/steward/test_comparison.py",
    "tests/test_backup_postgres.py",
    "tests/scoregate/test_up.py",
    "tests/faults/test_behind_proxies.py",
    "tests/gateway/steward/test_rebuild.py",
    "tests/oracle/test_oracle.py",
)
"""What takes longest. Files that wait and files that compute alternate, so that the processors are seldom idle."""

LONG = ("tests/faults/", "tests/browser/", "tests/oracle/", "tests/test_", "tests/scoregate/")
"""What waits for processes, proxies and pages."""

SPARED = (
    copy_ledgers,
    know_the_driver,
    print_plainly,
    read_the_environment_once,
    remember_policies,
    remember_shapes,
)
"""What a process of the suite does once for all tests."""

SHORT_BESIDE = 3
"""How many other files follow each of these, so that a few short ones are left for the end."""


def pytest_configure(config: pytest.Config) -> None:
    """Before workers of xdist begin, which find it done."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as shells have it for what runs behind them
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (
        signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    ):  # as `nohup` has it, and so every process of the tests
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # it would leave the files of few and long tests to the end
    gc.set_threshold(GARBAGE_THRESHOLD)
    if not hasattr(config, "workerinput"):
        keep_compiled()
        if config.getoption("numprocesses", None):
            keep_rewritten(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, or one worker has it left when the others are done."""
    place = {file: number for number, file in enumerate(_in_order({_file_of(item): None for item in items}))}
    items.sort(key=lambda item: place[_file_of(item)])


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _in_order(files: Iterable[str]) -> Iterator[str]:
    """Yield the longest, and then long ones with short ones between them."""
    left = sorted(files, key=lambda file: LONGEST.index(file) if file in LONGEST else len(LONGEST))
    yield from (file for file in left if file in LONGEST)
    short = iter([file for file in left if file not in LONGEST and not file.startswith(LONG)])
    for file in left:
        if file not in LONGEST and file.startswith(LONG):
            yield file
            yield from islice(short, SHORT_BESIDE)
    yield from short


def pytest_collection_finish() -> None:
    look_for_cycles_seldom()


@pytest.fixture(scope="session", autouse=True)
def what_is_the_same_for_all_is_done_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for spare in SPARED:
            spare(patch)
        yield


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail the test that leaves the process otherwise than it found it, not the next one that this makes fail."""
    before = _process_wide()
    yield
    assert before == _process_wide()


def _process_wide() -> dict[str, object]:
    """What all tests of a process share: its environment, where it stands, and what it does on signals."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    own = {"PYTEST_CURRENT_TEST"}
    return {
        "environment": {name: value for name, value in os.environ.items() if name not in own},
        "directory": str(Path.cwd()),
        "signals": {each.name: signal.getsignal(each) for each in signals},
    }


@pytest.fixture(scope="session", name="_asyncio_loop_factory")
def loop_of_the_parts() -> Callable[[], asyncio.AbstractEventLoop]:
    """Have pytest-asyncio run tests on the loop that the parts run on; what must hold on asyncio's too is called on both.

    Its hook for that would set up twice what asynchronous tests share with others.
    """
    return uvloop.new_event_loop


@pytest.fixture(autouse=True)
def nobody_waits() -> None:
    """No test begins with the deadline that another left behind in the context that all of them share."""
    WAITER.set(None)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """The server that tests share; who kills it takes one of their own from `running_valkey`."""
    with running_valkey() as server:
        yield server


@pytest.fixture
def valkey(valkey_server: ValkeyServer) -> ValkeyServer:
    """The shared server, emptied."""
    with valkey_server.client() as client:
        client.flushall()
        client.script_flush()
    return valkey_server


@pytest.fixture(scope="session")
def cluster_server() -> Iterator[ValkeyCluster]:
    """The cluster that tests share; who kills a node of it leaves it to the next test to start it again."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(cluster_server: ValkeyCluster) -> ValkeyCluster:
    """The shared cluster, whole and emptied."""
    cluster_server.mend()
    cluster_server.empty()
    return cluster_server


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    return Settings(data_dir=tmp_path / "data", redis_url=valkey.url, bind=f"127.0.0.1:{free_port()}")


@pytest.fixture
async def harness(settings: Settings) -> AsyncIterator[Harness]:
    async with running_harness(settings) as running:
        yield running


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as warm:
        yield warm


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server that tests share; who kills it takes one of their own from `running_postgres`."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def database_server(request: pytest.FixtureRequest) -> PostgresServer | None:
    """What carries the ledger: the PostgreSQL server, or None where that is an SQLite file."""
    return request.getfixturevalue("postgres_server") if request.param == "postgres" else None


@pytest.fixture
async def store(database_server: PostgresServer | None, tmp_path: Path) -> AsyncIterator[Store]:
    """A database of one's own for a ledger, on SQLite and on PostgreSQL."""
    if database_server is None:
        yield SqliteStore(tmp_path / "ledger.sqlite3")
        return
    async with database_server.database() as name:
        yield PostgresStore(database_server, name)
