"""Bodies that arrive slowly: what an edge keeps of them is bounded, for a client and for all, and let go."""

from __future__ import annotations

import gc
import json

import pytest
from aiohttp import StreamReader

from gateway.edge.admission.address import ClientName
from gateway.edge.admission.receive_backlog import ReceiveBacklog
from gateway.edge.problems import Problem, ProblemType
from tests.support.attack import until
from tests.support.harness import Harness, Request
from tests.support.raw import RawConnection, as_bytes

HERE = ClientName("address 1", "network 1")
NEXT_DOOR = ClientName("address 2", "network 1")
THIRD = ClientName("address 3", "network 1")
ELSEWHERE = ClientName("address 4", "network 2")
FAR = ClientName("address 5", "network 3")


def refusal(backlog: ReceiveBacklog, names: ClientName, size_bytes: int) -> ProblemType | None:
    """What is answered to a body of this size now."""
    try:
        with backlog.receiving(names, size_bytes):
            return None
    except Problem as problem:
        return problem.kind


def test_an_address_may_send_a_quarter_and_a_network_half():
    """To the byte; what has arrived, or failed, makes room."""
    backlog = ReceiveBacklog(400)
    with backlog.receiving(HERE, 60), backlog.receiving(HERE, 40):
        assert ProblemType.QUOTA_EXCEEDED is refusal(backlog, HERE, 1)
        with backlog.receiving(NEXT_DOOR, 100):
            assert ProblemType.QUOTA_EXCEEDED is refusal(backlog, THIRD, 1)
            with backlog.receiving(ELSEWHERE, 100):
                assert ProblemType.REDUCED_CAPACITY is refusal(backlog, FAR, 101)
                assert None is refusal(backlog, FAR, 100)
    with pytest.raises(ConnectionError), backlog.receiving(HERE, 100):
        raise ConnectionError
    assert (None, 0) == (refusal(backlog, HERE, 100), backlog.total_bytes)
    assert not backlog._bytes_by_name


async def test_a_client_with_many_slow_bodies_is_refused_more_of_them(harness: Harness):
    """Before the body is read, whether its size is announced or not; a body that came with its head is not meant."""
    harness.edge.arriving._limit_bytes = 4 * 3_000

    async def is_arriving(size_bytes: int) -> bool:
        return harness.edge.arriving.total_bytes == size_bytes

    body = json.dumps({"name": "Zoe"}).encode()
    request = Request("POST", "/v1/players", body, {"Content-Type": "application/json"})
    slow = as_bytes(request, harness.authority, body=b"", length=1_500)
    chunked = slow.replace(b"Content-Length: 1500", b"Transfer-Encoding: chunked")
    assert slow != chunked
    async with RawConnection(harness.authority) as one, RawConnection(harness.authority) as two:
        for each in (one, two):
            await each.send(slow + b"{")
        await until(lambda: is_arriving(3_000))
        for head in (slow, chunked):
            async with RawConnection(harness.authority) as three:
                await three.send(head)
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


async def test_a_client_that_leaves_takes_its_body_along(harness: Harness):
    """Nothing of it waits for the collector of cycles, which looks at everything and comes seldom."""
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
