"""The Python client: its bytes are those of the vectors, and the gateway's verifier accepts what it sends."""

from __future__ import annotations

import ast
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from scoregate_client import (
    Entry,
    Run,
    ScoregateClient,
    ScoregateError,
    ServerClient,
    SyncModeratorClient,
    SyncScoregateClient,
    SyncServerClient,
    encode_recording,
)
from scoregate_client.connection import authority as authority_of
from scoregate_client.models import Player

from gateway.edge.auth.signatures import (
    ED25519,
    HMAC_SHA256,
    Tag,
    check_algorithm,
    check_content_digest,
    check_time,
    parse,
    signature_base,
    verify_ed25519,
    verify_hmac_sha256,
)
from gateway.edge.problems import Problem, ProblemType, problem_response
from tests.support.ports import unserved_port

ROOT = Path(__file__).parents[2]
KEY = bytes(range(32))
PRIVATE_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64)))
NOW = 1_700_000_000


def test_the_client_imports_nothing_of_the_gateway() -> None:
    """The client is installed alone."""
    packages = {"gateway", "policies", "replay", "scoregate", "validators"}
    for path in (ROOT / "clients" / "python" / "scoregate_client").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not packages & {name.partition(".")[0] for name in names}, path.name


@pytest.mark.parametrize(
    ("inputs", "checkpoints", "checkpoint_ticks", "expected"),
    [
        ([0], [], 0, "53475231 01 00 01 0100"),
        ([5, 5, 5], [], 0, "53475231 03 00 01 0305"),
        ([1, 2, 2], [], 4, "53475231 03 04 02 0101 0202"),
        (
            [1, 2, 1],
            [255, 2**64 - 1, 0],
            1,
            "53475231 03 01 03 0101 0102 0101 ff00000000000000 ffffffffffffffff 0000000000000000",
        ),
        ([2**32 - 1] * 128, [1], 100, "53475231 8001 64 01 8001 ffffffff0f 0100000000000000"),
        ([127, 128], [], 0, "53475231 02 00 02 017f 018001"),
    ],
)
def test_recordings_are_the_bytes_of_the_container(
    inputs: list[int], checkpoints: list[int], checkpoint_ticks: int, expected: str
) -> None:
    """Worked out by hand: magic, ticks, checkpoint interval, number of runs, runs, little-endian hashes."""
    assert bytes.fromhex(expected) == encode_recording(inputs, checkpoints, checkpoint_ticks)


@pytest.mark.parametrize(
    ("inputs", "checkpoints", "checkpoint_ticks"),
    [
        ([], [], 0),
        ([-1], [], 0),
        ([2**32], [], 0),
        ([1], [], -1),
        ([1], [1], 0),
        ([1, 1], [1], 1),
        ([1, 1], [1, 2, 3], 1),
        ([1], [-1], 1),
        ([1], [2**64], 1),
    ],
)
def test_what_the_container_cannot_hold_is_refused(
    inputs: list[int], checkpoints: list[int], checkpoint_ticks: int
) -> None:
    """Numbers out of range, no ticks, and too few or too many checkpoints."""
    with pytest.raises(ValueError, match=r"recording|checkpoint"):
        encode_recording(inputs, checkpoints, checkpoint_ticks)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=300), st.integers(0, 20))
def test_equal_neighbours_are_one_run(inputs: list[int], checkpoint_ticks: int) -> None:
    """The recorded runs, expanded, are the inputs, and no two neighbours are equal."""
    checkpoints = [7] * (len(inputs) // checkpoint_ticks if checkpoint_ticks else 0)
    data = encode_recording(inputs, checkpoints, checkpoint_ticks)
    numbers = read_varints(data[4 : len(data) - 8 * len(checkpoints)])
    runs = list(zip(numbers[3::2], numbers[4::2], strict=True))
    assert [len(inputs), checkpoint_ticks, len(runs)] == numbers[:3]
    assert inputs == [word for length, word in runs for _ in range(length)]
    assert all(one[1] != two[1] for one, two in pairwise(runs))


def read_varints(data: bytes) -> list[int]:
    """The numbers of a sequence of unsigned LEB128."""
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value, shift = 0, 0
    return numbers


RUN_DOCUMENT = {
    "run": "r_1",
    "ticket": "the.ticket",
    "key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "seed": "18446744073709551615",
    "board": "arcade",
    "player": "p_1",
    "build": "arcade-1",
    "simulator": "sha256:00",
    "ticks_per_second": 60,
    "checkpoint_ticks": 600,
    "issued_at": "2026-11-20T00:00:00Z",
    "expires_at": "2026-11-20T01:00:00Z",
    "a_later_addition": 1,
}
SUBMISSION_DOCUMENT = {
    "submission": "r_1",
    "board": "arcade",
    "player": "p_1",
    "score": 7,
    "state": "pending",
}
ENTRY_DOCUMENT = {
    "rank": 1,
    "player": "p/1",
    "name": "Ada",
    "score": 7,
    "achieved_at": "2026-11-20T00:00:00Z",
    "submission": "r_1",
}
Script = Callable[["FakeGateway", web.Request], Awaitable[web.StreamResponse]]


class FakeGateway:
    """A gateway that verifies with the real verifier, and follows a script for its first answers."""

    def __init__(self, *script: Script, now_s: float = NOW) -> None:
        self.script = list(script)
        self.now_s = now_s
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The scripted answer, or the one the real gateway would give."""
        self.seen.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        try:
            if self.script:
                return await self.script.pop(0)(self, request)
            return await self.honest(request)
        except Problem as problem:
            return problem_response(problem)

    async def honest(self, request: web.Request) -> web.Response:
        """What a gateway answers to a request in order."""
        if "Signature" in request.headers:
            tag = await self.verify(request)
            return web.json_response(
                SUBMISSION_DOCUMENT | {"operation": "o"}, status=202 if tag is Tag.RUN else 200
            )
        path = request.path
        if path == "/v1/players":
            return web.json_response({"player": "p_1", "name": "Ada", "token": "secret-token"}, status=201)
        if path.endswith("/runs"):
            return web.json_response(RUN_DOCUMENT, status=201)
        if path.startswith("/v1/submissions/"):
            return web.json_response(SUBMISSION_DOCUMENT | {"rank": 3})
        if path.endswith(("/entries", "/around")):
            page = {"board": "arcade", "window": "alltime", "total": 9, "entries": [ENTRY_DOCUMENT]}
            return web.json_response(page)
        return web.json_response(ENTRY_DOCUMENT)

    async def verify(self, request: web.Request) -> Tag:
        """Who signed; the steps and their order are the edge's."""
        headers = request.headers
        parsed = parse(headers.get("Signature-Input"), headers.get("Signature"))
        path, _, query = request.raw_path.partition("?")
        base = signature_base(
            parsed,
            method=request.method,
            authority=headers["Host"],
            path=path,
            query="?" + query,
            content_type=headers["Content-Type"],
            content_digest=headers["Content-Digest"],
        )
        if parsed.tag is Tag.RUN:
            check_algorithm(parsed, HMAC_SHA256)
            verified = parsed.keyid == "the.ticket" and verify_hmac_sha256(KEY, base, parsed.signature)
        else:
            check_algorithm(parsed, ED25519)
            verified = parsed.keyid == "server-1" and verify_ed25519(
                PRIVATE_KEY.public_key(), base, parsed.signature
            )
        if not verified:
            raise Problem(ProblemType.SIGNATURE_INVALID)
        check_time(parsed, self.now_s, 5)
        check_content_digest(headers["Content-Digest"], await request.read())
        return parsed.tag


class Serving:
    """The base URL of a fake gateway, while it serves."""

    def __init__(self, gateway: FakeGateway) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", gateway.answer)
        self.server = TestServer(app)

    async def __aenter__(self) -> str:
        await self.server.start_server()
        return str(self.server.make_url("/"))

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that the client takes, none of which lasts."""
    taken: list[float] = []

    async def note(_: object, seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr("scoregate_client.running.AsyncioRunner.sleep", note)
    return taken


def a_client(url: str, **options: Any) -> ScoregateClient:
    """A client with a token, a clock that stands still, and the longest pauses."""
    steady = {"clock": lambda: NOW + 0.5, "jitter": lambda: 1.0}
    return ScoregateClient(url, token="secret-token", **(steady | options))


async def submit(client: ScoregateClient, board: str = "arcade") -> Any:
    """A submission of the run of `RUN_DOCUMENT`."""
    run = Run.from_json(RUN_DOCUMENT | {"board": board})
    return await client.submit(run, 7, 3, {"coins": 1}, b"SGR1...")


async def drop(_gateway: FakeGateway, request: web.Request) -> web.StreamResponse:
    """Loses the connection instead of answering."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def busy(retry_after: str | None) -> Script:
    """Answers 503, as a proxy does that knows no time if there is none."""

    async def answer(_gateway: FakeGateway, _request: web.Request) -> web.StreamResponse:
        headers = {"Retry-After": retry_after or "", "Date": "Tue, 14 Nov 2023 22:13:20 GMT"}
        response = problem_response(Problem(ProblemType.DEPENDENCY_UNAVAILABLE, headers=headers))
        if retry_after is None:
            del response.headers["Retry-After"]
        return response

    return answer


async def test_a_player_plays_a_run() -> None:
    """Create a player, open a run, submit it; the gateway's verifier accepts the signature."""
    gateway = FakeGateway()
    async with Serving(gateway) as url, ScoregateClient(url, clock=lambda: NOW) as client:
        player = await client.create_player("Ada")
        run = await client.open_run("arcade", "arcade-1")
        submission = await client.submit(run, 7, 3, {"coins": 1}, b"SGR1")

    assert Player("p_1", "Ada", "secret-token") == player
    assert (run.key, run.seed, run.checkpoint_ticks) == (KEY, 2**64 - 1, 600)
    assert (submission.submission, submission.state, submission.rank) == ("r_1", "pending", None)
    create, opened, submitted = gateway.seen
    assert (*create[:2], create[3]) == ("POST", "/v1/players", b'{"name":"Ada"}')
    assert (*opened[:2], opened[3]) == ("POST", "/v1/boards/arcade/runs", b'{"build":"arcade-1"}')
    assert opened[2]["Authorization"] == "Bearer secret-token"
    assert submitted[:2] == ("POST", "/v1/boards/arcade/scores")
    assert json.loads(submitted[3]) == {
        "score": 7,
        "ticks": 3,
        "stats": {"coins": 1},
        "recording": "U0dSMQ==",
    }


async def test_a_run_is_submitted_without_a_recording() -> None:
    """As a board that replays nothing takes it: the claim does not name one."""
    gateway = FakeGateway()
    async with Serving(gateway) as url, a_client(url) as client:
        await client.submit(Run.from_json(RUN_DOCUMENT), 7, 3, {})
    assert {"score": 7, "ticks": 3, "stats": {}} == json.loads(gateway.seen[0][3])


async def test_a_recording_that_is_asked_for_is_sent_as_it_is(pauses: list[float]) -> None:
    """The commitment has digest and size in its place; the bytes follow with the token, and again after a fault."""
    gateway = FakeGateway(FakeGateway.honest, busy("0"))
    async with Serving(gateway) as url, a_client(url) as client:
        await client.commit(Run.from_json(RUN_DOCUMENT), 7, 3, {"coins": 1}, b"SGR1")
        await client.reveal("r_1", b"SGR1")

    committed, *revealed = gateway.seen
    assert {
        "score": 7,
        "ticks": 3,
        "stats": {"coins": 1},
        "recording_digest": f"sha256:{sha256(b'SGR1').hexdigest()}",
        "recording_bytes": 4,
    } == json.loads(committed[3])
    assert [("PUT", "/v1/submissions/r_1/recording", b"SGR1")] * 2 == [
        (*each[:2], each[3]) for each in revealed
    ]
    assert {"Bearer secret-token"} == {each[2]["Authorization"] for each in revealed}
    assert 1 == len(pauses)


def test_secrets_do_not_stand_in_the_text_of_objects() -> None:
    """Token, ticket and key stay out of logs."""
    text = repr(Run.from_json(RUN_DOCUMENT)) + repr(Player("p_1", "Ada", "secret-token"))
    assert not any(secret in text for secret in ("secret-token", "the.ticket", repr(KEY)))


async def test_names_are_quoted_and_signed_as_they_are_sent() -> None:
    """A board with odd characters stays one path segment, and the signature still verifies."""
    gateway = FakeGateway()
    async with Serving(gateway) as url, a_client(url) as client:
        await submit(client, "a/b?ü%41")
    assert gateway.seen[0][1] == "/v1/boards/a%2Fb%3F%C3%BC%2541/scores"


@pytest.mark.parametrize(
    "fault", [drop, busy("0"), busy(None)], ids=["connection lost", "503", "503 without pause"]
)
async def test_a_submission_is_repeated_with_the_very_same_bytes(fault: Script, pauses: list[float]) -> None:
    """Twice a fault, then the answer; all three requests are equal."""
    gateway = FakeGateway(fault, fault)
    async with Serving(gateway) as url, a_client(url) as client:
        assert (await submit(client)).state == "pending"
    assert len(gateway.seen) == 3
    assert gateway.seen[0] == gateway.seen[1] == gateway.seen[2]


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        ("7", 7.0),
        ("60", 60.0),
        (None, 0.5),
        ("Tue, 14 Nov 2023 22:13:27 GMT", 7.0),
        ("Fri, 14 Nov 2003 22:13:27 GMT", 0.0),
        ("soon", 0.5),
        ("-2", 0.5),
    ],
)
async def test_retry_after_is_honoured(retry_after: str | None, expected: float, pauses: list[float]) -> None:
    """A pause in seconds, or to a date by the gateway's clock, is taken; anything else gives the first pause."""
    gateway = FakeGateway(busy(retry_after))
    async with Serving(gateway) as url, a_client(url) as client:
        await submit(client)
    assert [expected] == pauses


async def test_pauses_grow_and_attempts_end(pauses: list[float]) -> None:
    """After the last attempt the refusal is raised."""
    gateway = FakeGateway(*[busy(None)] * 9)
    async with Serving(gateway) as url, a_client(url, attempts=4) as client:
        with pytest.raises(ScoregateError) as caught:
            await submit(client)
    assert (caught.value.status, caught.value.name) == (503, "dependency-unavailable")
    assert (pauses, len(gateway.seen)) == ([0.5, 1.0, 2.0], 4)


async def test_a_pause_that_is_too_long_is_left_to_the_caller(pauses: list[float]) -> None:
    """The client neither waits for minutes nor comes back before it may."""
    gateway = FakeGateway(busy("61"))
    async with Serving(gateway) as url, a_client(url) as client:
        with pytest.raises(ScoregateError):
            await submit(client)
    assert (pauses, len(gateway.seen)) == ([], 1)


async def test_a_connection_that_stays_lost_is_raised(pauses: list[float]) -> None:
    """It is the client's own error, of status 0, after the last attempt; so is a refused connection."""
    gateway = FakeGateway(*[drop] * 9)
    async with Serving(gateway) as url, a_client(url, attempts=3) as client:
        with pytest.raises(ScoregateError) as lost:
            await submit(client)
    assert (0, 3) == (lost.value.status, len(gateway.seen))
    with unserved_port() as port:
        async with a_client(f"http://127.0.0.1:{port}", attempts=2) as client:
            for call in (client.create_player("Ada"), submit(client), client.asset("arcade", "sha256:00")):
                with pytest.raises(ScoregateError, match=r"^The gateway cannot be reached") as refused:
                    await call
                assert 0 == refused.value.status


async def test_opening_a_run_is_not_repeated_after_a_lost_connection(pauses: list[float]) -> None:
    """It may have been opened; a 503 however was refused, and is repeated."""
    gateway = FakeGateway(drop, busy("0"))
    async with Serving(gateway) as url, a_client(url) as client:
        with pytest.raises(ScoregateError) as lost:
            await client.open_run("arcade", "arcade-1")
        assert 0 == lost.value.status
        assert (await client.open_run("arcade", "arcade-1")).run == "r_1"
    assert len(gateway.seen) == 3


@pytest.mark.parametrize("offset_s", [-600, 300, 86_400])
async def test_S16_a_wrong_clock_is_healed_by_signing_once_more(offset_s: int, pauses: list[float]) -> None:
    """The gateway tells its time, and the second signature, over the same body, is accepted."""
    gateway = FakeGateway()
    async with Serving(gateway) as url, a_client(url, clock=lambda: NOW + offset_s) as client:
        assert (await submit(client)).state == "pending"
    first, second = gateway.seen
    assert first[3] == second[3]
    assert first[2]["Signature-Input"] != second[2]["Signature-Input"]
    assert f";created={NOW};" in second[2]["Signature-Input"]
    nonces = {seen[2]["Signature-Input"].partition('nonce="')[2].partition('"')[0] for seen in gateway.seen}
    assert len(nonces) == 2


async def test_S16_it_signs_once_more_and_not_again() -> None:
    """A gateway that goes on refusing is believed."""

    async def expired(_gateway: FakeGateway, _request: web.Request) -> web.StreamResponse:
        raise Problem(ProblemType.SIGNATURE_EXPIRED, server_time=NOW)

    gateway = FakeGateway(expired, expired, expired)
    async with Serving(gateway) as url, a_client(url) as client:
        with pytest.raises(ScoregateError) as caught:
            await submit(client)
    assert (caught.value.name, len(gateway.seen)) == ("signature-expired", 2)


async def test_S16_only_a_refusal_for_time_is_signed_again() -> None:
    """Another refusal that happens to tell the time is final."""

    async def refuse(_gateway: FakeGateway, _request: web.Request) -> web.StreamResponse:
        raise Problem(ProblemType.RUN_EXPIRED, server_time=NOW)

    gateway = FakeGateway(refuse)
    async with Serving(gateway) as url, a_client(url) as client:
        with pytest.raises(ScoregateError, match="run-expired"):
            await submit(client)
    assert len(gateway.seen) == 1


async def test_a_refusal_carries_its_problem_document(pauses: list[float]) -> None:
    """Status, stable name, detail and extensions, without a repetition."""

    async def refuse(_gateway: FakeGateway, _request: web.Request) -> web.StreamResponse:
        raise Problem(ProblemType.BOUNDS_VIOLATION, "Too good.", limit=5)

    gateway = FakeGateway(refuse)
    async with Serving(gateway) as url, a_client(url) as client:
        with pytest.raises(ScoregateError, match=r"422 bounds-violation: Too good\.") as caught:
            await submit(client)
    assert (caught.value.status, caught.value.problem["limit"], caught.value.server_time) == (422, 5, None)
    assert len(gateway.seen) == 1


@pytest.mark.parametrize(
    ("status", "text"), [(502, "<h1>Bad gateway</h1>"), (200, "<h1>Log in</h1>"), (302, "[]")]
)
async def test_an_answer_of_something_else_is_an_error_too(
    status: int, text: str, pauses: list[float]
) -> None:
    """Proxies and portals do not speak JSON, and redirects are not followed: the target is signed."""

    async def answer(_gateway: FakeGateway, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers={"Location": "/elsewhere"})

    gateway = FakeGateway(*[answer] * 2)
    async with Serving(gateway) as url, a_client(url, attempts=2) as client:
        with pytest.raises(ScoregateError) as caught:
            await submit(client)
    assert (status, "about:blank", "") == (caught.value.status, caught.value.name, caught.value.reason)
    assert (2 if status == 502 else 1) == len(gateway.seen)


async def test_boards_and_submissions_are_read() -> None:
    """Paths, queries and who must be known."""
    gateway = FakeGateway()
    async with Serving(gateway) as url, a_client(url) as client:
        page = await client.entries("arcade", window="daily", offset=50, limit=10)
        entry = await client.entry("arcade", "p/1")
        around = await client.around("arcade", "p/1", radius=2)
        await client.around("arcade", "p/1", ranks="dense", friends=True, segment="guild:a")
        await client.entries("arcade", players=["a", "b"], segment="guild:a", ranks="dense", cursor="x")
        submission = await client.submission("r_1")

    assert Entry(**ENTRY_DOCUMENT) == entry  # type: ignore[arg-type]
    assert (9, (entry,)) == (page.total, page.entries)
    assert (entry,) == around
    assert submission.rank == 3
    assert [path for _, path, _, _ in gateway.seen] == [
        "/v1/boards/arcade/entries?window=daily&offset=50&limit=10",
        "/v1/boards/arcade/entries/p%2F1",
        "/v1/boards/arcade/entries/p%2F1/around?radius=2",
        "/v1/boards/arcade/entries/p%2F1/around?radius=5&ranks=dense&friends=true&segment=guild%3Aa",
        "/v1/boards/arcade/entries?cursor=x&ranks=dense&players=a%2Cb&segment=guild%3Aa",
        "/v1/submissions/r_1",
    ]
    assert all("Authorization" in headers for _, _, headers, _ in gateway.seen), (
        "what is seen may differ by who looks"
    )


async def test_a_client_without_a_token_says_so() -> None:
    """Before anything is sent."""
    async with ScoregateClient("http://localhost:1") as client:
        with pytest.raises(ValueError, match="token"):
            await client.open_run("arcade", "arcade-1")


@pytest.mark.parametrize(
    "address", ["localhost:8080", "localhost", "", "http://", "ftp://localhost", "http://[1"]
)
def test_every_client_refuses_what_is_no_address_when_it_is_made(address: str) -> None:
    """With the argument's name and what was given."""
    made = (
        lambda: ScoregateClient(address),
        lambda: SyncScoregateClient(address),
        lambda: SyncServerClient(address, "server-1", PRIVATE_KEY),
        lambda: SyncModeratorClient(address, "token"),
    )
    for each in made:
        with pytest.raises(
            ValueError, match=r"^base_url: expected an address that begins with http://"
        ) as caught:
            each()
        assert str(caught.value).endswith(f"(given: {address})")


@pytest.mark.parametrize("more", ["me:secret@h", "me@h", "h/?board=arcade", "h/#top"])
def test_every_client_refuses_what_no_path_can_follow(more: str) -> None:
    """Else each request would go astray; a password in it is not repeated. A folder of a proxy is none such."""
    for kind in (ScoregateClient, SyncScoregateClient):
        with pytest.raises(ValueError, match=r"^base_url: expected an address without a user, a q") as caught:
            kind(f"http://{more}")
        assert "secret" not in str(caught.value)
    assert "http://h/scores" == ScoregateClient("http://h/scores/")._base_url


@pytest.mark.parametrize("key", ["-----BEGIN PRIVATE KEY-----", b"PEM", X25519PrivateKey.generate(), None])
def test_a_key_that_cannot_sign_is_refused_when_the_client_is_made(key: Any) -> None:
    """Such as the text of its file: it says what to pass, and nothing of what was passed but its type."""
    for kind in (ServerClient, SyncServerClient):
        with pytest.raises(TypeError, match=r"^private_key: expected an Ed25519PrivateKey, .*PEM") as caught:
            kind("http://localhost:1", "server-1", key)
        assert str(caught.value).endswith(f"(given: {type(key).__name__})")


async def test_a_trusted_server_writes(pauses: list[float]) -> None:
    """Signed with its key, repeated with the same bytes."""
    gateway = FakeGateway(busy("0"))
    async with (
        Serving(gateway) as url,
        ServerClient(url, "server-1", PRIVATE_KEY, clock=lambda: NOW) as server,
    ):
        answer = await server.write_entry("arcade", "match-1/ada", player="p_1", score=-5)
    assert answer["operation"] == "o"
    assert gateway.seen[0] == gateway.seen[1]
    assert gateway.seen[0][1] == "/v1/boards/arcade/entries"
    assert json.loads(gateway.seen[0][3]) == {"operation": "match-1/ada", "player": "p_1", "score": -5}
    assert 'tag="scoregate-server"' in gateway.seen[0][2]["Signature-Input"]


async def test_the_time_of_a_score_is_a_text_or_a_datetime() -> None:
    """Both are sent as RFC 3339, which the gateway reads."""
    gateway, noon = FakeGateway(), "2026-01-01T12:00:00+00:00"
    async with (
        Serving(gateway) as url,
        ServerClient(url, "server-1", PRIVATE_KEY, clock=lambda: NOW) as server,
    ):
        for achieved_at in (noon, datetime.fromisoformat(noon)):
            await server.write_entry("arcade", "o", "p_1", 5, achieved_at=achieved_at)
    assert [noon, noon] == [json.loads(body)["achieved_at"] for _, _, _, body in gateway.seen]


async def test_what_is_nothing_is_sent_and_what_is_not_given_is_not() -> None:
    """A version 0 and no statistics at all are said; None leaves a member out."""
    gateway = FakeGateway()
    async with (
        Serving(gateway) as url,
        ServerClient(url, "server-1", PRIVATE_KEY, clock=lambda: NOW) as server,
    ):
        await server.write_entry("arcade", "o", "p_1", 0, version=0, stats={}, details={}, replaces=None)
    [(_, _, _, body)] = gateway.seen
    entry = {"operation": "o", "player": "p_1", "score": 0}
    assert entry | {"version": 0, "stats": {}, "details": {}} == json.loads(body)


async def test_another_server_key_is_refused() -> None:
    """The control is the test above."""
    gateway = FakeGateway()
    stranger = Ed25519PrivateKey.generate()
    async with Serving(gateway) as url, ServerClient(url, "server-1", stranger, clock=lambda: NOW) as server:
        with pytest.raises(ScoregateError) as caught:
            await server.write_entry("arcade", "o", "p_1", 5)
    assert caught.value.name == "signature-invalid"


async def test_a_lent_session_stays_open() -> None:
    """Its owner closes it."""
    gateway = FakeGateway()
    async with Serving(gateway) as url, aiohttp.ClientSession() as session:
        async with a_client(url, session=session) as client:
            await submit(client)
        assert not session.closed


@pytest.mark.parametrize(
    ("base_url", "authority"),
    [
        ("https://Scores.Example", "scores.example"),
        ("https://scores.example:443/", "scores.example"),
        ("http://scores.example:443", "scores.example:443"),
        ("http://[::1]:80", "[::1]"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://münchen.example", "xn--mnchen-3ya.example"),
    ],
)
def test_the_authority_is_that_of_the_host_field(base_url: str, authority: str) -> None:
    """Lower case, ASCII, and the default port left out."""
    client = ScoregateClient(base_url)
    assert authority == authority_of(client._url("/v1/boards"))
