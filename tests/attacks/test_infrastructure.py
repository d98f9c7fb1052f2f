"""What the edge says and does when something under it, or the client, goes away."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from gateway.edge.health import probes
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import REGISTRY
from tests.support.attack import (
    CLAIM,
    ENTRY,
    a_run,
    accept,
    honest,
    issued,
    registered,
    rows,
    until,
)
from tests.support.harness import Harness, running_harness
from tests.support.raw import RawConnection, as_bytes, exchange
from tests.support.valkey import ValkeyServer, running_valkey

REDUCED = (503, "temporary-reduced-capacity")


@asynccontextmanager
async def locked_ledger(harness: Harness) -> AsyncIterator[None]:
    """Another process holds the ledger's write lock."""
    other = sqlite3.connect(harness.edge.settings.ledger_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def index_of(valkey: ValkeyServer) -> set[str]:
    """Keys of the index other than limits and open runs."""
    with valkey.client() as client:
        return {key for key in client.scan_iter() if "limit" not in key and ":open:" not in key}


async def test_I07_a_ledger_that_refuses_acknowledges_nothing(
    harness: Harness, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """503 with Retry-After, no row, no trace in Redis, and readiness says so; the very same requests pass afterwards."""
    monkeypatch.setattr(probes, "PROBE_TIMEOUT_S", 0.2)
    private = await registered(harness)
    submission = honest(harness, await a_run(harness))
    entry = harness.server_signed(private, "eu-1", ENTRY, board="vault")
    before = index_of(valkey)
    async with locked_ledger(harness):
        sending = asyncio.gather(harness.send(submission), harness.send(entry))
        ready = await harness.ready()
        assert 503 == ready.status
        assert {
            "status": "unready",
            "ledger": False,
            "index": True,
            "policies": True,
        }.items() <= ready.body.items()
        for answer in await sending:
            assert REDUCED == (answer.status, answer.problem)
            assert int(answer.headers["Retry-After"]) >= 1
        await harness.edge.index.drained()
        assert before == index_of(valkey)
        assert 0 == await rows(harness)
    await accept(harness, submission)
    await accept(harness, entry)


async def test_I07_a_full_queue_is_refused_at_once(settings: Settings):
    """What the ledger cannot take soon it does not take at all."""
    async with running_harness(settings.model_copy(update={"ledger_queue": 1})) as harness:
        requests = [honest(harness, issued(harness, f"p{number}")) for number in range(40)]
        async with locked_ledger(harness):
            sending = asyncio.gather(*(harness.send(request) for request in requests))
            done, _ = await asyncio.wait([sending], timeout=0.5)
            assert not done
        answers = await sending
        stored = sum(answer.status == 202 for answer in answers)
        assert {202, 503} == {answer.status for answer in answers}
        assert stored == await rows(harness)


async def test_readiness_tells_the_truth_of_redis(settings: Settings):
    """Without Redis submissions are still taken: degraded, not unready; the board is read from the ledger meanwhile."""
    with running_valkey() as own:
        async with running_harness(settings.model_copy(update={"redis_url": own.url})) as harness:
            ready = await harness.ready()
            assert (200, True) == (ready.status, ready.body["index"])
            own.kill()
            degraded = await harness.ready()
            expected = {"status": "degraded", "ledger": True, "index": False, "policies": True}
            assert expected.items() <= degraded.body.items()
            assert 200 == degraded.status
            await accept(harness, honest(harness, issued(harness)))
            board = await harness.get("/v1/boards/sprint/entries")
            assert (200, "ledger") == (board.status, board.headers["Scoregate-Source"])
            assert 200 == (await harness.get("/livez")).status
            own.start()
            await until(lambda: is_ready(harness))


async def is_ready(harness: Harness) -> bool:
    return bool((await harness.ready()).body["index"])


HEAD = "GET /livez HTTP/1.1\r\nHost: {host}\r\n"
GARBAGE = {
    "a field of 9 kB": (HEAD + "X: " + "a" * 9000 + "\r\n\r\n", (431, "headers-too-large")),
    "200 fields": (
        HEAD + "".join(f"X-{each}: 1\r\n" for each in range(200)) + "\r\n",
        (400, "malformed-request"),
    ),
    "a URL of 64 kB": (
        "GET /" + "a" * 65_536 + " HTTP/1.1\r\nHost: {host}\r\n\r\n",
        (431, "headers-too-large"),
    ),
    "no HTTP": ("\x16\x03\x01\x02", (400, "malformed-request")),
    "no host": ("GET /livez HTTP/1.1\r\n\r\n", (400, "malformed-request")),
    "bare line feeds": (HEAD.replace("\r", "") + "\n", (400, "malformed-request")),
    "an obsolete fold": (HEAD + "X: a\r\n b\r\n\r\n", (400, "malformed-request")),
    "a space before the colon": (HEAD + "X : a\r\n\r\n", (400, "malformed-request")),
    "two lengths": (HEAD + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", (400, "malformed-request")),
    "length and chunks": (
        HEAD + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        (400, "malformed-request"),
    ),
    "a wrong chunk": (HEAD + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", (400, "malformed-request")),
    "an unknown method": ("BREW /livez HTTP/1.1\r\nHost: {host}\r\n\r\n", (400, "malformed-request")),
    "a proxy's request": ("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", (421, "misdirected")),
    "an asterisk": ("OPTIONS * HTTP/1.1\r\nHost: {host}\r\n\r\n", (421, "misdirected")),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_I21_what_is_not_http_is_answered_in_problem_details(harness: Harness, name: str):
    """Even where no request can be read the answer is a problem; it repeats nothing, and the version stays ours."""
    text, expected = GARBAGE[name]
    raw = text.replace("{host}", harness.authority).encode("latin-1")
    with capture_logs() as events:
        answer = await exchange(harness.authority, raw)
    assert expected == (answer.status, answer.problem)
    assert "aiohttp" not in str(answer.headers)
    assert len(answer.raw) < 200
    assert [] == events
    assert 200 == (await harness.get("/livez")).status


SMUGGLED = "GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n"
TWO_READINGS = {
    "length, then chunks": "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks, then length": "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": "Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
    "a length with a sign": "Content-Length: +0\r\n\r\n",
    "a length in two parts": "Content-Length: 0, 44\r\n\r\n",
    "chunks, and another coding after them": "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a coding with a tail": "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded length": "Content-Length:\r\n 44\r\n\r\n",
    "a bare line feed": "X: a\nContent-Length: 44\r\n\r\n",
    "a chunk with a bare line feed": "Transfer-Encoding: chunked\r\n\r\n0\n\n",
}


@pytest.mark.parametrize("name", TWO_READINGS)
async def test_I20_what_two_servers_could_read_differently_is_refused(harness: Harness, name: str):
    """One 400 and the end of the connection: what stands behind the doubtful request is never read as another one."""
    text = (
        "POST /v1/players HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n" + TWO_READINGS[name]
    )
    raw = (text + SMUGGLED).replace("{host}", harness.authority).encode()
    async with RawConnection(harness.authority) as connection:
        await connection.send(raw)
        answer = await connection.answer()
        assert (400, "malformed-request") == (answer.status, answer.problem)
        assert await connection.is_closed()


async def test_I24_who_leaves_after_sending_is_still_heard(harness: Harness):
    """The client is gone before the commit: the row is there all the same, and the retry replays it."""
    request = honest(harness, await a_run(harness))
    async with locked_ledger(harness):
        async with RawConnection(harness.authority) as connection:
            await connection.send(as_bytes(request, harness.authority))
            await until(is_appending)
            connection.reset()
        assert 200 == (await harness.get("/livez")).status
    await until(lambda: rows(harness))
    again = await harness.send(request)
    assert (202, "true") == (again.status, again.headers["Idempotency-Replayed"])
    assert 1 == await rows(harness)


async def is_appending() -> bool:
    """True if a task of this loop waits for the ledger to append."""
    for task in asyncio.all_tasks():
        waiting = task.get_coro()
        while waiting is not None and hasattr(waiting, "cr_await"):
            if waiting.__qualname__ in {"GroupedWrites.append", "GroupedWrites.append_all"}:
                return True
            waiting = waiting.cr_await
    return False


async def test_I27_a_flood_of_refusals_writes_no_log_and_no_new_series(harness: Harness):
    """Refusals are counted under names from a closed set; a stranger can fill neither log nor memory with them."""

    async def flood(round_number: int) -> None:
        for each in range(40):
            name = f"r{round_number}n{each}"
            await exchange(
                harness.authority, f"GET /{name} HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode()
            )
            await exchange(harness.authority, f"X{name}\r\n\r\n".encode())
            await harness.get(f"/v1/boards/{name}")
            await harness.get(f"/v1/submissions/{name}", token=name)
            run = issued(harness, name)
            await harness.send(harness.signed(run, CLAIM, board="sprint", key=bytes(32)))

    await flood(0)
    series = {line.split(b" ")[0] for line in generate_latest(REGISTRY).splitlines()}
    with capture_logs() as events:
        await flood(1)
    assert [] == events
    assert series == {line.split(b" ")[0] for line in generate_latest(REGISTRY).splitlines()}


async def test_every_submission_is_counted_once(harness: Harness):
    """An accepted, a replayed and a refused submission each add one to one outcome; other requests add none."""

    def counted() -> dict[str, float]:
        return {
            sample.labels["outcome"]: sample.value
            for metric in REGISTRY.collect()
            for sample in metric.samples
            if sample.name == "scoregate_submissions_total" and sample.labels["board"] == "sprint"
        }

    run = await a_run(harness)
    request = honest(harness, run)
    before = counted()
    await harness.post("/v1/boards/sprint/runs", {"build": "b-1"}, "no token")
    await harness.send(honest(harness, run, key=bytes(32)))
    await harness.send(request)
    await harness.send(request)
    after = counted()
    gained = {
        name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)
    }
    assert {"signature-invalid": 1, "held": 1, "replayed": 1} == gained
