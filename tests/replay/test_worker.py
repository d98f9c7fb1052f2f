"""The worker as the process it is in service: what it makes of honest runs, of cheats, and of faults that are ours."""

from __future__ import annotations

import json
import os
import pickle
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from rq import Queue
from rq.job import Callback, Job
from rq.serializers import JSONSerializer

from gateway.steward.dispatch import QUEUE_NAME, VERIFY_JOB
from tests.replay.games import END, play
from tests.support import boards
from tests.support.boards import CHECKPOINT_TICKS, claim_of, tiny_claim, tiny_play
from tests.support.deployment import Client, Deployment, client_of, deployed, ended, eventually
from tests.support.ledger import new_submission, opened, rows
from tests.support.valkey import running_valkey


def write_boards(deployment: Deployment) -> None:
    """Boards whose simulators do what no simulator should."""
    folder = deployment.policies
    for name, simulate, budget, memory in [
        ("fuel", boards.LOOP, {"fuel": 1_000_000}, "2"),
        ("wall", boards.LOOP, {"fuel": 10**13, "wall_ms": 300}, "2"),
        ("bomb", boards.TRAP, {"memory_mib": 4}, "2000"),
        ("grows", boards.BOMB, {"memory_mib": 4}, "2"),
        ("trap", boards.TRAP, {}, "2"),
    ]:
        module = boards.bad_module(folder / name, simulate, memory=memory)
        boards.write_board(folder, name, module, budget=budget)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Edge, steward and one worker, running for all tests here."""
    with running_valkey() as valkey, deployed(tmp_path_factory.mktemp("house"), valkey) as deployment:
        write_boards(deployment)
        for part in ("serve", "steward", "worker"):
            deployment.start(part)
        yield deployment


@pytest.fixture
async def client(house: Deployment) -> AsyncIterator[Client]:
    await house.is_answering()
    async with client_of(house) as client:
        yield client


async def test_an_honest_run_is_promoted(house: Deployment, client: Client):
    """Opened, played, submitted, replayed, ranked: by processes that share nothing but the ledger and Redis."""
    run = await client.submitted(points=7)

    assert {run.id: "promoted"} == await house.settled(run.id)
    await _is_shown(house)
    entry = await client.harness.get(f"/v1/boards/tiny/entries/{run.player}")
    assert (7, run.id) == (entry.body["score"], entry.body["submission"])


async def test_P06_a_claim_that_its_recording_does_not_bear_out_is_rejected(
    house: Deployment, client: Client
):
    """More than was played, or less: neither is the run's score. Control: exactly what was played is."""
    verdicts = {}
    for difference in (+1, -1, 0):
        run = await client.open_run()
        claim = tiny_claim(run.info["seed"])
        answer = await client.submit(run, claim | {"score": claim["score"] + difference})
        assert 202 == answer.status
        await house.settled(run.id)
        verdicts[difference] = (house.states()[run.id], house.reason_of(run.id))
    rejected = ("rejected", "score-mismatch")
    assert {+1: rejected, -1: rejected, 0: ("promoted", "verified")} == verdicts


async def test_P01_a_stolen_recording_is_rejected(house: Deployment, client: Client):
    """Another player's inputs under one's own ticket meet another seed, and part from it at the first checkpoint."""
    honest = await client.open_run()
    stolen = tiny_claim(honest.info["seed"], points=9)
    assert 202 == (await client.submit(honest, stolen)).status
    thief = await client.open_run()
    assert 202 == (await client.submit(thief, stolen)).status

    assert {honest.id: "promoted", thief.id: "rejected"} == await house.settled(honest.id, thief.id)
    assert "diverged" == house.reason_of(thief.id)
    [[detail]] = rows(
        house.ledger, "SELECT detail FROM events WHERE submission_id = ? ORDER BY seq DESC LIMIT 1", thief.id
    )
    assert CHECKPOINT_TICKS == json.loads(detail)["first_divergent_tick"]


async def test_P01_the_same_recording_twice_is_held_even_where_the_replay_cannot_tell(
    house: Deployment, client: Client
):
    """A run too short for a checkpoint replays alike under any seed: the second one is for a moderator."""
    runs = [await client.open_run() for _ in range(2)]
    short = claim_of(play([1, 2, 5, END], 0, CHECKPOINT_TICKS))
    for run in runs:
        assert 202 == (await client.submit(run, short)).status
        await house.settled(run.id)
    assert ["promoted", "held"] == [house.states()[run.id] for run in runs]
    assert "recording-reused" == house.reason_of(runs[1].id)


async def test_P03_a_seed_of_ones_own_choice_is_rejected(house: Deployment, client: Client):
    """The seed is the ticket's; a run played under another one diverges. A ticket is good for one run."""
    run = await client.open_run()
    chosen = tiny_claim(int(run.info["seed"]) ^ 1)
    assert 202 == (await client.submit(run, chosen)).status
    assert {run.id: "rejected"} == await house.settled(run.id)

    again = await client.submit(run, tiny_claim(run.info["seed"]))
    assert (409, "run-already-submitted") == (again.status, again.problem)
    assert {run.id: "rejected"} == await house.settled(run.id)


@pytest.mark.parametrize(
    ("board", "reason"),
    [
        pytest.param("fuel", "out-of-fuel", id="P08"),
        pytest.param("bomb", "out-of-memory", id="P09"),
        pytest.param("grows", "simulator-unusable", id="P09-growing"),
        pytest.param("wall", "timed-out", id="P11"),
        pytest.param("trap", "simulator-trapped", id="trap"),
    ],
)
async def test_P08_P09_P11_a_simulator_that_fails_convicts_nobody(
    house: Deployment, client: Client, board: str, reason: str
):
    """A loop, a memory bomb, a hang, a crash: inconclusive, so held; and other runs go on meanwhile."""
    bad = await client.submitted(board=board)
    good = await client.submitted()
    states = await house.settled(bad.id, good.id)
    assert {bad.id: "held", good.id: "promoted"} == states
    assert reason == house.reason_of(bad.id)


@pytest.mark.parametrize("digest", ["sha256:" + "0" * 64, ""], ids=["another-module", "none"])
async def test_P04_a_run_of_a_module_that_is_not_installed_is_held(
    house: Deployment, client: Client, digest: str
):
    """No other build ever verifies it: the digest that the ticket was issued for is compared."""
    del client
    played, submission_id = tiny_play(7), f"old-{digest[-1:] or 'x'}"
    new = new_submission(submission_id, score=played.score, recording=played.recording, simulator=digest)
    async with opened(house.ledger) as ledger:
        await ledger.append(new)
    assert {submission_id: "held"} == await house.settled(submission_id)
    assert "simulator-missing" == house.reason_of(submission_id)


@pytest.fixture
def queue(house: Deployment) -> Iterator[Queue]:
    redis = Redis.from_url(house.valkey.url)
    yield Queue(QUEUE_NAME, connection=redis, serializer=JSONSerializer)
    redis.close()


class Evil:
    """Unpickling it runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def forged(queue: Queue, name: str, marker: Path) -> None:
    """A job of the kind that somebody with write access to Redis would leave."""
    command = f"touch {marker}"
    key = f"rq:job:{name}"
    ours = json.dumps([VERIFY_JOB, None, [["nobody"]], {}])
    callback = {"success_callback_name": "os.system", "failure_callback_name": "os.system"}
    data: dict[str, dict[str, Any]] = {
        "os-system": {"data": json.dumps(["os.system", None, [command], {}])},
        "subprocess": {"data": json.dumps(["subprocess.getoutput", None, [command], {}])},
        "pickle": {"data": pickle.dumps(Evil(command))},
        "pickled-fields": {
            "data": ours,
            "meta": pickle.dumps(Evil(command)),
            "result": pickle.dumps(Evil(command)),
        },
        "callbacks": {"data": json.dumps([VERIFY_JOB, None, [[command]], {}]), **callback},
        "kwargs": {"data": json.dumps([VERIFY_JOB, None, [["nobody"]], {"submission_ids": ["x"]}])},
        "not-ids": {"data": json.dumps([VERIFY_JOB, None, [[{"os": "system"}]], {}])},
        "two-arguments": {"data": json.dumps([VERIFY_JOB, None, [["a"], ["b"]], {}])},
        "an-instance": {"data": json.dumps(["system", "os", [command], {}])},
        "not-json": {"data": b"\xff\xfe"},
        "no-data": {"status": "queued"},
        "huge": {"data": json.dumps([VERIFY_JOB, None, [["x" * 70_000]], {}])},
        "strange-fields": {
            "data": ours,
            "timeout": "soon",
            "created_at": "never",
            "status": "evil",
            "ttl": "x",
        },
        "short-timeout": {"data": ours, "timeout": "1", "result_ttl": "-1"},
    }
    queue.connection.hset(key, mapping=data[name])
    queue.connection.lpush(queue.key, name)


@pytest.mark.parametrize(
    "name",
    [
        "os-system",
        "subprocess",
        "pickle",
        "pickled-fields",
        "callbacks",
        "kwargs",
        "not-ids",
        "two-arguments",
        "an-instance",
        "not-json",
        "no-data",
        "huge",
        "strange-fields",
        "short-timeout",
    ],
)
async def test_I16_a_forged_job_runs_no_code(
    house: Deployment, client: Client, queue: Queue, tmp_path: Path, name: str
):
    """Whatever stands in RQ's keys, nothing is called but our verification; and honest runs go on."""
    marker = tmp_path / "pwned"
    forged(queue, name, marker)
    honest = await client.submitted()
    assert {honest.id: "promoted"} == await house.settled(honest.id)
    await eventually(lambda: not queue.connection.exists(queue.key))
    assert not marker.exists()


async def test_I16_rq_s_own_ways_of_calling_out_are_shut(
    house: Deployment, client: Client, queue: Queue, tmp_path: Path
):
    """Callbacks and dependents of a job that RQ itself wrote are all ignored."""
    marker = tmp_path / "pwned"
    job = Job.create(
        VERIFY_JOB,
        args=([f"touch {marker}"],),
        connection=queue.connection,
        serializer=JSONSerializer,
        on_success=Callback("os.system"),
        on_failure=Callback("os.system"),
        origin=QUEUE_NAME,
    )
    queue.enqueue_job(job)
    child = queue.enqueue_call("os.system", args=(f"touch {marker}",), depends_on=job)
    honest = await client.submitted()
    assert {honest.id: "promoted"} == await house.settled(honest.id)
    await eventually(lambda: not queue.connection.exists(queue.key))
    assert not marker.exists()
    assert child.get_status() != "finished"


@pytest.mark.parametrize("job_id", [b"\xff\xfe", b"a b:c;d", b""], ids=["not-utf-8", "not-an-id", "empty"])
async def test_I16_a_job_id_that_is_none_ends_no_worker(
    house: Deployment, client: Client, queue: Queue, job_id: bytes
):
    """RQ gives up on ids that it cannot read; the worker starts it again."""
    queue.connection.lpush(queue.key, job_id)
    honest = await client.submitted()
    assert {honest.id: "promoted"} == await house.settled(honest.id)


async def test_I16_no_worker_listens_to_commands_out_of_redis(
    house: Deployment, client: Client, queue: Queue
):
    """RQ's own would end it, or the job at hand, for anybody who can publish."""
    run = await client.submitted()
    await house.settled(run.id)  # by now it works
    names = [key.decode().removeprefix("rq:worker:") for key in queue.connection.smembers("rq:workers")]
    assert [0] == [queue.connection.publish(f"rq:pubsub:{name}", '{"command": "shutdown"}') for name in names]


async def test_unknown_and_settled_ids_are_harmless(house: Deployment, client: Client, queue: Queue):
    """A job on the allow-list can name any ids: a settled submission stays as it is, an unknown one is nothing."""
    run = await client.submitted()
    await house.settled(run.id)
    events = house.verdict_events()
    queue.enqueue_call(VERIFY_JOB, args=([run.id, "nobody", "'; DROP TABLE events"],), result_ttl=0)
    last = await client.submitted()
    await house.settled(last.id)
    assert events | {last.id: 1} == house.verdict_events()


async def test_nothing_of_rq_s_grows(house: Deployment, client: Client, queue: Queue):
    """Once all is settled no job, execution or registry entry is left in Redis that was not there before."""
    redis = queue.connection
    await eventually(lambda: not redis.exists(queue.key))
    redis.delete(queue.intermediate_queue_key)  # what attacks left
    first = await client.submitted()
    await house.settled(first.id)  # by now the worker has tidied up behind all that came before it
    before = set(redis.keys("rq:*"))
    runs = [await client.submitted() for _ in range(20)]
    await house.settled(*(run.id for run in runs))
    left = (queue.key, f"rq:wip:{QUEUE_NAME}", f"rq:finished:{QUEUE_NAME}", queue.intermediate_queue_key)
    # A verdict is settled before RQ tidies up behind its job.
    await eventually(lambda: not redis.exists(*left) and not set(redis.keys("rq:*")) - before)


PATIENT = """
from replay.worker import process
assert 30 == process.WORKER_TTL_S
process.WORKER_TTL_S = 600
"""


async def test_I22_an_idle_worker_told_to_end_does_so_at_once(house: Deployment, client: Client):
    """SIGTERM while it waits for a job: exit status 0, without waiting for the time-out of that wait, here ten minutes."""
    del client
    worker = house.start("worker", before=PATIENT)
    redis = Redis.from_url(house.valkey.url)
    await eventually(lambda: any(_is_waiting(redis, worker.pid, key) for key in redis.smembers("rq:workers")))
    worker.send_signal(signal.SIGTERM)
    assert 0 == await ended(worker)
    redis.close()


def _is_waiting(redis: Redis, pid: int, key: bytes) -> bool:
    return redis.hmget(key, "pid", "state") == [str(pid).encode(), b"idle"]


async def test_the_board_is_the_ledgers_at_the_end_of_it_all(house: Deployment, client: Client):
    """After every attack of this file the board holds what the ledger promoted, and nothing else."""
    run = await client.submitted(points=2)
    await house.settled(run.id)
    await _is_shown(house)


async def _is_shown(house: Deployment) -> None:
    """Return once the board shows what the ledger promoted."""
    with Redis.from_url(house.valkey.url) as redis:
        await house.is_shown(redis)
