"""What conformance tests stand on: an edge with a worker behind a faulty proxy, and one driver for each client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.driver import Driver
from tests.clients.languages import LANGUAGES, Language
from tests.clients.stage import Stage, running_stage
from tests.support.gate import missing


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Driver]]:
    """The drivers that have been asked, by language; each runs until the session ends."""
    started: dict[str, Driver] = {}
    yield started
    for driver in started.values():
        driver.kill()


@pytest.fixture(params=LANGUAGES, ids=[language.name for language in LANGUAGES])
def driver(
    request: pytest.FixtureRequest,
    drivers: dict[str, Driver],
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Driver:
    """The driver of a client, in turn."""
    language: Language = request.param
    if language.name not in drivers:
        if lacking := language.missing():
            missing(f"the {language.name} client needs {', '.join(lacking)}")
        cache = getattr(pytestconfig, "cache", None)  # not where mutants are tried
        kept = cache.mkdir(f"client-{language.name}") if cache else tmp_path_factory.mktemp(language.name)
        log = tmp_path_factory.mktemp(language.name) / "stderr.txt"
        drivers[language.name] = Driver(language, language.command(Path(kept)), log)
    return drivers[language.name]


@pytest.fixture
def another() -> Iterator[Callable[[Driver], Driver]]:
    """A second process of a driver's client."""
    begun: list[Driver] = []

    def another(driver: Driver) -> Driver:
        begun.append(driver.twin())
        return begun[-1]

    yield another
    for driver in begun:
        driver.kill()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def stage(running: Stage) -> Iterator[Stage]:
    """The edge that all clients share, with a proxy that has no faults and has seen nothing."""
    running.proxy.forget()
    yield running
    assert [] == running.faults
