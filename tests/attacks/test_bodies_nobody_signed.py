"""Bodies behind a head that nobody signed: no route waits for one, keeps one, or tells more than before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.admission.turnstile import Turnstile
from gateway.edge.auth import signatures
from gateway.edge.auth.trusted_servers import ServerHead, authenticate_for_family, authenticate_writer
from gateway.edge.routes import ROUTES, Caller, Route
from gateway.edge.servers import board_operations, server_operations
from gateway.edge.servers.board_operations import BODY_BYTES
from gateway.edge.submissions.submitted_recording import body_limit
from gateway.runtime.settings import Settings
from policies.loader import Board
from tests.support.attack import CLAIM, INVALID, a_run, about, accept, honest, issued, registered, rows, until
from tests.support.every_route import requests
from tests.support.harness import Answer, Harness, Request, free_port
from tests.support.metrics import counts
from tests.support.policies import a_family, a_policy, arcade_policy, write_policies
from tests.support.raw import RawConnection, as_bytes, exchange
from tests.support.valkey import ValkeyServer

CONTINUE = {"Expect": "100-continue"}
SIGNED = {Caller.RUN, Caller.SERVER}
ROUTES_SIGNED = [route for route in ROUTES if route.caller in SIGNED]
SCOPE = (403, "scope-forbidden")
FAMILY_BOARDS = "/v1/families/track/boards"


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    """A body may take longer than any test waits, so an answer that comes has not waited for one."""
    boards = (
        a_policy("vault", writes="trusted", joins="required", segments=["country"]),
        a_policy(
            "total", writes="trusted", operator="sum", score={"minimum": 0, "maximum": 2**40, "step": 1}
        ),
        a_family("track", writes="trusted"),
    )
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(
            tmp_path / "policies", arcade_policy(), a_policy(), a_policy("other"), *boards
        ),
        redis_url=valkey.url,
        recordings_url=f"file://{tmp_path}/recordings",
        bind=f"127.0.0.1:{free_port()}",
        body_timeout_s=300,
    )


def signed_requests(harness: Harness, private: Ed25519PrivateKey) -> Iterator[tuple[Route, Request]]:
    """An honest request for each route that needs a signature, each run with a ticket of its own."""
    for route, request in zip(ROUTES, requests(harness, private), strict=True):
        if route.caller in SIGNED:
            yield route, request


def forged(request: Request) -> Request:
    """The request with a bit of its signature changed."""
    name, colon, value = request.headers["Signature"].partition(":")
    flipped = ("B" if value[0] == "A" else "A") + value[1:]
    return replace(request, headers=request.headers | {"Signature": name + colon + flipped})


def of_unknown_key(request: Request) -> Request:
    """The request as signed by a key, or under a ticket, that nobody has."""
    before, _, after = request.headers["Signature-Input"].partition('keyid="')
    named = f'{before}keyid="nobody"{after.partition(chr(34))[2]}'
    return replace(request, headers=request.headers | {"Signature-Input": named})


async def answer_to_head(harness: Harness, request: Request, **how: int) -> Answer:
    """The answer to a head that announces the body, which never comes, and that ends its connection."""
    async with RawConnection(harness.authority) as connection:
        head = as_bytes(request, harness.authority, body=b"", **({"length": len(request.body)} | how))
        await connection.send(head)
        answer = await connection.answer()
        assert "close" == answer.headers.get("Connection"), request
    return answer


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


@pytest.mark.parametrize("forge", [forged, of_unknown_key])
async def test_no_body_is_awaited_for_a_signature_that_nobody_made(
    harness: Harness, forge: Callable[[Request], Request]
):
    """Each signed route answers the head alone, and counts the refusal, whether it is told to wait or not."""
    private = await registered(harness)
    hostile = [forge(request) for _, request in signed_requests(harness, private)]
    hostile += [replace(each, headers=each.headers | CONTINUE) for each in hostile]
    with counts(len(hostile), "scoregate_problems_total", type="signature-invalid"):
        answers = await asyncio.gather(*(answer_to_head(harness, each) for each in hostile))
    assert [INVALID] * len(hostile) == [told(each) for each in answers]
    assert 2 * len(ROUTES_SIGNED) == len(hostile) > 20
    assert 0 == await rows(harness)


async def test_an_unknown_key_costs_as_much_as_a_wrong_signature(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Neither the answer nor the work for it says whether a key is registered, or a ticket is one of ours."""
    verified: list[str] = []
    for name in ("verify_ed25519", "verify_hmac_sha256"):
        monkeypatch.setattr(signatures, name, noting(verified, name, getattr(signatures, name)))
    private = await registered(harness)
    for route, request in signed_requests(harness, private):
        with about(route.path):
            costs = {}
            for forge in (forged, of_unknown_key):
                verified.clear()
                answer = await answer_to_head(harness, forge(request))
                costs[forge] = (*told(answer), answer.raw, tuple(verified))
            assert costs[forged] == costs[of_unknown_key]
            assert costs[forged][3]


def noting(calls: list[str], name: str, verify: Callable[..., bool]) -> Callable[..., bool]:
    def noted(*given: object) -> bool:
        calls.append(name)
        return verify(*given)

    return noted


async def test_an_honest_client_that_waits_to_be_told_is_told_to_send_its_body(harness: Harness):
    """`Expect: 100-continue` at each signed route: the body is asked for once the head has passed, and does its work."""
    private = await registered(harness)
    for route, request in signed_requests(harness, private):
        with about(route.path):
            waiting = replace(request, headers=request.headers | CONTINUE)
            async with RawConnection(harness.authority) as connection:
                await connection.send(
                    as_bytes(waiting, harness.authority, body=b"", length=len(request.body))
                )
                assert b"HTTP/1.1 100 Continue\r\n" == await connection.line()
                assert b"\r\n" == await connection.line()
                await connection.send(request.body)
                answer = await connection.answer()
                assert route.status == answer.status, answer.raw
                assert "Connection" not in answer.headers
                await connection.send(as_bytes(forged(request), harness.authority))
                assert INVALID == told(await connection.answer())


async def test_a_refusal_that_needs_no_body_comes_before_it(harness: Harness):
    """Who may not do it, where nothing is, and what is announced as too long or as something else."""
    private = await registered(harness, "eu-1", "other")
    honest_requests = list(signed_requests(harness, private))
    for route, request in honest_requests:
        if route.caller is Caller.SERVER:
            with about(route.path):
                assert SCOPE == told(await answer_to_head(harness, request))
    for route, request in honest_requests:
        with about(route.path):
            encoded = replace(request, headers=request.headers | {"Content-Encoding": "gzip"})
            expected = (415, "content-encoding-not-allowed")
            assert (SCOPE if route.takes_octets else expected) == told(await answer_to_head(harness, encoded))
    for elsewhere in (
        "/v1/boards/nowhere/scores",
        "/v1/boards/nowhere/entries",
        "/v1/families/nowhere/boards",
    ):
        answer = await answer_to_head(harness, replace(honest_requests[0][1], path=elsewhere, method="POST"))
        assert (404, "not-found") == told(answer)


async def test_a_run_is_refused_by_its_ticket_before_its_body(harness: Harness):
    """A ticket of another board or player, or one that has expired, is told of without the recording."""
    stranger = await harness.new_player()
    request = honest(harness, issued(harness))
    refusals = {
        SCOPE: honest(
            harness,
            replace(
                issued(harness, board="other"), info=issued(harness, board="other").info | {"board": "sprint"}
            ),
        ),
        (403, "run-expired"): honest(harness, issued(harness, age_s=900)),
    }
    for expected, hostile in refusals.items():
        assert expected == told(await answer_to_head(harness, hostile))
    of_another = replace(request, headers=request.headers | {"Authorization": f"Bearer {stranger}"})
    assert SCOPE == told(await answer_to_head(harness, of_another))
    longer = body_limit(harness.edge.catalogue.of_files["sprint"]) + 1
    assert (413, "payload-too-large") == told(await answer_to_head(harness, request, length=longer))
    await accept(harness, request)


async def test_another_body_than_the_signed_one_is_not_kept(harness: Harness):
    """A longer body, or another one, behind a captured head is refused; the head still works with its own body."""
    private = await registered(harness)
    for route, request in signed_requests(harness, private):
        if route.takes_octets:
            continue  # its digest is in the path: see the tests of assets
        with about(route.path):
            for body in (request.body + b" " * 1_000, request.body[:-1], b"x" * len(request.body)):
                hostile = as_bytes(request, harness.authority, body=body)
                assert INVALID == told(await exchange(harness.authority, hostile))
            answer = await harness.send(request)
            assert (route.status, None) == (answer.status, answer.headers.get("Idempotency-Replayed"))


async def test_what_is_left_of_a_refused_body_is_no_request(harness: Harness):
    """A client that sends on after its refusal has nothing answered: not the rest of its body, and no request in it."""
    private = await registered(harness)
    path = FAMILY_BOARDS
    body = json.dumps({"operation": "o" * 8, "boards": []}).encode().ljust(BODY_BYTES)
    signed = harness.server_signed(private, "eu-1", {}, path=path, body=body)
    hostile = forged(replace(signed, path=path, body=body))
    smuggled = b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n"
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(hostile, harness.authority, body=b"", length=len(body)))
        assert INVALID == told(await connection.answer())
        await connection.send(smuggled)
        assert await connection.is_closed(), "the rest of the body was waited for, or answered"


async def test_a_body_stops_coming_while_its_signature_is_looked_at(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The edge stops taking bytes from a client that sends two megabytes while the head is still looked at."""
    taken: list[int] = []

    async def until_it_is_full(request: web.Request, family: str) -> ServerHead:
        async def is_paused() -> bool:
            return request.protocol._reading_paused

        await until(is_paused)
        taken.append(request.content.total_bytes)
        return await authenticate_for_family(request, family)

    monkeypatch.setattr(board_operations, "authenticate_for_family", until_it_is_full)
    private = await registered(harness)
    signed = harness.server_signed(private, "eu-1", {}, path=FAMILY_BOARDS, body=b" " * BODY_BYTES)
    hostile = forged(replace(signed, path=FAMILY_BOARDS, body=b" " * BODY_BYTES))
    async with RawConnection(harness.authority) as connection:
        sending = asyncio.create_task(connection.send(as_bytes(hostile, harness.authority)))
        assert INVALID == told(await connection.answer())
        await asyncio.gather(sending, return_exceptions=True)
    assert 0 < taken[0] <= BODY_BYTES // 2


async def test_a_refusal_of_a_whole_request_keeps_its_connection(harness: Harness):
    """A game server whose clock is wrong signs again, and sends again on the same connection."""
    private, run = await registered(harness), await a_run(harness)
    late = harness.server_signed(
        private,
        "eu-1",
        {"operation": "op-1", "player": "ada", "score": 7},
        board="vault",
        created=harness.clock() // 1000 - 900,
    )
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(late, harness.authority))
        refused = await connection.answer()
        assert (401, "signature-expired") == told(refused)
        assert "Connection" not in refused.headers
        await connection.send(as_bytes(honest(harness, run, CLAIM), harness.authority))
        assert 202 == (await connection.answer()).status


async def test_a_submission_is_under_way_once_its_whole_body_is_there(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """One that waits for its turn counts against the load, one whose body is still to come does not."""
    entrance, turnstile, counted = harness.edge.entrance, harness.edge.turnstile, []

    def noted() -> asyncio.Future[None]:
        counted.append(len(entrance._under_way))
        return Turnstile.pass_through(turnstile)

    monkeypatch.setattr(turnstile, "pass_through", noted)
    request = honest(harness, issued(harness))
    await answer_to_head(harness, forged(request))
    await accept(harness, replace(request, headers=request.headers | {"Early-Data": "0"}))  # no usual one
    assert [0, 1] == counted


async def test_a_whole_request_counts_whose_client_has_left(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """It was lost on its way to nobody: the same bytes, sent again, are answered as a repetition."""
    private = await registered(harness)
    entry = {"operation": "op-1", "player": "ada", "score": 7}
    request, begun = harness.server_signed(private, "eu-1", entry, board="vault"), asyncio.Event()

    async def after_it_left(request: web.Request, board: Board) -> ServerHead:
        begun.set()
        await request.protocol.lost()
        return await authenticate_writer(request, board)

    with monkeypatch.context() as patched:
        patched.setattr(server_operations, "authenticate_writer", after_it_left)
        async with RawConnection(harness.authority) as connection:
            await connection.send(as_bytes(request, harness.authority))
            await begun.wait()
            connection.reset()
            await until(lambda: rows(harness))
    answer = await harness.send(request)
    assert (202, "true") == (answer.status, answer.headers.get("Idempotency-Replayed"))
