"""A worker's process from its start to its end: what it opens, what a reload renews, and what it leaves behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.driver_info import DriverInfo
from redis.exceptions import ConnectionError as RedisGone
from rq.exceptions import StopRequested
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

from gateway.deployment.presence import PartKind
from gateway.deployment.run_files import PartFile
from gateway.index.connection import DRIVER
from gateway.runtime.reload import Reload
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import VerificationQueue
from policies.loader import Board, Policies
from replay.simulators import bubblewrap
from replay.simulators.bubblewrap import Probe
from replay.worker import process
from replay.worker.process import JOBS, MAINTENANCE_S, WORKER_TTL_S, run_worker
from tests.support.boards import write_board
from tests.support.programs import serving

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Parts:
    """What `run_worker` made, and when; its work is done by a test."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Mapping[str, Board], Any]] = []
        self.opened: list[Any] = []
        self.noted: list[str] = []
        self.shown: Callable[[], Mapping[str, Board]] = dict
        self.index: Any = None
        self.handlers_at_end: list[Any] = []

    def verifier(
        self, _settings: Any, boards: Any, ledger: Any, index: Any, _simulators: Any, **common: Any
    ) -> Any:
        self.index = index
        self.opened.append((ledger, common["recordings"], common["clock"]))
        self.made.append(("verifier", dict(boards.of_files), self))
        return SimpleNamespace(boards=boards)

    def auditor(self, _settings: Any, boards: Any, ledger: Any, fresh: Any, **common: Any) -> Any:
        self.opened.append((ledger, common["recordings"], common["clock"]))
        self.made.append(("auditor", dict(boards.of_files), fresh))
        return SimpleNamespace(boards=boards)

    @contextmanager
    def note(self, what: str) -> Iterator[PartFile]:
        self.noted.append(f"{what} begins")
        yield PartFile(what, None)
        self.noted.append(f"{what} ends")

    @contextmanager
    def presence(self, kind: PartKind) -> Iterator[None]:
        with self.note(f"presence of a {kind}"):
            yield
            self.handlers_at_end = [signal.getsignal(number) for number in SIGNALS]


class ClosingNoted:
    """A ledger that is open for a while; its end is noted once it is closed."""

    def __init__(self, opening: Any, closed: list[str]) -> None:
        self.opening = opening
        self.closed = closed

    async def __aenter__(self) -> Any:
        return await self.opening.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self.opening.__aexit__(*error)
        self.closed.append("ledger")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parts]:
    found = Parts()
    for name in [name for name in vars(process._Process) if not name.startswith("_")]:
        monkeypatch.setattr(process._Process, name, getattr(process._Process, name))
    monkeypatch.setattr(process, "Verifier", found.verifier)
    monkeypatch.setattr(process, "Auditor", found.auditor)
    monkeypatch.setattr(process, "noted", lambda folder, part, _url: found.note(f"{part} in {folder.name}"))

    def present(_settings: Settings, kind: PartKind, boards: Callable[[], Mapping[str, Board]]) -> Any:
        found.shown = boards
        return found.presence(kind)

    monkeypatch.setattr(process, "present_on_a_thread", present)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGHUP, lambda *_: None)  # where a reload is not heeded, the test fails and lives
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def house(settings: Settings, tmp_path: Path) -> Settings:
    """A deployment with one board of modules."""
    write_board(tmp_path / "policies")
    return settings.model_copy(update={"policies_dir": tmp_path / "policies"})


def test_a_reload_renews_every_part_and_the_end_closes_them(
    house: Settings, parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    """SIGHUP: verifier, auditor, index and presence know the new boards; then nothing interrupts the way out."""
    worked: list[Any] = []

    def work(settings: Settings, queue: VerificationQueue, *, burst: bool) -> None:
        worked.append((settings, queue, burst, list(parts.noted)))
        write_board(house.policies_dir, title="Changed")
        write_board(house.policies_dir, "second")
        os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(process, "_work", work)
    with capture_logs() as logs:
        run_worker(house, queue=VerificationQueue.URGENT, burst=True)

    began = ["worker in data begins", "presence of a worker begins"]
    ended = ["presence of a worker ends", "worker in data ends"]
    assert [(house, VerificationQueue.URGENT, True, began)] == worked
    assert began + ended == parts.noted
    titles = [
        (kind, {name: each.policy.title for name, each in boards.items()}) for kind, boards, _ in parts.made
    ]
    after = {"tiny": "Changed", "second": "Second"}
    assert [
        ("verifier", {"tiny": "Tiny"}),
        ("auditor", {"tiny": "Tiny"}),
        ("verifier", after),
        ("auditor", after),
    ] == titles
    assert after == {name: each.policy.title for name, each in parts.shown().items()}
    assert process._Process.verifier.boards is process._Process.auditor.boards  # type: ignore[union-attr,attr-defined]
    assert 1 == len(set(map(str, parts.opened)))  # the same ledger, recordings and clock to the end
    assert process._Process.clock is parts.opened[0][2]
    assert process._Process.unprojected is not None
    assert [signal.SIG_IGN] * 3 == parts.handlers_at_end
    told = [(each["event"], each.get("part")) for each in logs]
    assert [("started", "worker"), ("stopped", "worker")] == [each for each in told if each[1] == "worker"]


def test_NR_a_reload_that_comes_while_a_worker_starts_is_done_once_it_has(
    house: Settings, parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    """It has read the files already, but is in the list of parts: who reloads waits for its answer."""
    load, answers, titles = process.load_policies, list[Reload](), list[str]()

    def load_and_hang_up(folder: Path) -> Policies:
        policies = load(folder)
        assert ["worker in data begins"] == parts.noted
        write_board(folder, title="Changed")
        os.kill(os.getpid(), signal.SIGHUP)
        return policies

    def work(*_: Any, **__: Any) -> None:
        titles.append(parts.shown()["tiny"].policy.title)

    monkeypatch.setattr(process, "load_policies", load_and_hang_up)
    monkeypatch.setattr(process, "teller", lambda *_: answers.append)
    monkeypatch.setattr(process, "_work", work)
    run_worker(house)
    assert ["Changed"] == titles
    assert [[], ["tiny"]] == [list(answer.changed) for answer in answers]
    assert answers[0].began_ns < answers[1].began_ns


def test_a_worker_that_fails_lets_go_of_what_it_opened(
    house: Settings, parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    """The ledger is closed and the note of its process gone; it does not say that it stopped as it should."""
    closed: list[str] = []
    opening = process.open_ledger

    def open_ledger(settings: Settings) -> Any:
        return ClosingNoted(opening(settings), closed)

    def work(*_: Any, **__: Any) -> None:
        raise RuntimeError("RQ is broken")

    monkeypatch.setattr(process, "open_ledger", open_ledger)
    monkeypatch.setattr(process, "_work", work)
    with capture_logs() as logs, pytest.raises(RuntimeError, match="RQ is broken"):
        run_worker(house)
    assert ["ledger"] == closed
    assert "stopped" not in [each["event"] for each in logs]
    assert [signal.SIG_IGN] * 3 == [signal.getsignal(number) for number in SIGNALS]


def test_a_reload_that_brings_the_first_programs_says_that_they_have_no_bubblewrap(
    house: Settings, parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    """As it would at its start; audits get simulators that need what the worker's own need."""
    monkeypatch.setattr(bubblewrap, "probe", lambda: Probe(None, "no namespaces"))

    def work(*_: Any, **__: Any) -> None:
        folder = house.policies_dir
        write_board(folder, "native", serving(folder), replay={"simulator": "process", "maximum_ticks": 1000})
        os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(process, "_work", work)
    with capture_logs() as logs:
        run_worker(house.model_copy(update={"sandbox": "bubblewrap"}))
    assert [("no_bubblewrap", "no namespaces")] == [
        (each["event"], each["trouble"]) for each in logs if "trouble" in each
    ]
    fresh = next(fresh for kind, _, fresh in parts.made if kind == "auditor")
    assert {"needs_bubblewrap": True} == fresh.keywords


class Queues:
    """RQ as it goes wrong: each work ends as told, and each connection and worker is noted."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)
        self.urls: list[str] = []
        self.deleted: list[tuple[str, ...]] = []
        self.workers: list[dict[str, Any]] = []
        self.worked: list[dict[str, Any]] = []

    def from_url(self, url: str, *, driver_info: DriverInfo) -> Queues:
        assert driver_info is DRIVER
        self.urls.append(url)
        return self

    def delete(self, *keys: str) -> None:
        self.deleted.append(keys)

    def worker(self, queues: list[Any], **settings: Any) -> Queues:
        self.workers.append({"queues": [each.name for each in queues], **settings})
        return self

    def work(self, **how: Any) -> None:
        self.worked.append(how)
        if error := self.ends.pop(0):
            raise error
        if not self.ends:
            process._Process.is_told_to_stop = True


@pytest.fixture
def queues(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Queues:
    """RQ for `_work`, which does not wait between two attempts."""
    del parts
    found = Queues()
    monkeypatch.setattr(process._Process, "is_told_to_stop", False)
    monkeypatch.setattr(process, "Redis", found)
    monkeypatch.setattr(process, "Queue", _queue)
    monkeypatch.setattr(process, "VerifyWorker", found.worker)
    monkeypatch.setattr(process, "RETRY_S", 0)
    return found


def _queue(name: str, **settings: Any) -> Any:
    return SimpleNamespace(
        name=name,
        **settings,
        intermediate_queue_key=f"{name}:begun",
        started_job_registry=SimpleNamespace(key=f"{name}:wip"),
    )


SETTINGS = Settings(queue_url="redis://127.0.0.1:1/3", shutdown_grace_s=7.5)


@pytest.mark.parametrize("queue", VerificationQueue)
def test_a_worker_begins_again_whatever_ends_rq(queues: Queues, queue: VerificationQueue):
    """Redis that is away, and a bug: each is told, and it works on in its queue until it is told to stop."""
    queues.ends = [RedisGone("away"), OSError("no route"), KeyError("a job"), None, None]
    with capture_logs() as logs:
        process._work(SETTINGS, queue, burst=False)
    assert ["redis://127.0.0.1:1/3"] == queues.urls
    assert 5 == len(queues.workers)
    assert [{"burst": False, "logging_level": "WARNING"}] * 5 == queues.worked
    assert {
        "queues": [queue.rq_name],
        "connection": queues,
        "serializer": JSONSerializer,
        "job_class": JOBS[queue],
        "worker_ttl": WORKER_TTL_S,
        "maintenance_interval": MAINTENANCE_S,
        "log_job_description": False,
    } == queues.workers[-1]
    # Only the end that RQ came to by itself leaves a job that could end the next worker too.
    assert [(f"{queue.rq_name}:begun", f"{queue.rq_name}:wip")] == queues.deleted
    told = [(each["event"], each.get("part") or each.get("place"), each.get("error")) for each in logs]
    assert [
        ("index_unavailable", "worker", "away"),
        ("index_unavailable", "worker", "no route"),
        ("unexpected", "worker", None),
    ] == told
    assert 7.5 == process._Process.grace_s


def test_a_worker_that_was_told_to_stop_does_not_begin_again(queues: Queues):
    """At once where it waited, and after whatever else ended its work; one that works off a queue ends with it."""
    queues.ends = [StopRequested()]
    process._work(SETTINGS, VerificationQueue.MAIN, burst=False)
    assert 1 == len(queues.workers)
    queues.ends = [None, None]
    process._work(SETTINGS, VerificationQueue.MAIN, burst=True)
    assert 2 == len(queues.workers)
    assert [] == queues.deleted


def test_a_worker_that_redis_left_while_it_was_told_to_stop_ends(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
):
    """RQ's own way out fails then: the process noted the signal by itself."""

    def work(**_: Any) -> None:
        process._Process.is_told_to_stop = True
        raise RedisGone("away")

    monkeypatch.setattr(queues, "work", work)
    process._work(SETTINGS, VerificationQueue.MAIN, burst=False)
    assert 1 == len(queues.workers)
