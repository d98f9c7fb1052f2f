"""Bodies that arrive slowly: what an edge keeps of them is bounded, for a client and for all, and let go."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from aiohttp import StreamReader, web

from gateway.edge.admission import receive_backlog
from gateway.edge.admission.address import ClientName
from gateway.edge.admission.receive_backlog import UNCOUNTED_BYTES, ReceiveBacklog
from gateway.edge.http import body
from gateway.edge.problems import Problem, ProblemType
from tests.support.attack import until
from tests.support.harness import Harness, Request
from tests.support.raw import PATIENCE_S, RawConnection, as_bytes

HERE = ClientName("address 1", "network 1")
NEXT_DOOR = ClientName("address 2", "network 1")
THIRD = ClientName("address 3", "network 1")
ELSEWHERE = ClientName("address 4", "network 2")
FAR = ClientName("address 5", "network 3")


def refusal(backlog: ReceiveBacklog, names: ClientName, size_bytes: int) -> ProblemType | None:
    """What is answered to a body of which so many bytes count."""
    try:
        with backlog.receiving(names) as count:
            count(UNCOUNTED_BYTES + size_bytes)
            return None
    except Problem as problem:
        return problem.kind


@contextmanager
def arriving(backlog: ReceiveBacklog, names: ClientName, size_bytes: int) -> Iterator[None]:
    """A body that is still arriving, of which so many bytes count, which came in two parts."""
    with backlog.receiving(names) as count:
        count(UNCOUNTED_BYTES + size_bytes // 2)
        count(UNCOUNTED_BYTES + size_bytes)
        yield


def test_an_address_may_send_a_quarter_and_a_network_half():
    """To the byte; what has arrived, or failed, makes room."""
    backlog = ReceiveBacklog(400)
    with arriving(backlog, HERE, 60), arriving(backlog, HERE, 40):
        assert ProblemType.QUOTA_EXCEEDED is refusal(backlog, HERE, 1)
        with arriving(backlog, NEXT_DOOR, 100):
            assert ProblemType.QUOTA_EXCEEDED is refusal(backlog, THIRD, 1)
            with arriving(backlog, ELSEWHERE, 100):
                assert ProblemType.REDUCED_CAPACITY is refusal(backlog, FAR, 101)
                assert None is refusal(backlog, FAR, 100)
    with pytest.raises(ConnectionError), arriving(backlog, HERE, 100):
        raise ConnectionError
    assert (None, 0) == (refusal(backlog, HERE, 100), backlog.total_bytes)
    assert not backlog._bytes_by_name


def test_a_small_body_is_taken_however_many_large_ones_arrive():
    """From the address that sends them, and from everybody else."""
    backlog = ReceiveBacklog(400)
    with arriving(backlog, HERE, 100), arriving(backlog, NEXT_DOOR, 100):
        with arriving(backlog, ELSEWHERE, 100), arriving(backlog, FAR, 100):
            assert [None, None] == [refusal(backlog, names, 0) for names in (HERE, ELSEWHERE)]
            assert ProblemType.REDUCED_CAPACITY is refusal(backlog, ELSEWHERE, 1)


async def test_heads_alone_take_no_room_from_bodies(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """What they announce costs nothing until it comes: however many wait, a body that comes late is taken."""
    monkeypatch.setattr(receive_backlog, "UNCOUNTED_BYTES", 0)
    harness.edge.arriving._limit_bytes = 4 * 3_000
    invited = asyncio.Semaphore(0)
    invite = body.invite_body

    async def invite_and_tell(request: web.Request) -> None:
        invited.release()
        await invite(request)

    monkeypatch.setattr(body, "invite_body", invite_and_tell)
    content = json.dumps({"name": "Zoe"}).encode()
    request = Request("POST", "/v1/players", content, {"Content-Type": "application/json"})
    async with AsyncExitStack() as heads:
        for _ in range(3):
            head = await heads.enter_async_context(RawConnection(harness.authority))
            await head.send(as_bytes(request, harness.authority, body=b"", length=1_500))
            await asyncio.wait_for(invited.acquire(), PATIENCE_S)
        honest = await heads.enter_async_context(RawConnection(harness.authority))
        await honest.send(as_bytes(request, harness.authority, body=b"", length=len(content)))
        await asyncio.wait_for(invited.acquire(), PATIENCE_S)
        await honest.send(content)
        assert 201 == (await honest.answer()).status


async def test_a_client_with_many_slow_bodies_is_refused_more_of_them(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """As their bytes come, whether their size is announced or not; a body that came with its head is not meant."""
    monkeypatch.setattr(receive_backlog, "UNCOUNTED_BYTES", 0)
    harness.edge.arriving._limit_bytes = 4 * 3_000

    async def is_arriving(size_bytes: int) -> bool:
        return harness.edge.arriving.total_bytes == size_bytes

    content = json.dumps({"name": "Zoe"}).encode()
    request = Request("POST", "/v1/players", content, {"Content-Type": "application/json"})
    slow = as_bytes(request, harness.authority, body=b"", length=2_000)
    chunked = slow.replace(b"Content-Length: 2000", b"Transfer-Encoding: chunked")
    assert slow != chunked
    async with RawConnection(harness.authority) as one, RawConnection(harness.authority) as two:
        for each in (one, two):
            await each.send(slow + b"{" * 1_500)
        await until(lambda: is_arriving(3_000))
        for sent in (slow + b"{", chunked + b"1\r\n{\r\n"):
            async with RawConnection(harness.authority) as three:
                await three.send(sent)
                answer = await three.answer()
            assert (429, "quota-exceeded", "1") == (
                answer.status,
                answer.problem,
                answer.headers["Retry-After"],
            )
        assert 201 == (await harness.send(request)).status
    await until(lambda: is_arriving(0))
    assert 201 == (await harness.send(request)).status


@pytest.mark.parametrize(
    ("line", "framing"),
    [
        ("POST /v1/players HTTP/1.1", "gzip, chunked"),
        ("POST /v1/players HTTP/1.1", "deflate, chunked"),
        ("POST /v1/players HTTP/1.0", "chunked"),
    ],
)
async def test_a_body_is_framed_as_a_proxy_would_read_it(harness: Harness, line: str, framing: str):
    """A coding that the edge passed over, or chunks that HTTP/1.0 does not have (RFC 9112, section 6.1)."""
    request = Request("POST", "/v1/players", b"", {"Content-Type": "application/json"})
    head = as_bytes(request, harness.authority, line=line)
    hostile = head.replace(b"Content-Length: 0", f"Transfer-Encoding: {framing}".encode())
    async with RawConnection(harness.authority) as connection:
        await connection.send(hostile + b'e\r\n{"name":"Zoe"}\r\n0\r\n\r\n')
        answer = await connection.answer()
    assert (400, "malformed-request") == (answer.status, answer.problem)


async def test_a_client_that_leaves_takes_its_body_along(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Nothing of it waits for the collector of cycles, which looks at everything and comes seldom."""
    monkeypatch.setattr(receive_backlog, "UNCOUNTED_BYTES", 0)
    request = Request("POST", "/v1/players", b"{", {"Content-Type": "application/json"})

    async def is_arriving(*, is_any: bool) -> bool:
        return is_any == bool(harness.edge.arriving.total_bytes)

    async def leave() -> None:
        async with RawConnection(harness.authority) as client:
            await client.send(as_bytes(request, harness.authority, length=1_500))
            await until(lambda: is_arriving(is_any=True))
        await until(lambda: is_arriving(is_any=False))

    await leave()
    gc.collect()
    gc.disable()
    try:
        before = streams()
        for _ in range(20):
            await leave()
        assert streams() <= before + 2
    finally:
        gc.enable()


def streams() -> int:
    """How many bodies of requests are in memory, whether anybody can still reach them or not."""
    return sum(isinstance(each, StreamReader) for each in gc.get_objects())
