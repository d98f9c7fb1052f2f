"""The urgent queue as it is in service: a worker of its own, and the main one left alone."""

from __future__ import annotations

from pathlib import Path

from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from gateway.steward.dispatch import VERIFY_JOB, VerificationQueue
from tests.support import boards
from tests.support.deployment import client_of, deployed, eventually
from tests.support.valkey import running_valkey


async def test_I11_I16_a_worker_of_the_urgent_lane_serves_it_alone(tmp_path: Path):
    """What would enter the top is promoted by it, a forged job is not run, and the main queue stays as it is."""
    with running_valkey() as valkey, deployed(tmp_path, valkey, redispatch_s=60) as house:
        boards.write_board(house.policies)
        for part in ("serve", "worker --queue urgent"):
            house.start(part)
        redis = Redis.from_url(valkey.url)
        queues = {
            queue: Queue(queue.rq_name, connection=redis, serializer=JSONSerializer)
            for queue in VerificationQueue
        }
        await house.is_answering()
        await eventually(lambda: redis.smembers("rq:workers:scoregate-verify-urgent"), house.log)
        marker = tmp_path / "pwned"
        queues[VerificationQueue.URGENT].enqueue_call("os.system", args=(f"touch {marker}",))
        queues[VerificationQueue.MAIN].enqueue_call(VERIFY_JOB, args=(["nobody"],))
        house.start("steward")
        async with client_of(house) as client:
            run = await client.submitted(points=7)
            assert {run.id: "promoted"} == await house.settled(run.id)
        assert not marker.exists()
        assert (1, 0) == (queues[VerificationQueue.MAIN].count, queues[VerificationQueue.URGENT].count)
        redis.close()
