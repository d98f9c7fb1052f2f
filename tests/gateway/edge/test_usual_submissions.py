"""The short way of usual submissions, beside aiohttp's way: the same answers, whatever is sent and whatever happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.edge.connections import Connection
from gateway.edge.submissions.usual_submissions import UsualSubmissions
from gateway.index import keys
from gateway.index.board_index import CommittedRun
from gateway.index.board_indexes import Index
from gateway.ledger.writes import GroupedWrites
from gateway.runtime.failpoints import Point, Unforeseen, arm, disarm
from gateway.runtime.settings import Settings
from policies.errors import LedgerUnavailable
from tests.support.attack import until
from tests.support.harness import Answer, Harness, Request, running_harness
from tests.support.policies import arcade_policy, write_policies
from tests.support.raw import RawConnection, as_bytes, exchange

PLAIN = {"X-Note": "a\ttab"}
"""A field that no usual request has, and that means nothing."""

OF_EACH = ("submission", "player", "score", "server_time", "instance")
"""Members of an answer that differ between runs."""


SIGNED: dict[str, Any] = {
    "signature": {"key": b"\x00" * 32},
    "ticket": {"keyid": "nobody-issued-this"},
    "key twice": {"raw": b'{"score": 1, "score": 1, "ticks": 1}'},
    "expired": {"created": 1},
}
CLAIMED: dict[str, Any] = {
    "number": {"ticks": 1.5},
    "bounds": {"score": 10**12},
    "length": {"ticks": 0},
    "base64": {"recording": "A"},
    "digest": {"recording_digest": "sha256:" + "0" * 64},
}
SENT: dict[str, Any] = {"body": {"body": b'{"score": 1}'}}
"""What is wrong with a submission: as it is signed, as it is claimed, as it is sent."""


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many submissions were stored on each of the two ways, and how many were given back."""
    taken: Counter[str] = Counter()
    append, append_all, go_on = GroupedWrites.append, GroupedWrites.append_all, Connection.go_on

    async def counted_append(self, new):
        taken["plain"] += 1
        return await append(self, new)

    async def counted_append_all(self, group):
        taken["short"] += len(group)
        return await append_all(self, group)

    def counted_go_on(self, *rest, **named):
        taken["given back"] += 1
        go_on(self, *rest, **named)

    monkeypatch.setattr(GroupedWrites, "append", counted_append)
    monkeypatch.setattr(GroupedWrites, "append_all", counted_append_all)
    monkeypatch.setattr(Connection, "go_on", counted_go_on)
    return taken


@pytest.fixture(autouse=True)
def inert() -> Iterator[None]:
    yield
    disarm()


async def sent(harness: Harness, request: Request, **headers: str) -> Answer:
    return await exchange(harness.authority, as_bytes(request, harness.authority, headers=headers))


def shape(answer: Answer) -> tuple[int, dict[str, str], dict[str, Any]]:
    """What two answers to two equal runs have in common."""
    headers = {
        name: value for name, value in answer.headers.items() if name not in {"Date", "Content-Length"}
    }
    return answer.status, headers, {name: value for name, value in answer.body.items() if name not in OF_EACH}


async def both_ways(harness: Harness, make: Any = None) -> tuple[Answer, Answer]:
    """The answers to two equal runs, one on each way."""
    answers = []
    for fields in ({}, PLAIN):
        run, claim = await harness.played()
        request = make(run, claim) if make else harness.signed(run, claim)
        answers.append(await sent(harness, request, **fields))
    return answers[0], answers[1]


async def test_a_usual_submission_gets_the_same_answer_on_both_ways(harness: Harness, ways: Counter[str]):
    """Status, every header, and the body with its members in order; each way was taken once."""
    short, plain = await both_ways(harness)
    assert 202 == short.status
    assert shape(plain) == shape(short)
    assert list(plain.body) == list(short.body)
    assert str(len(short.raw)) == short.headers["Content-Length"]
    assert {"short": 1, "plain": 1, "given back": 1} == ways


async def test_a_page_of_an_allowed_origin_gets_the_same_fields_on_both_ways(
    settings: Settings, ways: Counter[str]
):
    """`Access-Control-Allow-Origin` and `Vary`, for an origin that is allowed and for another."""
    allowed = settings.model_copy(update={"origins": ("https://game.example",)})
    async with running_harness(allowed) as harness:
        for origin in ("https://game.example", "https://other.example"):
            answers = []
            for fields in ({}, PLAIN):
                run, claim = await harness.played()
                answers.append(await sent(harness, harness.signed(run, claim), Origin=origin, **fields))
            assert shape(answers[1]) == shape(answers[0])
            assert "Origin" == answers[0].headers["Vary"]
    assert (2, 2) == (ways["short"], ways["plain"])


@pytest.mark.parametrize("how", [*SIGNED, *CLAIMED, *SENT])
async def test_a_refusal_is_the_same_on_both_ways(harness: Harness, ways: Counter[str], how: str):
    """The same problem with the same detail, and nothing is stored."""

    def wrong(run: Any, claim: dict[str, Any]) -> Request:
        return replace(
            harness.signed(run, claim | CLAIMED.get(how, {}), **SIGNED.get(how, {})), **SENT.get(how, {})
        )

    short, plain = await both_ways(harness, wrong)
    assert shape(plain) == shape(short)
    assert short.problem
    assert 0 == await harness.rows()
    assert 0 == ways["short"] + ways["plain"]


async def test_a_token_beside_the_signature_is_looked_at(harness: Harness):
    """That of another player is refused, that of the run's player is none of its business."""
    run, claim = await harness.played()
    request = harness.signed(run, claim)
    other = await sent(harness, request, Authorization=f"Bearer {await harness.new_player()}")
    assert "scope-forbidden" == other.problem
    assert 202 == (await sent(harness, request, Authorization=f"Bearer {run.token}")).status


async def test_a_resend_gets_the_stored_answer_and_other_content_none(harness: Harness):
    """A run that is stored is answered from the ledger, one with other content is refused."""
    run, claim = await harness.played()
    request = harness.signed(run, claim)
    first, again = [await sent(harness, request) for _ in range(2)]
    assert (202, None) == (first.status, first.headers.get("Idempotency-Replayed"))
    assert (202, "true") == (again.status, again.headers.get("Idempotency-Replayed"))
    assert first.raw == again.raw
    other = await sent(harness, harness.signed(run, claim | {"score": claim["score"] - 10}))
    assert "run-already-submitted" == other.problem
    assert 1 == await harness.rows()


@pytest.mark.parametrize("fields", [{}, PLAIN])
async def test_a_run_that_the_index_has_forgotten_is_closed_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str]
):
    """The ledger knows it, so that nothing is done twice; where its player plays from is noted with the first answer."""
    closed: list[CommittedRun] = []
    close_runs = Index.close_runs

    def counted(self, board, runs):
        closed.extend(runs)
        close_runs(self, board, runs)

    monkeypatch.setattr(Index, "close_runs", counted)
    run, claim = await harness.played()
    request, index = harness.signed(run, claim), harness.edge.index
    first = await sent(harness, request, **fields)
    await index.drained()
    await index.client.delete(keys.pending("arcade"), keys.settled("arcade"))
    again = await sent(harness, request, **fields)
    assert (first.raw, "true") == (again.raw, again.headers["Idempotency-Replayed"])
    assert [(run.id, True)] == [(each.submission_id, each.is_pending) for each in closed]
    assert [run.player] == [player for player, _ in harness.edge.noted_addresses._noted]


async def test_a_submission_over_a_limit_is_charged_once(
    settings: Settings, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    """What was decided on the short way goes along: the first of two is taken, and no limit is asked again."""
    folder = write_policies(
        tmp_path / "policies", arcade_policy(limits={"player_kib": {"per_minute": 1, "burst": 1}})
    )
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        token = await harness.new_player()
        board = harness.edge.catalogue.of_files["arcade"]
        monkeypatch.setattr(harness.edge.of(board).submission_limits, "admit", is_asked_again)
        requests = [harness.signed(*await harness.played(token)) for _ in range(2)]

        assert 202 == (await sent(harness, requests[0])).status
        answer = await sent(harness, requests[1])
        assert (429, "quota-exceeded") == (answer.status, answer.problem)
        assert 0 < int(answer.headers["Retry-After"]) <= 60
        assert 1 == await harness.rows()


async def is_asked_again(request: Any) -> None:
    """What the plain way asks of the limits, if nothing was decided yet."""
    raise AssertionError(f"the limits were asked twice of {request}")


@pytest.mark.parametrize(
    "point", [Point.BEFORE_ADMIT, Point.BEFORE_APPEND, Point.BEFORE_PEND, Point.BEFORE_ANSWER]
)
async def test_a_bug_at_any_step_is_answered_and_reported(harness: Harness, point: Point):
    """As in aiohttp's way: `internal-error`, the next request is served, and a resend has its answer."""

    def fail() -> None:
        raise Unforeseen("a bug")

    run, claim = await harness.played()
    request = harness.signed(run, claim)
    arm(point, fail)
    assert "internal-error" == (await sent(harness, request)).problem
    assert 202 == (await sent(harness, request)).status
    assert 1 == await harness.rows()


async def test_a_ledger_that_does_not_answer_is_told(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """503 with `Retry-After`, and the edge knows that its ledger refuses."""
    run, claim = await harness.played()
    request = harness.signed(run, claim)

    def refuse(self, write):
        raise LedgerUnavailable("no disk")

    with monkeypatch.context() as broken:
        broken.setattr(GroupedWrites, "_enqueue", refuse)
        answer = await sent(harness, request)
    assert (503, "temporary-reduced-capacity") == (answer.status, answer.problem)
    assert harness.edge.ledger.is_refusing
    assert 202 == (await sent(harness, request)).status


async def test_requests_behind_a_taken_one_wait_their_turn(harness: Harness, ways: Counter[str]):
    """Two in one segment, and one that comes while another is under way, are answered in order on one connection."""
    requests = []
    for _ in range(4):
        run, claim = await harness.played()
        requests.append((run, as_bytes(harness.signed(run, claim), harness.authority)))
    async with RawConnection(harness.authority) as connection:
        for _, data in requests[:2]:
            await connection.send(data)  # the second comes before the first is answered
        await connection.send(b"".join(data for _, data in requests[2:]))
        answers = [await connection.answer() for _ in requests]
    assert [202] * 4 == [answer.status for answer in answers]
    assert [run.id for run, _ in requests] == [answer.body["submission"] for answer in answers]
    assert 4 == ways["short"] + ways["plain"]


async def test_a_read_behind_a_taken_submission_is_answered_after_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """However long the commit takes, and though the read would wait for nothing."""
    is_waiting, may_go_on = asyncio.Event(), asyncio.Event()
    append_all = harness.edge.ledger.append_all

    async def held(group: Any) -> Any:
        is_waiting.set()
        await may_go_on.wait()
        return await append_all(group)

    monkeypatch.setattr(harness.edge.ledger, "append_all", held)
    run, claim = await harness.played()
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(harness.signed(run, claim), harness.authority))
        await is_waiting.wait()
        await connection.send(f"GET /v1/boards HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode())
        for _ in range(3):
            await harness.get("/v1/boards")  # the edge has had time for the other one meanwhile
        may_go_on.set()
        assert [202, 200] == [(await connection.answer()).status for _ in range(2)]


async def test_submissions_of_a_moment_get_each_their_own_answer(harness: Harness, ways: Counter[str]):
    """Good ones, a resend and a forged one together: one commit, and nobody gets what is another's."""
    runs = [await harness.played() for _ in range(6)]
    requests = [harness.signed(run, claim) for run, claim in runs]
    requests[3] = harness.signed(*runs[3], key=b"\x01" * 32)
    requests.append(requests[0])
    answers = await asyncio.gather(*(sent(harness, request) for request in requests))
    for (run, claim), answer in list(zip(runs, answers, strict=False))[:3]:
        assert (run.id, run.player, claim["score"]) == (
            answer.body["submission"],
            answer.body["player"],
            answer.body["score"],
        )
    assert ["", "signature-invalid", ""] == [answer.problem for answer in answers[2:5]]
    assert answers[0].raw == answers[6].raw
    assert 5 == await harness.rows()
    index = harness.edge.index
    await index.drained()
    waiting = await index.client.zrange(keys.pending("arcade"), 0, -1)
    assert sorted(run.id for at, (run, _) in enumerate(runs) if at != 3) == sorted(waiting)


async def test_what_fails_after_an_answer_answers_nobody_twice(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Of two that come at once, the second meets a bug when it is told; the next answer to the first is that to its next request."""
    connections: list[Connection] = []
    made = Connection.connection_made

    def noted(self, transport):
        made(self, transport)
        connections.append(self)

    def fail() -> None:
        raise Unforeseen("a bug")

    async def are_here() -> bool:
        return len(connections) == 2

    monkeypatch.setattr(Connection, "connection_made", noted)
    runs = [await harness.played() for _ in range(2)]
    connections.clear()
    async with RawConnection(harness.authority) as one, RawConnection(harness.authority) as other:
        await until(are_here)
        arm(Point.BEFORE_ANSWER, lambda: arm(Point.BEFORE_ANSWER, fail))
        for connection, (run, claim) in zip(connections, runs, strict=True):
            connection.data_received(as_bytes(harness.signed(run, claim), harness.authority))
        answers = [await each.answer() for each in (one, other)]
        assert [(202, ""), (500, "internal-error")] == [(each.status, each.problem) for each in answers]
        await one.send(as_bytes(Request("GET", "/v1/boards/arcade", b""), harness.authority))
        assert "arcade" == (await one.answer()).body["board"]


async def test_a_client_that_leaves_takes_nothing_along(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """A submission whose client left while it was under way is stored, and its visit ends."""
    is_at_the_ledger, has_left, append_all = asyncio.Event(), asyncio.Event(), GroupedWrites.append_all

    async def held(self, group):
        is_at_the_ledger.set()
        await has_left.wait()
        return await append_all(self, group)

    async def is_over() -> bool:
        return not harness.edge.entrance._under_way

    monkeypatch.setattr(GroupedWrites, "append_all", held)
    run, claim = await harness.played()
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(harness.signed(run, claim), harness.authority))
        await is_at_the_ledger.wait()
        assert not await is_over()
        connection.reset()
    await harness.get("/v1/boards")  # the edge has had time to see that the client has left
    has_left.set()
    await until(is_over)
    assert "pending" == await harness.state_of(run.id)
    assert 0 == harness.edge.entrance._expected


async def test_a_connection_is_not_idle_while_its_submission_is_under_way(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The time between two requests may end while the second is stored: it is answered, and the connection stays."""
    is_at_the_ledger, may_go_on, append_all = asyncio.Event(), asyncio.Event(), GroupedWrites.append_all
    taken_from: list[Connection] = []
    take = UsualSubmissions.take

    async def held(self, group):
        is_at_the_ledger.set()
        await may_go_on.wait()
        return await append_all(self, group)

    def noted(self, connection, data):
        taken_from.append(connection)
        take(self, connection, data)

    monkeypatch.setattr(UsualSubmissions, "take", noted)
    read = f"GET /livez HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode()
    async with RawConnection(harness.authority) as connection:
        await connection.send(read)
        assert 200 == (await connection.answer()).status
        monkeypatch.setattr(GroupedWrites, "append_all", held)
        run, claim = await harness.played()
        await connection.send(as_bytes(harness.signed(run, claim), harness.authority))
        await is_at_the_ledger.wait()
        [own] = taken_from
        own._next_keepalive_close_time = 0.0
        own._process_keepalive()
        may_go_on.set()
        assert 202 == (await connection.answer()).status
        await connection.send(read)
        assert 200 == (await connection.answer()).status


async def test_an_edge_that_ends_says_so_on_the_short_way(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """A request that was taken before the end began is answered with `Connection: close`, and the connection closes."""
    run, claim = await harness.played()
    read = UsualSubmissions._read

    def read_late(self, connection, data):
        usual = read(self, connection, data)
        harness.edge.shutdown.has_begun = True
        return usual

    monkeypatch.setattr(UsualSubmissions, "_read", read_late)
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(harness.signed(run, claim), harness.authority))
        answer = await connection.answer()
        assert (202, "close") == (answer.status, answer.headers["Connection"])
        assert await connection.is_closed()
