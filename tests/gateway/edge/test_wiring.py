"""What an operator sets reaches the part that it is for, in the unit of that part, whatever carries the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from redis.asyncio import Redis
from redis.exceptions import TimeoutError as RedisTimeout

from gateway.edge.app import build_app
from gateway.edge.connections import ConnectionGate
from gateway.edge.context import Edge
from gateway.edge.live.feed_request import SEATS
from gateway.edge.reads.read_budget import BUDGET
from gateway.edge_wiring import open_edge
from gateway.index.groups.circle_memory import CircleMemory
from gateway.index.groups.friends import CIRCLE_MS
from gateway.ledger.judgement.builds import BuildChange, set_build_status
from gateway.ledger.reads import READ_LIMITS, ReadKind
from gateway.runtime.settings import Settings
from gateway.steward_wiring import QUEUE_TIMEOUT_S, open_steward
from gateway.wiring import ledger_of, open_index, open_ledger
from policies.replaying import BuildStatus
from tests.support.game import BUILD

ODD: Final[dict[str, Any]] = {
    "answer_within_s": 7.0,
    "arriving_mib": 67,
    "connections_per_address": 11,
    "connections_per_network": 13,
    "disk_floor_mib": 17,
    "head_timeout_s": 19.0,
    "keepalive_timeout_s": 23.0,
    "live_listeners": 29,
    "live_per_address": 31,
    "live_per_network": 37,
    "read_budget_ms": 41,
    "recording_inline_bytes": 43,
    "recordings_timeout_s": 47.0,
    "redis_timeout_ms": 5_300,
    "unsent_mib": 59,
    "write_timeout_s": 61.0,
}
"""A value of its own for each setting, and none of them the default."""


@dataclass(frozen=True)
class Opened:
    """The parts in which the settings of an edge end up."""

    edge: Edge
    gate: ConnectionGate
    app: web.Application


REACHED: Final[dict[str, tuple[object, Callable[[Opened], object]]]] = {
    "time to answer": (12.3, lambda opened: opened.edge.entrance._within_s),
    "part of it in the queue": (7.0 / 6 + 5.3, lambda opened: opened.edge.entrance._queued_s),
    "connections": ((11, 13), lambda opened: opened.gate._seats._limits),
    "floor of the disk": (17 * 2**20, lambda opened: opened.edge.disk._floor_bytes),
    "time for a head": (19.0, lambda opened: opened.gate.head_timeout_s),
    "time between requests": (23.0, lambda opened: opened.gate._options["keepalive_timeout"]),
    "feeds of the process": (29, lambda opened: opened.edge.live._free),
    "feeds of a client": ((31, 37), lambda opened: opened.app[SEATS]._limits),
    "share of an address": (0.041, lambda opened: opened.app[BUDGET]._of_one._share),
    "share of a network": (0.0615, lambda opened: opened.app[BUDGET]._of_networks._share),
    "recordings in the ledger": (43, lambda opened: opened.edge.recordings.inline_bytes),
    "time for a store": (47.0, lambda opened: opened.edge.recordings._timeout_s),
    "time for Redis": (5.3, lambda opened: redis_timeout_s(opened, "socket_timeout")),
    "time to connect to it": (5.3, lambda opened: redis_timeout_s(opened, "socket_connect_timeout")),
    "bytes that arrive": (67 * 2**20, lambda opened: opened.edge.arriving._limit_bytes),
    "bytes to send": (59 * 2**20, lambda opened: opened.gate.send_backlog._limit_bytes),
    "time to take them": (61.0, lambda opened: opened.gate.write_timeout_s),
    "life of a circle": (CIRCLE_MS / 1000, lambda opened: circles(opened)._life_s),
}


def redis_timeout_s(opened: Opened, name: str) -> object:
    return opened.edge.index.client.connection_pool.connection_kwargs[name]


def circles(opened: Opened) -> CircleMemory:
    """The circles of friends of all boards, which are bounded together."""
    edge = opened.edge
    boards = edge.catalogue.of_files
    [one] = {edge.of(boards[name]).circles._memory for name in ("vault", "arcade")}
    return one


async def test_what_is_set_reaches_its_part_of_an_edge(settings: Settings):
    """Each by itself and in the unit of its part; the time to answer has that of Redis on top."""
    async with open_edge(settings.model_copy(update=ODD)) as edge:
        opened = Opened(edge, ConnectionGate(edge, build_app(edge)), build_app(edge))
        found = {name: read(opened) for name, (_, read) in REACHED.items()}
    assert {name: pytest.approx(value) for name, (value, _) in REACHED.items()} == found


@pytest.mark.parametrize("url", [None, "postgresql://nobody@127.0.0.1/none"])
def test_what_is_set_reaches_either_ledger(tmp_path: Path, url: str | None):
    """How many writes may wait, and how many pages may be read or wait; reads of other kinds are as they were."""
    settings = Settings(data_dir=tmp_path, ledger_url=url, ledger_queue=67, ledger_pages=3)
    ledger: Any = ledger_of(settings)
    queues = getattr(ledger, "_reads", ledger)._queues._queues
    limits = {kind: queue.limits for kind, queue in queues.items()}
    pages = limits[ReadKind.PAGES]
    assert (67, 3) == (ledger._queue_limit, pages.at_once + pages.waiting)
    assert READ_LIMITS | {ReadKind.PAGES: pages} == limits


async def test_a_steward_waits_no_longer_for_the_queue_than_it_may(settings: Settings):
    """A queue that takes connections and says nothing would hold up all its other duties."""
    async with open_steward(settings) as steward:
        options = steward._jobs._client.connection_pool.connection_kwargs
    waits = ("socket_timeout", "socket_connect_timeout")
    assert dict.fromkeys(waits, QUEUE_TIMEOUT_S) == {name: options.get(name) for name in waits}


async def test_a_build_that_is_blocked_is_so_from_the_first_request_on(settings: Settings):
    """An edge that starts knows it before it listens, not once it next looks."""
    change = BuildChange("arcade", BUILD, BuildStatus.BLOCKED, "operator", "seen in the wild", 1)
    async with open_ledger(settings) as ledger:
        await ledger.write(set_build_status(change))
    async with open_edge(settings) as edge:
        assert BuildStatus.BLOCKED is edge.builds.status_of(edge.catalogue.of_files["arcade"], BUILD)


async def test_no_two_purposes_share_a_key(settings: Settings):
    """Who gets a cursor sealed or an address hashed has no token by it, nor the key of a run."""
    async with open_edge(settings) as edge:
        keys = [edge.cursors._key, edge.addresses._key, edge.tokens._key.raw_value, edge.tickets.key("token")]
    assert len(keys) == len(set(keys))
    assert {32} == {len(key) for key in keys}


async def test_a_redis_that_takes_no_leave_keeps_no_part_from_ending(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Closing a connection waits as long as opening one, and then raises; there is nobody left to tell."""
    closed: list[Redis] = []

    async def late(client: Redis) -> None:
        closed.append(client)
        raise RedisTimeout("Timed out closing connection")

    monkeypatch.setattr(Redis, "aclose", late)
    async with open_index(settings) as index:
        pass
    assert [index.client] == closed
