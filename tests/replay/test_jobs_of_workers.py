"""What a worker makes of a job, and of being told to end: the rules that hold whatever stands in Redis."""

from __future__ import annotations

import asyncio
import json
import signal
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from rq.exceptions import NoSuchJobError, StopRequested
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus
from structlog.testing import capture_logs

from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.steward.dispatch import (
    AUDIT_JOB,
    JOB_KEPT_S,
    JOB_TIMEOUT_S,
    QUEUE_NAME,
    VERIFY_JOB,
    VerificationQueue,
)
from policies.errors import LedgerUnavailable, ScoregateError
from replay.worker import process
from replay.worker.process import JOB_BYTES, JOBS, RUNS, UrgentJob, VerifyJob, VerifyWorker

NOWHERE = Redis(port=1)
"""Nothing here asks it."""


def restored(fields: Mapping[str, Any], kind: type[VerifyJob] = VerifyJob) -> VerifyJob:
    """The job that a worker makes of these fields in Redis."""
    job = kind("j1", connection=NOWHERE, serializer=JSONSerializer)
    raw = {
        name.encode(): value if isinstance(value, bytes) else str(value).encode()
        for name, value in fields.items()
    }
    job.restore(raw)
    return job


def data(function: str = VERIFY_JOB, ids: Any = ("r1", "r2")) -> str:
    return json.dumps([function, None, [list(ids)], {}])


FORGED = {
    "timeout": "1",
    "result_ttl": "-1",
    "failure_ttl": "9999999",
    "origin": "elsewhere",
    "success_callback_name": "os.system",
    "failure_callback_name": "os.system",
    "stopped_callback_name": "os.system",
    "dependency_ids": "x",
    "retries_left": "1000000",
    "repeats_left": "1000000",
    "meta": "{}",
    "description": "x" * 1000,
}


@pytest.mark.parametrize(("kind", "queue"), [(VerifyJob, QUEUE_NAME), (UrgentJob, f"{QUEUE_NAME}-urgent")])
def test_I16_nothing_of_a_job_counts_but_which_submissions_it_names(kind: type[VerifyJob], queue: str):
    """I16: time-outs, callbacks, retries, and how long it is kept are ours, and it is of the queue that the worker serves."""
    honest, forged = restored({"data": data()}, kind), restored({"data": data(), **FORGED}, kind)
    for job in (honest, forged):
        assert (VERIFY_JOB, [["r1", "r2"]]) == (job.func_name, list(job.args))
        assert (JOB_TIMEOUT_S, 0, JOB_KEPT_S, queue) == (
            job.timeout,
            job.result_ttl,
            job.failure_ttl,
            job.origin,
        )
        assert [None] * 3 == [
            job._success_callback_name,
            job._failure_callback_name,
            job._stopped_callback_name,
        ]
        assert (None, None, []) == (job.retries_left, job.repeats_left, job._dependency_ids)
    assert {VerificationQueue.MAIN: VerifyJob, VerificationQueue.URGENT: UrgentJob} == JOBS
    assert {VERIFY_JOB, AUDIT_JOB} == set(RUNS)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"data": data("os.system")},
        {"data": data(ids=[1, 2])},
        {"data": json.dumps([VERIFY_JOB, None, ["r1"], {}])},
        {"data": json.dumps([VERIFY_JOB, None, [["r1"]], {"more": 1}])},
        {"data": data(ids=["x" * JOB_BYTES])},
        {"data": b"\xff"},
    ],
    ids=["nothing", "another function", "numbers", "no list", "more", "large", "no text"],
)
def test_I16_any_other_job_is_none(fields: Mapping[str, Any]):
    """I16: it is refused before anything of it is looked up, and the log names it."""
    with capture_logs() as logs, pytest.raises(NoSuchJobError):
        restored(fields)
    assert [("job_refused", "error", "j1")] == [
        (each["event"], each["log_level"], each["job"]) for each in logs
    ]


def test_the_largest_batch_is_a_job():
    """What the steward puts together fits several times, packed as RQ packs it or not."""
    ids = [f"{number:064x}" for number in range(100)]
    for packed in (data(ids=ids).encode(), zlib.compress(data(ids=ids).encode())):
        assert ids == list(restored({"data": packed}).args[0])


class Parts:
    """The parts of a worker process, which note in which order they were used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.used: list[str] = []
        self.error = error
        self.runner = asyncio.Runner()
        parts = {
            "runner": self.runner,
            "policies": SimpleNamespace(held=self.held),
            "clock": SimpleNamespace(refresh=lambda: self.note("clock")),
            "unprojected": SimpleNamespace(wait_until_projected=lambda: self.note("projected")),
            "verifier": SimpleNamespace(verify_all=lambda ids: self.work("verified", ids)),
            "auditor": SimpleNamespace(audit_all=lambda ids: self.work("audited", ids)),
        }
        for name, part in parts.items():
            monkeypatch.setattr(process._Process, name, part)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.used.append("held")
        yield
        self.used.append("let go")

    async def note(self, what: str) -> None:
        self.used.append(what)

    async def work(self, what: str, ids: list[str]) -> int:
        await self.note(f"{what} {','.join(ids)}")
        if self.error:
            raise self.error
        return len(ids)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parts]:
    found = Parts(monkeypatch)
    yield found
    found.runner.close()


@pytest.mark.parametrize(("function", "work"), [(VERIFY_JOB, "verified"), (AUDIT_JOB, "audited")])
def test_a_job_runs_under_one_policy_by_the_shared_clock_until_it_is_shown(
    parts: Parts, function: str, work: str
):
    """The policies are held for all of it; our clock is looked at first, and what it settled is shown before it ends."""
    assert 2 == restored({"data": data(function)}).perform()
    assert ["held", "clock", f"{work} r1,r2", "projected", "let go"] == parts.used


def test_a_job_that_cannot_be_done_now_comes_again_from_the_ledger(parts: Parts):
    """It ends as if it were done, since RQ would only keep it; the log says why, and what was settled is shown."""
    parts.error = LedgerUnavailable("it is away")
    with capture_logs() as logs:
        assert 0 == restored({"data": data()}).perform()
    assert ["held", "clock", "verified r1,r2", "projected"] == parts.used
    assert [("duty_failed", "warning", "verify", "it is away")] == [
        (each["event"], each["log_level"], each["duty"], each["error"]) for each in logs
    ]


def test_a_job_does_not_wait_longer_for_redis_than_the_steward_does(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    """What it settled is in the ledger: where Redis stays away it ends, and the steward shows it from then on."""

    async def never() -> None:
        parts.used.append("waits")
        await asyncio.Event().wait()

    monkeypatch.setattr(process._Process, "unprojected", SimpleNamespace(wait_until_projected=never))
    assert PROJECT_AFTER_MS == 1000 * process.PROJECTED_WITHIN_S
    monkeypatch.setattr(process, "PROJECTED_WITHIN_S", 0.01)
    assert 2 == restored({"data": data()}).perform()
    assert ["waits", "let go"] == parts.used[-2:]


@pytest.mark.parametrize("missing", ["runner", "policies", "verifier", "auditor"])
def test_nothing_is_judged_outside_of_a_worker(parts: Parts, monkeypatch: pytest.MonkeyPatch, missing: str):
    """Whoever calls a job's function elsewhere is told so, and nothing is touched."""
    monkeypatch.setattr(process._Process, missing, None)
    wanted = [process.verify_submissions] * (missing != "auditor") + [process.audit_submissions] * (
        missing != "verifier"
    )
    for each in wanted:
        with pytest.raises(ScoregateError, match="only in a worker process"):
            each(["r1"])
    assert [] == parts.used


def test_I22_a_worker_told_to_end_does_so_once_and_within_its_grace(monkeypatch: pytest.MonkeyPatch):
    """I22: at once if it waits for work, after the job at hand if not; being told again begins no second grace."""
    graces: list[tuple[float, str]] = []
    monkeypatch.setattr(process, "end_within", lambda grace_s, part: graces.append((grace_s, part)))
    monkeypatch.setattr(process._Process, "is_told_to_stop", False)
    monkeypatch.setattr(process._Process, "grace_s", 12.5)
    worker = VerifyWorker.__new__(VerifyWorker)
    state = [WorkerStatus.BUSY]
    worker.get_state = lambda: state[0]  # type: ignore[method-assign]
    worker.request_stop(signal.SIGTERM, None)
    assert (True, True) == (worker._stop_requested, process._Process.is_told_to_stop)
    state[0] = WorkerStatus.IDLE
    with pytest.raises(StopRequested):
        worker.request_stop(signal.SIGTERM, None)
    assert [(12.5, "worker")] == graces
