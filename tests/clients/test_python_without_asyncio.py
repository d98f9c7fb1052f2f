"""The Python clients without asyncio: the same methods, over a transport that a game or a test can replace."""

from __future__ import annotations

import inspect
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scoregate_client import (
    Batch,
    BlockingTransport,
    DamagedAsset,
    HttpAnswer,
    HttpRequest,
    HttpStream,
    ModeratorClient,
    Person,
    Recorder,
    Run,
    ScoregateClient,
    ScoregateError,
    ServerClient,
    SyncModeratorClient,
    SyncScoregateClient,
    SyncServerClient,
    Unanswered,
    Unconnected,
    encode_recording,
)
from scoregate_client.assets import ASSET_BYTES
from scoregate_client.documents import Document, page_of
from scoregate_client.retrying import asked_pause_s, pause_s

from tests.clients.test_python_client import NOW, RUN_DOCUMENT, SUBMISSION_DOCUMENT
from tests.support.thorough import examples

Answered = HttpAnswer | Exception
BATCH_DOCUMENT: dict[str, Any] = {
    "batch": "b_1",
    "state": "previewed",
    "by": "mara",
    "action": "revoke",
    "code": "cheating",
    "scopes": ["arcade"],
    "selection": {},
    "items": 1,
    "boards": [],
    "board_count": 0,
    "podiums": [],
    "podium_count": 0,
    "in_cases": 0,
    "left_out": {},
    "outcomes": {},
    "detail": None,
    "created_at": "2026-11-20T00:00:00Z",
    "expires_at": None,
    "etag": '"1"',
}
FAMILIES = "https://scores.example/v1/families"


class Scripted:
    """A transport and a runner in memory: it answers by a script, and pauses move its clock."""

    def __init__(self, *script: Answered) -> None:
        self.script = list(script)
        self.sent: list[HttpRequest] = []
        self.pauses: list[float] = []
        self.now_s = float(NOW)

    async def send(self, request: HttpRequest) -> HttpAnswer:
        self.sent.append(request)
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def listen(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        answer = await self.send(request)

        async def chunks() -> AsyncIterator[bytes]:
            yield answer.body

        yield HttpStream(answer.status, answer.headers, chunks())

    async def close(self) -> None:
        return

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        return function()

    @asynccontextmanager
    async def hinted(self, hints: Any) -> AsyncIterator[Any]:
        await hints.aclose()
        yield self.sleep


def told(status: int, document: Any = None, **headers: str) -> HttpAnswer:
    body = b"" if document is None else json.dumps(document).encode()
    return HttpAnswer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def a_client(*script: Answered, **options: Any) -> tuple[SyncScoregateClient, Scripted]:
    world = Scripted(*script)
    steady = {"transport": world, "runner": world, "clock": lambda: world.now_s, "jitter": lambda: 1.0}
    return SyncScoregateClient("https://scores.example", token="t", **(steady | options)), world


def a_moderator(*script: Answered) -> tuple[SyncModeratorClient, Scripted]:
    world = Scripted(*script)
    return SyncModeratorClient("https://scores.example", "t", transport=world, runner=world), world


def submit(client: SyncScoregateClient) -> str:
    return client.submit(Run.from_json(RUN_DOCUMENT), 7, 3, {"coins": 1}, b"SGR1").state


@pytest.mark.parametrize(
    ("whole", "sync"),
    [
        (ScoregateClient, SyncScoregateClient),
        (ServerClient, SyncServerClient),
        (ModeratorClient, SyncModeratorClient),
    ],
)
def test_every_method_is_there_without_asyncio(whole: type, sync: type) -> None:
    """Under its name, with its parameters and its words."""
    for name, method in inspect.getmembers(whole, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(method) == inspect.signature(getattr(sync, name)) or name == "close"
            assert (method.__doc__ == getattr(sync, name).__doc__) or name == "close"
            assert not inspect.iscoroutinefunction(getattr(sync, name))


def test_a_run_is_played_without_an_event_loop() -> None:
    """Opened, submitted, waited for and watched, by plain calls."""
    event = b'event: standing\nid: 1-0\ndata: {"score": 7}\n\n'
    client, world = a_client(
        told(201, RUN_DOCUMENT),
        told(202, SUBMISSION_DOCUMENT),
        told(200, SUBMISSION_DOCUMENT),
        told(200, SUBMISSION_DOCUMENT),
        told(200, SUBMISSION_DOCUMENT | {"state": "held"}),
        HttpAnswer(200, {"content-type": "text/event-stream"}, event),
    )
    with client:
        submission = client.submit(client.open_run("arcade", "arcade-1"), 7, 3, {"coins": 1}, b"SGR1")
        assert "held" == client.wait_until_settled(submission).state
        with closing(client.watch("arcade")) as events:
            assert {"score": 7} == next(events).data
    assert [0.5, 1.0] == world.pauses


def test_waiting_for_a_decision_ends_with_an_error() -> None:
    """After the time that it was given."""
    client, _ = a_client(*[told(200, SUBMISSION_DOCUMENT)] * 9)
    with pytest.raises(ScoregateError) as late:
        client.wait_until_settled("r_1", timeout_s=0.0)
    assert (0, "timeout") == (late.value.status, late.value.reason)


def test_looks_at_a_run_grow_rarer_and_none_comes_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to one in five seconds; the last one is at the very end."""
    client, world = a_client(*[told(200, SUBMISSION_DOCUMENT)] * 9)
    clock = SimpleNamespace(monotonic=lambda: world.now_s)
    monkeypatch.setattr("scoregate_client.client.time", clock)
    with pytest.raises(ScoregateError) as late:
        client.wait_until_settled("r_1", timeout_s=20.0)
    assert "timeout" == late.value.reason
    assert [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 2.5] == world.pauses


def test_only_what_did_nothing_is_repeated_where_a_second_would_be_created() -> None:
    """No connection, too many requests, no capacity; but no lost answer, and no failure."""
    client, world = a_client(Unconnected(), told(429), told(503), told(201, RUN_DOCUMENT))
    assert "r_1" == client.open_run("arcade", "arcade-1").run
    assert 4 == len(world.sent)
    for fault in (Unanswered("lost"), told(500), told(502), told(504), told(408)):
        client, world = a_client(fault, told(201, RUN_DOCUMENT))
        with pytest.raises(ScoregateError):
            client.open_run("arcade", "arcade-1")
        assert 1 == len(world.sent)


MARA = Person(
    moderator="mara",
    grants={"*": "moderator"},
    players=(),
    has_password=True,
    has_identity=False,
    second_factor=False,
    created_at="2026-11-20T00:00:00Z",
    etag='"1"',
)


@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.next_case(board="arcade"),
        lambda client: client.add_person("mara", {"*": "moderator"}),
        lambda client: client.invite_again(MARA),
        lambda client: client.reset_person(MARA),
    ],
    ids=["a case", "an invitation", "another invitation", "an invitation after a reset"],
)
def test_what_a_moderator_would_get_twice_is_asked_for_once(
    act: Callable[[SyncModeratorClient], object],
) -> None:
    """A second case claimed, or an invitation that nobody has seen; what is safe to repeat is repeated."""
    client, world = a_moderator(Unanswered("lost"))
    with pytest.raises(ScoregateError):
        act(client)
    assert 1 == len(world.sent)
    client, world = a_moderator(Unanswered("lost"), told(200, {"views": []}))
    assert ((), 2) == (client.remove_view("mine"), len(world.sent))


@pytest.mark.parametrize(
    ("link", "following"),
    [
        ('</v1/moderation/trail.csv?board=arcade&cursor=c2%3D>; rel="next"', "c2="),
        ("<https://scores.example/v1/moderation/trail.csv?cursor=c2>; rel=next", "c2"),
        (
            '</v1/moderation/trail.csv?cursor=c0>; rel="prev", </v1/moderation/trail.csv?cursor=c2>; rel="next"',
            "c2",
        ),
        ('</v1/moderation/trail.csv?cursor=c0>; rel="prev"', None),
        ("", None),
    ],
)
def test_a_file_of_the_trail_names_the_next_one(link: str, following: str | None) -> None:
    """As its `Link` has it (RFC 8288), with what the address quotes; the last one names none."""
    answer = HttpAnswer(200, {"link": link} if link else {}, b"seq\n")
    client, world = a_moderator(answer, answer)
    found = client.trail_csv(board="arcade")
    assert (b"seq\n", following) == (found.content, found.next)
    if following:
        client.trail_csv(board="arcade", cursor=following)
        assert f"cursor={quote(following)}" in world.sent[1].url


@pytest.mark.parametrize("state", ["selecting", "applying", "reversing"])
def test_a_batch_is_awaited_until_the_gateway_has_no_more_to_do(state: str) -> None:
    """Whichever of the three it is at; what is previewed, applied, reversed or let go is not read again."""
    going_on = BATCH_DOCUMENT | {"state": state}
    client, world = a_moderator(
        told(200, {"batch": going_on}), told(200, {"batch": BATCH_DOCUMENT | {"state": "applied"}})
    )
    assert "applied" == client.await_batch(Batch.from_json(going_on), pause_s=3.0).state
    assert [3.0, 3.0] == world.pauses
    for over in ("previewed", "applied", "reversed", "abandoned"):
        assert over == client.await_batch(Batch.from_json(BATCH_DOCUMENT | {"state": over})).state
    assert 2 == len(world.sent)


def test_a_feed_that_is_left_is_let_go_at_once() -> None:
    """Its connection with it, though somebody may still hold the generator."""
    client, world = a_client()
    left: list[str] = []

    @asynccontextmanager
    async def listen(request: HttpRequest) -> AsyncIterator[HttpStream]:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"event: begin\nid: 1\n\nevent: reset\nid: 2\n\n"

        try:
            yield HttpStream(200, {"content-type": "text/event-stream"}, chunks())
        finally:
            left.append(request.url)

    world.listen = listen  # type: ignore[method-assign]
    events = client.watch("arcade")
    assert ("begin", []) == (next(events).kind, left)
    events.close()
    assert ["https://scores.example/v1/boards/arcade/live?mode=all"] == left


def test_no_more_is_downloaded_than_the_largest_asset_has() -> None:
    """In a time of its own, for a slow line; what is longer is told from what is damaged."""
    cut = HttpAnswer(200, {}, b"x", is_whole=False)
    client, world = a_client(cut, attempts=1)
    with pytest.raises(DamagedAsset, match=f"more than {ASSET_BYTES} bytes"):
        client.asset("track.spa", "sha256:" + "0" * 64)
    [request] = world.sent
    assert (ASSET_BYTES, 600.0, 30.0) == (request.most_bytes, request.within_s, request.silence_s)


def test_times_of_moderators_are_sent_as_the_gateway_reads_them() -> None:
    """Those of bans, and of the submissions of a batch."""
    until, text = datetime(2026, 12, 1, tzinfo=UTC), "2026-12-01T00:00:00+00:00"
    client, world = a_moderator(told(403), told(403))
    with pytest.raises(ScoregateError):
        client.ban("p_1", "op-1", "cheating", until=until)
    with pytest.raises(ScoregateError):
        client.preview_batch("op-2", "revoke", "cheating", {"board": "arcade", "received_since": until})
    ban, batch = (json.loads(each.body or b"") for each in world.sent)
    assert (text, {"board": "arcade", "received_since": text}) == (ban["until"], batch["selection"])


def test_only_a_change_of_the_queue_is_one() -> None:
    """Another event, which a later gateway may send, is nothing to look for."""
    events = b"event: queue\ndata: {}\n\nevent: later\ndata: {}\n\nevent: queue\ndata: {}\n\n"
    client, _ = a_moderator(HttpAnswer(200, {"content-type": "text/event-stream"}, events), told(403))
    changes = client.watch_queue()
    assert [None, None] == [next(changes), next(changes)]
    with pytest.raises(ScoregateError):
        next(changes)


def test_families_are_read_to_the_last_page_and_standings_as_who_looks() -> None:
    """A page may be empty and have a next one; a banned player may be shown standings of their own."""
    client, world = a_client(
        told(200, {"families": [], "next": "c"}), told(200, {"families": [], "next": None}), told(403)
    )
    assert () == client.families()
    with pytest.raises(ScoregateError):
        client.standings("track", "p_1")
    assert ["", "?cursor=c"] == [each.url.removeprefix(FAMILIES) for each in world.sent[:2]]
    assert "Bearer t" == world.sent[2].headers["Authorization"]


@pytest.mark.parametrize(
    ("options", "said"), [({"attempts": 0}, "At least one attempt"), ({"session": object()}, "an event loop")]
)
def test_options_that_cannot_be_are_refused_when_a_client_is_made(options: Any, said: str) -> None:
    """And not by the first request, which a game makes when somebody has played."""
    with pytest.raises(ValueError, match=said):
        SyncScoregateClient("https://scores.example", **options)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_is_safe_to_repeat_is_repeated_after_whatever_passes(status: int) -> None:
    """And a refusal that will be the same again is not."""
    client, world = a_client(told(status), told(202, SUBMISSION_DOCUMENT))
    assert ("pending", 2) == (submit(client), len(world.sent))
    for final in (400, 401, 403, 404, 409, 410, 422, 501):
        client, world = a_client(told(final))
        with pytest.raises(ScoregateError):
            submit(client)


def test_a_retry_is_signed_anew_only_if_its_signature_would_have_expired() -> None:
    """The same signature while it lives, as it is the same request; then another one over the same body."""
    client, world = a_client(*[told(503, retry_after="60")] * 5, told(202, SUBMISSION_DOCUMENT))
    assert "pending" == submit(client)
    signatures = [each.headers["Signature-Input"] for each in world.sent]
    assert 1 == len({*signatures[:5]})
    assert signatures[4] != signatures[5]
    assert 1 == len({each.body for each in world.sent})


def test_the_gateways_time_is_kept_for_the_next_run() -> None:
    """One refusal, and none after it."""
    late = {"type": "https://scoregate.dev/problems/signature-expired", "server_time": NOW + 3600}
    refused = told(401, late, content_type="application/problem+json")
    client, world = a_client(refused, *[told(202, SUBMISSION_DOCUMENT)] * 2)
    assert ["pending", "pending"] == [submit(client), submit(client)]
    created = [each.headers["Signature-Input"].partition(";created=")[2][:10] for each in world.sent]
    assert [str(NOW), str(NOW + 3600), str(NOW + 3600)] == created


@pytest.mark.parametrize("server_time", [True, "1700003600", -1, 1 << 40, 1.7e9, None])
def test_what_is_no_time_sets_no_clock(server_time: object) -> None:
    """The refusal is raised as it is."""
    late = {"type": "https://scoregate.dev/problems/signature-expired", "server_time": server_time}
    client, world = a_client(told(401, late, content_type="application/problem+json"))
    with pytest.raises(ScoregateError) as refused:
        submit(client)
    assert ("signature-expired", 1) == (refused.value.reason, len(world.sent))


def test_a_problem_is_the_gateways_whatever_its_media_type_has_behind_it() -> None:
    """Parameters, blanks and capitals: the clock is set by it, and a run that waits is over."""
    for media_type in ("application/problem+json; charset=utf-8", " Application/Problem+JSON ;x=y"):
        late = {"type": "https://scoregate.dev/problems/signature-expired", "server_time": NOW + 3600}
        client, world = a_client(told(401, late, content_type=media_type), told(202, SUBMISSION_DOCUMENT))
        assert ("pending", 2) == (submit(client), len(world.sent))


def test_a_clock_that_is_set_right_meanwhile_is_seen_to_be() -> None:
    """By another refusal: what was known of the clock before says nothing any more."""

    def refused(server_s: int) -> HttpAnswer:
        late = {"type": "https://scoregate.dev/problems/signature-expired", "server_time": server_s}
        return told(401, late, content_type="application/problem+json")

    taken = told(202, SUBMISSION_DOCUMENT)
    client, world = a_client(refused(NOW + 3600), taken, refused(NOW + 3660), taken)
    submit(client)
    world.now_s = NOW + 3660
    submit(client)
    created = [int(each.headers["Signature-Input"].partition(";created=")[2][:10]) for each in world.sent]
    assert [0, 3600, 7260, 3660] == [each - NOW for each in created]


@settings(max_examples=examples(40))
@example(1_000_000, 1.0)
@given(st.integers(1, 60), st.floats(0, 1))
def test_a_pause_is_the_half_to_the_whole_of_a_doubled_one(attempt: int, jitter: float) -> None:
    """And never above half a minute."""
    whole_s = 30.0 if attempt > 6 else 0.5 * 2 ** (attempt - 1)
    assert whole_s / 2 <= pause_s(attempt, jitter) <= whole_s


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Tue, 14 Nov 2023 22:13:20 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:31 GMT", 0.0),
        ("some day", 3610.0),
        (None, 3610.0),
    ],
)
def test_a_pause_to_a_date_is_by_the_clock_of_whoever_asks_for_it(date: str | None, expected: float) -> None:
    """A machine that is an hour slow waits ten seconds, and not an hour; its own clock is for an answer without a date."""
    headers = {"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"} | ({} if date is None else {"date": date})
    assert expected == asked_pause_s(headers, NOW - 3600)


@settings(max_examples=examples(40))
@given(st.text(), st.text())
def test_any_text_may_stand_in_retry_after(asked: str, date: str) -> None:
    """It is a pause, or none; never an error, and never negative."""
    found = asked_pause_s({"retry-after": asked, "date": date}, NOW)
    assert found is None or found >= 0


@dataclass(frozen=True)
class Measured(Document):
    """A document with a value of each kind."""

    share: float
    count: int
    name: str


@pytest.mark.parametrize(
    "wrong",
    [{"count": True}, {"count": 2.0}, {"count": None}, {"share": "1"}, {"share": True}, {"name": "\ud800"}],
)
def test_a_value_of_another_kind_is_none_that_a_gateway_answers(wrong: dict[str, Any]) -> None:
    """True is no number, and half a surrogate pair no text; a whole number is one where a fraction may be."""
    right = {"share": 1, "count": 2, "name": "ada", "unknown": []}
    found = Measured.from_json(right)
    assert (Measured(1.0, 2, "ada"), float) == (found, type(found.share))
    with pytest.raises(ScoregateError, match="not what a gateway answers"):
        Measured.from_json(right | wrong)


@pytest.mark.parametrize("wrong", [{"next": 5}, {"next": {}}, {"items": {}}, {"items": None}, {"items": [5]}])
def test_a_page_that_is_none_is_an_error_at_once(wrong: dict[str, Any]) -> None:
    """And not when its cursor is sent back, or its items are read."""
    page = {"items": [{"share": 1, "count": 2, "name": "ada"}], "next": "cursor"}
    assert ([Measured(1.0, 2, "ada")], "cursor") == page_of(Measured, "items", page)
    assert ([], None) == page_of(Measured, "items", {"items": []})
    with pytest.raises(ScoregateError, match=r"is no page of items|not what a gateway answers"):
        page_of(Measured, "items", page | wrong)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*RUN_DOCUMENT, *SUBMISSION_DOCUMENT, "entries", "next"]), inner, max_size=5
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(40))
@given(st.binary(max_size=40) | junk.map(json.dumps).map(str.encode))
def test_junk_is_an_error_of_the_client(body: bytes) -> None:
    """Whatever stands in the place of an answer, a game catches one error."""
    client, _ = a_client(*[HttpAnswer(200, {}, body)] * 5, attempts=1)
    for read in (
        lambda: client.open_run("arcade", "b"),
        lambda: client.entries("arcade"),
        client.families,
        client.friends,
        lambda: client.board("arcade"),
    ):
        with pytest.raises(ScoregateError):
            read()


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 7))
def test_a_recorder_makes_what_the_whole_run_encodes_to(inputs: list[int], checkpoint_ticks: int) -> None:
    """It says when a hash is due, and takes it then alone."""
    recorder, hashes = Recorder(checkpoint_ticks), []
    for number, word in enumerate(inputs):
        if recorder.tick(word):
            with pytest.raises(ValueError, match="missing"):
                recorder.tick(word)
            recorder.checkpoint(number)
            hashes.append(number)
        with pytest.raises(ValueError, match="due"):
            recorder.checkpoint(number)
    assert encode_recording(inputs, hashes, checkpoint_ticks) == recorder.finish()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Ty",
        b"HTTP/1.1 200",
        b"",
    ],
)
def test_half_an_answer_is_none(answer: bytes) -> None:
    """The standard library does not tell, so the transport does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with SyncScoregateClient(url, attempts=1, transport=BlockingTransport()) as client:
            with pytest.raises(ScoregateError) as lost:
                client.board("arcade")
        serving.join()
    assert 0 == lost.value.status


def test_nobody_but_the_gateway_sets_the_clock() -> None:
    """Something in between may answer with its words, and not as it does."""
    refusal = {"type": "https://scoregate.dev/problems/signature-expired", "server_time": NOW + 5000}
    client, world = a_client(
        told(401, refusal, content_type="application/json"), told(202, SUBMISSION_DOCUMENT)
    )
    with pytest.raises(ScoregateError):
        submit(client)
    submit(client)
    assert f";created={NOW};" in world.sent[-1].headers["Signature-Input"]
