"""Parts that are told to end while something hangs, or is away."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from gateway.deployment.run_files import running_parts
from tests.replay.games import broken, store
from tests.support import boards, preloaded
from tests.support.deployment import client_of, deployed, ended, eventually
from tests.support.valkey import running_valkey


def is_at_work(part: str, redis: Redis) -> bool:
    """Tell whether a worker waits for jobs, or a steward has shown a board."""
    if part == "steward":
        return bool(redis.keys("lb:{201}:tiny:*"))
    return any(redis.hget(key, "state") == b"idle" for key in redis.smembers("rq:workers"))


@pytest.mark.parametrize("part", ["worker", "steward"])
async def test_F22_a_part_ends_while_redis_is_away(part: str, tmp_path: Path):
    """Told after it noticed: it ends in order, though it cannot say goodbye in Redis."""
    with running_valkey() as valkey, deployed(tmp_path, valkey, log_level="info") as house:
        process = house.start(part)
        with Redis.from_url(valkey.url) as redis:
            await eventually(lambda: is_at_work(part, redis), house.log)
        valkey.kill()
        said = "could not connect" if part == "worker" else "duty_failed"
        await eventually(lambda: said in house.log.read_text(), house.log)
        process.send_signal(signal.SIGTERM)
        assert 0 == await ended(process)
        assert "is_in_time" not in house.log.read_text()


async def test_F22_a_worker_ends_in_order_that_never_reached_redis(tmp_path: Path):
    """It looks for Redis again and again, and nothing but a signal ends that."""
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house:
        valkey.stop()
        worker = house.start("worker")
        await eventually(lambda: "index_unavailable" in house.log.read_text(), house.log)
        worker.send_signal(signal.SIGTERM)
        assert 0 == await ended(worker)
        assert "Traceback" not in house.log.read_text()


@pytest.mark.parametrize("part", ["worker", "steward", "serve"])
async def test_F22_a_part_that_is_told_to_end_while_it_starts_ends_in_order(part: str, tmp_path: Path):
    """Here it waits for another that creates the ledger. What it opens then, it closes."""
    with running_valkey() as valkey, deployed(tmp_path, valkey, log_level="info") as house:
        house.ledger.parent.mkdir()
        with closing(sqlite3.connect(house.ledger, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            process = house.start(part)
            await eventually(lambda: bool(running_parts(house.ledger.parent)), house.log)
            process.send_signal(signal.SIGTERM)
            other.execute("ROLLBACK")
        assert 0 == await ended(process)
        assert [] == list((house.ledger.parent / "run").iterdir())
        assert [] == list(house.ledger.parent.glob("*-wal"))


@pytest.mark.parametrize("part", ["worker", "steward", "serve"])
async def test_F23_a_part_that_has_ended_takes_no_notice_of_further_signals(part: str, tmp_path: Path):
    """Whoever tells it to end again and again, to the last moment, sees that it ended in order."""
    with running_valkey() as valkey, deployed(tmp_path, valkey, log_level="info") as house:
        process = house.start(part)
        await eventually(lambda: _is_ready_to_end(part, house.log.read_text()), house.log)
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.001)
        assert 0 == process.returncode
        assert "Traceback" not in house.log.read_text()


def test_a_part_without_standard_streams_ends_in_order(tmp_path: Path):
    """A supervisor may close all three; here Redis is away, and the part is told to end once it is noted."""
    command = ["sh", "-c", 'exec "$0" -m scoregate steward <&- >&- 2>&-', sys.executable]
    environment = os.environ | {
        "SCOREGATE_DATA_DIR": str(tmp_path),
        "SCOREGATE_REDIS_URL": f"unix://{tmp_path}/none.sock",
    }
    with subprocess.Popen(command, env=environment) as process:
        while process.poll() is None and not running_parts(tmp_path):
            time.sleep(0.05)
        process.terminate()
    assert 0 == process.returncode


def _is_ready_to_end(part: str, log: str) -> bool:
    """Tell whether a part says that it began; a steward says so by its first duty."""
    return ("index_rebuilt" if part == "steward" else '"started"') in log


NO_DESCRIPTORS = """
from gateway.deployment import presence
def connect(*_, **__):
    raise OSError(24, "Too many open files")
presence.connect = connect
"""


def test_a_worker_that_cannot_report_itself_ends_and_says_why(tmp_path: Path):
    """A limit on open files leaves none for the thread that reports it: nobody waits for that thread."""
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house:
        variables = {f"SCOREGATE_{name.upper()}": value for name, value in house.settings.items()}
        told = preloaded.finished(["worker"], os.environ | variables, before=NO_DESCRIPTORS)
    assert (2, "Too many open files\n") == (told.returncode, told.stderr)


async def test_F22_a_worker_ends_within_its_grace_in_a_run_that_does_not(tmp_path: Path):
    """A module that loops for longer than anybody waits: the lease brings its run back."""
    with running_valkey() as valkey, deployed(tmp_path, valkey, shutdown_grace_s="0.5") as house:
        module = store(house.policies, broken(boards.LOOP))
        boards.write_board(house.policies, module=module, budget={"fuel": 10**12, "wall_ms": 60_000})
        house.start("serve")
        await house.is_answering()
        async with client_of(house) as client:
            run = await client.submitted()
        house.start("steward")
        worker = house.start("worker")
        with Redis.from_url(valkey.url) as redis:
            await eventually(
                lambda: any(redis.hget(key, "state") == b"busy" for key in redis.smembers("rq:workers")),
                house.log,
            )
        worker.send_signal(signal.SIGTERM)
        assert 0 == await ended(worker)
        assert "is_in_time" in house.log.read_text()
        assert {run.id: "pending"} == house.states()
