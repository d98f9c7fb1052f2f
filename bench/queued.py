"""Measures verified runs per second through RQ: a process per job, beside batches for a warm worker.

    python -m bench.queued [--runs 30] [--jobs 300]

Both sides take jobs from the same Valkey with RQ's own workers, on one processor core, and reach the same
verdicts. A forked job is RQ's default: the worker forks for each, and the child simulates in its own process
with the module that its parent has compiled; its isolation is the fork. A batched job is what `replay.worker`
does: 16 ids a job in the worker's own process, simulated by one warm confined child. Neither side includes
the ledger.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence

from redis import Redis
from rq import Queue, SimpleWorker, Worker
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import BaseWorker

from bench.replay import MODULE, RecordedRun, recorded, verifier
from policies.vocabulary import SimulatorKind
from replay.simulators import Simulation, SimulationRequest, SimulatorFault
from replay.simulators.frames import SimulationOrder
from replay.simulators.sandbox import Sandbox
from replay.simulators.wasm import Machine
from tests.support.valkey import running_valkey

BATCH = 16


class InProcessSimulators:
    """Simulators without a child: the module is compiled here, and forks inherit it."""

    def __init__(self) -> None:
        self._machine = Machine()

    def engine_of(self, kind: SimulatorKind) -> str:  # noqa: ARG002 - it has one kind
        """Return the name of the engine."""
        return "wasmtime, in this process"

    def simulate(self, request: SimulationRequest) -> Simulation | SimulatorFault:
        """Simulate the run."""
        order = SimulationOrder(
            digest=request.digest,
            seed=request.seed,
            ticks=request.ticks,
            checkpoint_ticks=request.checkpoint_ticks,
            fuel=request.budget.fuel,
            memory_bytes=request.budget.memory_mib << 20,
            wall_ms=request.budget.wall_ms,
            inputs=request.inputs,
        )
        outcome = self._machine.run(order)
        if isinstance(outcome, SimulatorFault):
            self._machine.load(request.digest, MODULE.read_bytes())
            outcome = self._machine.run(order)
        return outcome


class TimedWorker(BaseWorker):
    """A worker that records when its first job began and its last job ended, to leave out everything else."""

    began_at = ended_at = 0.0

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Execute the job as RQ does."""
        self.began_at = self.began_at or time.perf_counter()
        super().execute_job(job, queue)
        self.ended_at = time.perf_counter()


class ForkingWorker(TimedWorker, Worker):
    """RQ's default: a process for each job."""


class SameProcessWorker(TimedWorker, SimpleWorker):
    """A worker whose jobs run in its own process."""


class _JobContext:
    """The runs and the verifier of this process: a job brings only a function's name and numbers."""

    runs: Sequence[RecordedRun] = ()
    verified: Callable[[RecordedRun], None]


def verify_runs(numbers: list[int]) -> int:
    """Verify the runs of these numbers; this is the job."""
    for number in numbers:
        _JobContext.verified(_JobContext.runs[number % len(_JobContext.runs)])
    return len(numbers)


def main() -> None:
    """Print the two speeds and their ratio."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--runs", type=int, default=30)
    arguments.add_argument("--jobs", type=int, default=300)
    options = arguments.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    speeds = measure(recorded(options.runs), options.jobs)
    for name, speed in speeds.items():
        print(f"{name:9} {speed:8.0f} runs/s, {1000 / speed:.2f} ms a run")
    print(f"batched is {speeds['batched'] / speeds['forked']:.1f} times as fast")


def measure(runs: Sequence[RecordedRun], jobs: int) -> dict[str, float]:
    """Return the runs per second of each way, over `jobs` runs."""
    _JobContext.runs = runs
    with running_valkey() as valkey, Redis.from_url(valkey.url) as client:
        _JobContext.verified = verifier(InProcessSimulators())
        verify_runs([0])  # compiled before anything forks
        forked = _rate(client, ForkingWorker, [[number] for number in range(jobs)])
        with Sandbox() as sandbox:
            _JobContext.verified = verifier(sandbox)
            verify_runs([0])
            batches = [list(range(at, min(at + BATCH, jobs))) for at in range(0, jobs, BATCH)]
            batched = _rate(client, SameProcessWorker, batches)
    return {"forked": forked, "batched": batched}


def _rate(client: Redis, kind: type[TimedWorker], jobs: Sequence[Sequence[int]]) -> float:
    queue = Queue("bench", connection=client, serializer=JSONSerializer)
    for numbers in jobs:
        queue.enqueue_call(verify_runs, args=(list(numbers),), result_ttl=0)
    worker = kind([queue], connection=client, serializer=JSONSerializer, log_job_description=False)
    worker.work(burst=True, logging_level="ERROR")
    assert queue.failed_job_registry.count == 0
    return sum(map(len, jobs)) / (worker.ended_at - worker.began_at)


if __name__ == "__main__":
    main()
