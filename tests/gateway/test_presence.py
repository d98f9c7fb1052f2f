"""What a deployment lacks: parts that are not there, policies that differ, duties that fail; each named in `/readyz`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from gateway.deployment import presence
from gateway.deployment.presence import (
    FAILURES_LIMIT,
    VERSION,
    PartKind,
    PartReport,
    Presence,
    digest_of,
    own_host,
    parts_there,
    present_on_a_thread,
)
from gateway.deployment.run_files import BEGAN_MS
from gateway.index import keys, part_registry
from gateway.index.connection import connect
from gateway.index.part_registry import LIFE_MS, MOST_PARTS
from gateway.runtime.settings import Settings
from gateway.runtime.unexpected import FaultPlace
from policies.loader import Board
from tests.support import boards
from tests.support.attack import until
from tests.support.deployment import PATIENCE_S
from tests.support.harness import Harness
from tests.support.metrics import metric
from tests.support.valkey import ValkeyServer, running_valkey


@pytest.fixture
async def client(valkey: ValkeyServer) -> AsyncIterator[Redis]:
    connected = connect(valkey.url, timeout_ms=5_000)
    yield connected
    await connected.aclose()


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path / "policies")


def a_part(client: Redis, kind: PartKind, board: Board, **facts: object) -> Presence:
    return Presence(client, kind, lambda: {"tiny": board}, **facts)  # type: ignore[arg-type]


async def test_F25_parts_that_are_not_there_are_named(client: Redis, board: Board):
    """Each until it has spoken, and again once it was not heard of for its life; policies that differ while they do."""
    edge = a_part(client, PartKind.EDGE, board)
    assert [] == edge.missing()  # nobody knows yet
    await edge.beat()
    assert ["steward", "worker"] == edge.missing()
    for kind in (PartKind.STEWARD, PartKind.WORKER):
        await a_part(client, kind, board).beat()
    await edge.beat()
    assert [] == edge.missing()
    await client.zadd(keys.parts(), dict.fromkeys(await client.zrange(keys.parts(), 0, -1), 1))
    await edge.beat()
    assert ["steward", "worker"] == edge.missing()
    assert 1 == await client.hlen(keys.part_reports())
    assert 0 < await client.pttl(keys.parts()) <= LIFE_MS


async def test_F25_policies_that_differ_are_named(client: Redis, board: Board, tmp_path: Path):
    """By every part that hears of them, in the gauge too, until all are alike."""
    other = boards.board(tmp_path / "other", operator="latest")
    edge, second = a_part(client, PartKind.EDGE, board), a_part(client, PartKind.EDGE, other)
    await edge.beat()
    await second.beat()
    await edge.beat()
    assert ("policies" in edge.missing(), "policies" in second.missing()) == (True, True)
    assert 1 == metric("scoregate_policies_differ")
    await Presence(client, PartKind.EDGE, lambda: {"tiny": board}, part_id=second.part_id).beat()
    await edge.beat()
    assert ("policies" in edge.missing(), 0) == (False, metric("scoregate_policies_differ"))


async def test_F25_nothing_is_said_to_lack_once_the_index_is_away(board: Board):
    """What was heard before may be no more: a part says nothing of the others until it hears of them again."""
    with running_valkey() as own:
        client = connect(own.url, timeout_ms=500)
        edge = a_part(client, PartKind.EDGE, board)
        await edge.beat()
        assert ["steward", "worker"] == edge.missing()
        own.kill()
        keeping = asyncio.create_task(edge.keep())

        async def is_silent() -> bool:
            return edge.parts is None

        await until(is_silent)
        assert ([], []) == (edge.missing(), edge.failing())
        keeping.cancel()
        await client.aclose()


async def test_F25_policies_that_differ_are_logged_when_they_begin_to(
    client: Redis, board: Board, tmp_path: Path
):
    """Once for as long as they do, however often a part hears of it, and again when they do again; never while alike."""
    other = boards.board(tmp_path / "other", operator="latest")
    edge, second = a_part(client, PartKind.EDGE, board), a_part(client, PartKind.EDGE, other)
    told = []
    for theirs in (other, other, board, board, other):
        second._boards = lambda theirs=theirs: {"tiny": theirs}  # type: ignore[misc]
        await second.beat()
        with capture_logs() as events:
            await edge.beat()
        told.append(events)
    parts = sorted(f"edge:{digest_of({'tiny': each})}" for each in (board, other))
    differ = {"event": "policies_differ", "log_level": "warning", "parts": parts}
    assert [[differ], [], [], [], [differ]] == told


async def test_F25_duties_that_fail_are_named_by_other_parts(client: Redis, board: Board):
    """The steward says which, on which board; the edge tells whoever asks it."""
    await a_part(client, PartKind.STEWARD, board, failing=lambda: ("reconcile:tiny",)).beat()
    edge = a_part(client, PartKind.EDGE, board)
    await edge.beat()
    assert ["reconcile:tiny"] == edge.failing()


async def test_F25_a_part_says_who_it_is_and_a_few_of_its_failures(
    client: Redis, board: Board, valkey: ValkeyServer
):
    """Its kind, machine, process, beginning and version; each failure is named once by whoever asks, and not without end."""
    failures = [f"archive:b{number:02}" for number in range(3 * FAILURES_LIMIT)]
    for failing in (failures, failures[:1]):
        await a_part(client, PartKind.STEWARD, board, failing=lambda failing=failing: failing).beat()
    edge = a_part(client, PartKind.EDGE, board)
    await edge.beat()
    assert failures[:FAILURES_LIMIT] == edge.failing()
    there = await parts_there(Settings(redis_url=valkey.url))
    steward = PartReport(
        kind=PartKind.STEWARD,
        policies=digest_of({"tiny": board}),
        host=own_host(),
        pid=os.getpid(),
        since_ms=BEGAN_MS,
        failing=tuple(failures[:FAILURES_LIMIT]),
        version=VERSION,
    )
    alone = steward.model_copy(update={"failing": (failures[0],)})
    own = steward.model_copy(update={"kind": PartKind.EDGE, "failing": ()})
    by_failures = sorted(there, key=lambda part: len(part.failing))
    assert [own, alone, steward] == by_failures


async def test_F25_nobody_waits_for_a_worker_where_nothing_is_replayed(client: Redis, board: Board):
    """On boards without a replay a deployment is whole with an edge and a steward."""
    plain = replace(board, policy=board.policy.model_copy(update={"replay": None}))
    edge = a_part(client, PartKind.EDGE, plain)
    await edge.beat()
    assert ["steward"] == edge.missing()


async def test_F25_what_all_parts_say_together_is_bounded(client: Redis, board: Board):
    """Of many failing parts so many failures are named, and so many policies logged; each report has a form."""
    registry = part_registry.PartRegistry(client)
    reports = [
        PartReport(
            kind=PartKind.EDGE, policies=f"{at:016x}", failing=(f"archive:b{at:02}",)
        ).model_dump_json()
        for at in range(3 * FAILURES_LIMIT)
    ]
    for at, report in enumerate((*reports, reports[0].replace('"version":""', '"version":"<b>1</b>"'))):
        await registry.register(f"p{at}", report)
    edge = a_part(client, PartKind.EDGE, board, failing=lambda: ["reconcile:tiny"])
    with capture_logs() as events:
        await edge.beat()
    assert [f"archive:b{at:02}" for at in range(FAILURES_LIMIT)] == edge.failing()
    assert [FAILURES_LIMIT] == [len(each["parts"]) for each in events]
    assert 3 * FAILURES_LIMIT + 1 == len(edge.parts or ())


async def test_F25_a_part_goes_on_whatever_failed_and_says_nothing_of_others_meanwhile(
    client: Redis, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """What nobody foresaw is reported as a fault of that place; the next beat is as if nothing had been."""
    monkeypatch.setattr(presence, "BEAT_S", 0.01)
    reported: list[tuple[FaultPlace, BaseException]] = []
    monkeypatch.setattr(presence, "report", lambda *facts: reported.append(facts))
    faults: list[Exception] = []

    def failing() -> list[str]:
        if faults:
            raise faults[0]
        return []

    edge = a_part(client, PartKind.EDGE, board, failing=failing)

    async def is_known() -> bool:
        return edge.parts is not None

    async def is_unknown() -> bool:
        return edge.parts is None

    keeping = asyncio.create_task(edge.keep())
    await until(is_known)
    faults.append(ZeroDivisionError("one of ours"))
    await until(is_unknown)
    assert [] == edge.missing()
    assert (FaultPlace.PRESENCE, faults[0]) == reported[0]
    faults.clear()
    await until(is_known)
    keeping.cancel()
    await asyncio.wait([keeping])


def test_F25_what_a_part_says_of_itself_is_the_same_on_every_machine(
    board: Board, monkeypatch: pytest.MonkeyPatch
):
    """Policies in any order are the same ones, and a machine may have any name."""
    boards_of = {"a": board, "b": board}
    assert digest_of(boards_of) == digest_of(dict(reversed(boards_of.items())))
    monkeypatch.setattr("socket.gethostname", lambda: "caf\u00e9 <1>" + "x" * 300)
    assert ("caf---1-" + "x" * 245) == own_host()


async def test_F25_what_no_part_said_is_passed_over(client: Redis, board: Board):
    """Junk in the hash, a part that says nothing; and past so many parts no more are noted."""
    edge = a_part(client, PartKind.EDGE, board)
    seconds, _ = await client.time()
    there = [f"p{at}" for at in range(MOST_PARTS - 2)]
    await client.zadd(keys.parts(), dict.fromkeys(["junk", "silent", *there], seconds * 1000 + LIFE_MS // 2))
    await client.hset(keys.part_reports(), mapping={"junk": b"\xff{", "unknown": "{}"})
    await edge.beat()
    assert () == edge.parts


async def test_F25_a_part_that_is_there_is_heard_though_there_are_as_many_as_may_be(
    client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """One that comes too late is not noted until another has gone; those that are there stay, with what they say now."""
    monkeypatch.setattr(part_registry, "MOST_PARTS", 2)
    there = part_registry.PartRegistry(client)
    for part, said in (("a", "one"), ("b", "two"), ("late", "none")):
        await there.register(part, said)
    assert {b"three", b"two"} == set(await there.register("a", "three"))
    await client.zadd(keys.parts(), {"b": 1})
    assert {b"three", b"now"} == set(await there.register("late", "now"))
    assert {"a", "late"} == set(await client.hkeys(keys.part_reports()))


@pytest.mark.parametrize("score", [10**15, 1.7e308, "+inf"])
async def test_F25_a_part_from_the_future_is_thrown_out(client: Redis, board: Board, score: float):
    """One that would be there for ever, by other policies, is gone at once: nobody is there for longer than a life."""
    edge = a_part(client, PartKind.EDGE, board)
    forged = PartReport(kind=PartKind.STEWARD, policies="0" * 16, version="9")
    await edge.beat()
    await client.zadd(keys.parts(), {"forged": score})
    await client.hset(keys.part_reports(), "forged", forged.model_dump_json())
    await edge.beat()
    assert ["steward", "worker"] == edge.missing()
    assert (1, 1) == (await client.zcard(keys.parts()), await client.hlen(keys.part_reports()))


async def test_F25_keys_that_others_filled_or_took_are_made_anew(client: Redis, board: Board):
    """More parts than there may be, keys of other kinds: each part is there again once it has spoken."""
    edge = a_part(client, PartKind.EDGE, board)
    seconds, _ = await client.time()
    soon = seconds * 1000 + LIFE_MS // 2
    await client.zadd(keys.parts(), {f"p{at}": soon for at in range(9 * MOST_PARTS)})
    await edge.beat()
    assert [PartKind.EDGE] == [part.kind for part in edge.parts or ()]
    await client.hset(keys.part_reports(), mapping={f"p{at}": "{}" for at in range(100)})
    await edge.beat()
    assert [edge.part_id] == await client.hkeys(keys.part_reports())
    assert [PartKind.EDGE] == [part.kind for part in edge.parts or ()]
    for key in (keys.parts(), keys.part_reports()):
        await client.set(key, "taken")
        await edge.beat()
        assert [PartKind.EDGE] == [part.kind for part in edge.parts or ()]


async def test_F25_parts_of_different_versions_are_named(
    client: Redis, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """As long as they are there: a deployment that is restarted part by part says so."""
    edge, steward = a_part(client, PartKind.EDGE, board), a_part(client, PartKind.STEWARD, board)
    await steward.beat()
    with monkeypatch.context() as patched:
        patched.setattr("gateway.deployment.presence.VERSION", "0.0.9")
        await edge.beat()
    assert ["worker", "versions"] == edge.missing()
    await edge.beat()
    assert ["worker"] == edge.missing()


async def test_F25_a_worker_is_there_while_it_is_busy(client: Redis, board: Board, valkey: ValkeyServer):
    """Its own thread may be in a replay for long: another says that it is there, and ends with it."""
    edge = a_part(client, PartKind.EDGE, board)

    async def is_there() -> bool:
        await edge.beat()
        return "worker" not in edge.missing()

    with present_on_a_thread(Settings(redis_url=valkey.url), PartKind.WORKER, lambda: {"tiny": board}):
        async with asyncio.timeout(PATIENCE_S):
            while not await is_there():  # noqa: ASYNC110 - it is another thread's, and known to Redis alone
                await asyncio.sleep(0.02)
    [worker] = [part for part in edge.parts or () if part.kind is PartKind.WORKER]
    assert (digest_of({"tiny": board}), own_host(), os.getpid()) == (worker.policies, worker.host, worker.pid)


async def test_F25_readyz_names_what_is_missing(harness: Harness):
    """200 and `degraded`: submissions are taken, but nobody judges them."""
    await harness.edge.presence.beat()
    ready = await harness.get("/readyz")
    assert (200, "degraded", ["steward", "worker"], []) == (
        ready.status,
        *(ready.body[name] for name in ("status", "missing", "failing")),
    )
