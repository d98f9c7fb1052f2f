"""The short way of usual reads, beside aiohttp's way: the same answers, whatever is asked and whatever happens."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from gateway.catalogue import outdated_boards
from gateway.edge.connections import Connection
from gateway.edge.reads import usual_reads
from gateway.edge.reads.board_reader import BoardReader
from gateway.edge.reads.page_cache import PageCache
from gateway.edge.reads.read_budget import ReadBudget
from gateway.edge.reads.usual_reads import UsualReads
from gateway.edge_wiring import put_in_force
from gateway.index import keys
from gateway.index.versions import Versions
from gateway.runtime import metering
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event
from policies.errors import IndexUnavailable
from policies.loader import load_policies
from tests.gateway.edge.conftest import KINDS
from tests.gateway.edge.test_cursors import change
from tests.gateway.edge.test_readers import VAULT, filled
from tests.support.attack import until
from tests.support.charges import draw_dearly, noted_charges
from tests.support.harness import Answer, Harness, running_harness
from tests.support.metrics import counts
from tests.support.policies import a_policy, write_policies
from tests.support.raw import RawConnection

PLAIN = {"X-Note": "a\ttab"}
"""A field that no usual request has, and that means nothing."""

TARGETS = (
    "/entries",
    "/entries?window=daily&limit=2",
    "/entries/p2",
    "/entries/p2/around?radius=1",
    "/percentiles",
    "/distribution?bins=2",
)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many reads were answered on the short way, and how many were given back.

    Of a slow test, none is given back because a second has passed since the rules were looked at.
    """
    monkeypatch.setattr(outdated_boards, "LOOK_S", 3_600.0)
    taken: Counter[str] = Counter()
    answer, go_on = Connection.answer, Connection.go_on

    def counted_answer(self, answer_, *, is_last):
        taken["answer"] += 1
        answer(self, answer_, is_last=is_last)

    def counted_go_on(self, *rest, **named):
        taken["go_on"] += 1
        go_on(self, *rest, **named)

    monkeypatch.setattr(Connection, "answer", counted_answer)
    monkeypatch.setattr(Connection, "go_on", counted_go_on)
    return taken


def as_bytes(
    harness: Harness, target: str, method: str = "GET", version: str = "1.1", **fields: str
) -> bytes:
    lines = [
        f"{name.replace('_', '-')}: {value}" for name, value in {"Host": harness.authority, **fields}.items()
    ]
    return "\r\n".join([f"{method} {target} HTTP/{version}", *lines, "", ""]).encode()


async def asked(harness: Harness, target: str, **fields: str) -> Answer:
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(harness, target, **fields))
        return await connection.answer()


def shape(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    return (
        answer.status,
        {name: value for name, value in answer.headers.items() if name != "Date"},
        answer.raw,
    )


async def both_ways(harness: Harness, target: str, **fields: str) -> tuple[Answer, Answer]:
    return await asked(harness, target, **fields), await asked(harness, target, **PLAIN, **fields)


@pytest.mark.parametrize("target", TARGETS)
async def test_a_usual_read_gets_the_same_answer_on_both_ways(
    harness: Harness, ways: Counter[str], target: str
):
    """Status, every header, and every byte; the first one, which nothing was kept for, goes the plain way."""
    await filled(harness, 3)
    first = await asked(harness, VAULT + target)
    assert (200, {"go_on": 1}) == (first.status, ways)
    short, plain = await both_ways(harness, VAULT + target)
    assert shape(first) == shape(short) == shape(plain)
    assert str(len(short.raw)) == short.headers["Content-Length"]
    assert {"Date"} == {"Date"} & set(short.headers)
    assert {"go_on": 2, "answer": 1} == ways


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other"', '"other", {}', "*", "{}, {}", "junk"])
async def test_who_has_a_page_is_told_so_on_both_ways(harness: Harness, ways: Counter[str], form: str):
    """One tag is compared on the short way, weak or strong; lists and all else are read by aiohttp."""
    await filled(harness, 3)
    tag = (await asked(harness, f"{VAULT}/entries")).headers["ETag"]
    given = form.replace("{}", tag)
    short, plain = await both_ways(harness, f"{VAULT}/entries", If_None_Match=given)
    assert shape(plain) == shape(short)
    assert (304 if "{}" in form else 200) == short.status
    is_one = form in {"{}", "W/{}", '"other"'}
    assert (int(is_one), 2 + (not is_one)) == (ways["answer"], ways["go_on"])


@pytest.mark.parametrize("origins", [("https://game.example",), ("*",)])
async def test_a_page_of_another_origin_gets_the_same_fields_on_both_ways(
    settings: Settings, ways: Counter[str], origins: tuple[str, ...]
):
    """One that is allowed, another one, and none; a page that was kept for one of them says nothing of the others."""
    async with running_harness(settings.model_copy(update={"origins": origins})) as harness:
        await filled(harness, 3)
        await asked(harness, f"{VAULT}/entries")
        for origin in ("https://game.example", "https://other.example", "https://game.example"):
            short, plain = await both_ways(harness, f"{VAULT}/entries", Origin=origin)
            assert shape(plain) == shape(short)
            is_allowed = origins == ("*",) or "game" in origin
            assert is_allowed == ("Access-Control-Allow-Origin" in short.headers)
        short, plain = await both_ways(harness, f"{VAULT}/entries")
        assert shape(plain) == shape(short)
    assert 4 == ways["answer"]


@pytest.mark.parametrize(
    "request_of",
    [
        {"method": "HEAD"},
        {"version": "1.0"},
        {"Authorization": "Bearer nobody"},
        {"Content_Length": "0"},
        {"Connection": "close"},
        {"Proxy_Connection": "close"},
        {"Expect": "100-continue"},
        {"Early_Data": "1"},
        {"Host": "elsewhere.example"},
        {"Host": "a, b"},
        {"X_Forwarded_For": "192.0.2.1\r\nX-Forwarded-For: 192.0.2.2"},
        {"target": f"{VAULT}/entries?limit=2"},
        {"target": f"{VAULT}/entries?limit=0"},
        {"target": f"{VAULT}/entries#top"},
    ],
    ids=str,
)
async def test_what_is_not_usual_goes_the_plain_way(
    harness: Harness, ways: Counter[str], request_of: dict[str, str]
):
    """In its method, in a field, in its host, or as a target of which nothing is kept."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    request = {"target": f"{VAULT}/entries"} | request_of
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(harness, **request))
        assert (await connection.line()).startswith(b"HTTP/1.")
    assert 0 == ways["answer"]


async def test_a_read_shows_what_was_changed_before_it(harness: Harness, ways: Counter[str]):
    """A page that a change does not touch is carried on, and one that it touches is read anew, on the short way."""
    private = await filled(harness, 5)
    targets = [f"{VAULT}/entries?limit=2", f"{VAULT}/entries/p4/around?radius=1"]
    for target in targets:
        await asked(harness, target)
    for player, score in (("p9", 1), ("p1", 2000), ("p4", 3000), ("p4", None), ("p4", 5)):
        await change(harness, private, (player, score))
        for target in targets:
            short, plain = await both_ways(harness, target)
            assert (plain.status, plain.raw) == (short.status, short.raw)
            assert plain.headers.get("ETag") == short.headers.get("ETag")
            assert player != "p4" or ("around" in target and score is None) == (short.status == 404)
    assert 8 <= ways["answer"]


async def test_F08_a_page_is_paid_by_who_has_it_drawn_anew(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """However little it takes, since nobody else pays for the task that draws it."""
    private = await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    await change(harness, private, ("p9", 2000))
    draw_dearly(monkeypatch, 20)
    charged_us = noted_charges(monkeypatch)
    monkeypatch.setattr(metering, "CHARGED_NS", 10**12)
    ways.clear()
    assert "p9" == (await asked(harness, f"{VAULT}/entries")).body["entries"][0]["player"]
    assert {"answer": 1} == ways
    assert 20_000 <= sum(charged_us) < 60_000


async def test_a_player_who_left_is_looked_for_once_for_each_read(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """The page that they were on is let go, so that nobody draws it on both ways again and again."""
    private, drawn = await filled(harness, 3), []
    rendered = PageCache._rendered

    async def counted(self, page, *rest):
        drawn.append(page)
        return await rendered(self, page, *rest)

    monkeypatch.setattr(PageCache, "_rendered", counted)
    await asked(harness, f"{VAULT}/entries/p2")
    await change(harness, private, ("p2", None))
    answers = [await asked(harness, f"{VAULT}/entries/p2") for _ in range(3)]
    assert ["not-found"] * 3 == [answer.problem for answer in answers]
    assert 1 + 2 + 1 + 1 == len(drawn)
    assert 0 == ways["answer"]


async def test_a_board_that_the_index_lost_is_read_from_the_ledger(harness: Harness, ways: Counter[str]):
    """It is said so on both ways, with the tag of its bytes; what is built again is kept again."""
    await filled(harness, 3)
    assert "Scoregate-Source" not in (await asked(harness, f"{VAULT}/entries")).headers
    sentinel = keys.sentinel("vault")
    await harness.edge.index.client.delete(sentinel, keys.version("vault"))
    with counts(5, "scoregate_ledger_pages_total", board="vault"):
        short, plain = await both_ways(harness, f"{VAULT}/entries")
        assert shape(plain) == shape(short)
        assert "ledger" == short.headers["Scoregate-Source"]
        again = await both_ways(harness, f"{VAULT}/entries", If_None_Match=short.headers["ETag"])
        assert shape(again[1]) == shape(again[0])
        assert 304 == again[0].status
        assert 200 == (await asked(harness, f"{VAULT}/entries", If_None_Match='"of-before"')).status
    assert 3 == ways["answer"]
    await harness.edge.index.client.set(sentinel, "1")
    for _ in range(2):
        assert "Scoregate-Source" not in (await asked(harness, f"{VAULT}/entries")).headers


async def test_an_index_that_does_not_answer_is_the_plain_ways_business(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """Whether it fails at once, because too many wait, or later: it is asked once, and the ledger then."""
    await filled(harness, 3)
    first = await asked(harness, f"{VAULT}/entries")

    calls: list[str] = []

    async def fail(self, windows):
        calls.append("_ask")
        raise IndexUnavailable("away")

    def refuse(self, window):
        calls.append("of")
        raise IndexUnavailable("too many wait")

    for name, broken in (("_ask", fail), ("of", refuse)):
        with monkeypatch.context() as patched:
            if name == "_ask":
                versions = harness.edge.index.of(harness.edge.catalogue.of_files["vault"]).versions
                patched.setattr(versions._batcher, "_send", lambda windows: fail(None, windows))
            else:
                patched.setattr(Versions, name, broken)
            with capture_logs() as logs:
                answer = await asked(harness, f"{VAULT}/entries")
            assert 1 == [line["event"] for line in logs].count(Event.INDEX_DOWN)
            assert (200, first.body["entries"]) == (answer.status, answer.body["entries"])
            assert "ledger" == answer.headers["Scoregate-Source"]
            assert [name] == calls
            calls.clear()
    assert 0 == ways["answer"]


async def test_an_index_that_falls_silent_before_a_page_is_kept_costs_one_wait(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """The page has been read, and is sent as it is on either way; nobody knows under which version to keep it."""
    private = await filled(harness, 3)
    first = await asked(harness, f"{VAULT}/entries/p2")
    versions = harness.edge.index.of(harness.edge.catalogue.of_files["vault"]).versions
    send, calls = versions._batcher._send, list[Any]()

    async def fail_second(windows):
        calls.append(windows)
        if len(calls) == 2:
            raise IndexUnavailable("silent")
        return await send(windows)

    for at, fields in enumerate(({}, PLAIN)):
        await change(harness, private, ("p9", 5000 + at))
        with monkeypatch.context() as patched:
            calls.clear()
            patched.setattr(versions._batcher, "_send", fail_second)
            answer = await asked(harness, f"{VAULT}/entries/p2", **fields)
        assert (200, 2) == (answer.status, len(calls))
        assert "Scoregate-Source" not in answer.headers
        assert first.body["rank"] + 1 == answer.body["rank"]
    assert 1 == ways["answer"]


async def test_what_one_request_knows_of_the_index_is_not_told_of_the_next(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Not even if the first one was refused before anybody asked."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    versions = harness.edge.index.of(harness.edge.catalogue.of_files["vault"]).versions
    waits_s = [0.0, 0.0]

    async def fail(windows):
        waits_s[:] = [7.0] * 2
        raise IndexUnavailable("away")

    async with RawConnection(harness.authority) as connection:
        with monkeypatch.context() as patched:
            patched.setattr(versions._batcher, "_send", fail)
            patched.setattr(ReadBudget, "wait_s", lambda self, caller: waits_s[0])
            await connection.send(as_bytes(harness, f"{VAULT}/entries"))
            assert 429 == (await connection.answer()).status
        data = as_bytes(harness, f"{VAULT}/entries")
        await connection.send(data[:20])
        await harness.get("/v1/boards")  # the edge has read that meanwhile: aiohttp gets the rest as well
        await connection.send(data[20:])
        assert "Scoregate-Source" not in (await connection.answer()).headers


async def test_a_board_that_is_behind_says_so(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """The short way has no word for it."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    monkeypatch.setattr(type(harness.edge.lag), "behind_s", lambda self, board: 1.5 * (board == "vault"))
    answer = await asked(harness, f"{VAULT}/entries")
    assert ("2", "no-store") == (answer.headers["Scoregate-Behind"], answer.headers["Cache-Control"])
    assert 0 == ways["answer"]


async def test_a_board_that_waits_to_be_folded_is_refused(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """As is said on the plain way; and notes that are a second old are read again there first."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    outdated = harness.edge.outdated
    outdated._looked_s = float("-inf")
    assert 200 == (await asked(harness, f"{VAULT}/entries")).status
    assert (0, float("-inf")) != (ways["answer"], outdated._looked_s)
    assert 200 == (await asked(harness, f"{VAULT}/entries")).status
    assert 1 == ways["answer"]
    monkeypatch.setattr(type(outdated), "_has_noted", lambda self, board: board == "vault")
    assert "board-rebuilding" == (await asked(harness, f"{VAULT}/entries")).problem
    assert 1 == ways["answer"]


async def test_a_board_of_other_policies_is_not_shown_by_the_old_ones(
    harness: Harness, ways: Counter[str], tmp_path: Path
):
    """After a reload its kept pages are nobody's: a window that it has no more is refused, and tags are others."""
    await filled(harness, 3)
    tag = (await asked(harness, f"{VAULT}/entries")).headers["ETag"]
    await asked(harness, f"{VAULT}/entries?window=daily")
    fewer = [kind for kind in KINDS if kind != "daily"]
    folder = write_policies(tmp_path / "other", a_policy("vault", writes="trusted", windows=fewer))
    put_in_force(harness.edge, load_policies(folder))
    for fields in ({}, PLAIN):
        assert "not-found" == (await asked(harness, f"{VAULT}/entries?window=daily", **fields)).problem
        assert tag != (await asked(harness, f"{VAULT}/entries", **fields)).headers["ETag"]
    assert 0 == ways["answer"]


async def test_a_board_that_is_read_on_the_short_way_stays_in_use(
    settings: Settings, tmp_path: Path, ways: Counter[str]
):
    """Now and then a read goes the plain way, which notes it: else a board that many read would go cold."""
    folder = write_policies(tmp_path / "limited", a_policy("vault", writes="trusted", cold_after_h=1))
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        await filled(harness, 3)
        for _ in range(2):
            await asked(harness, f"{VAULT}/entries")
        assert 1 == ways["answer"]
        index = harness.edge.index.of(harness.edge.catalogue.of_files["vault"])
        await index.client.delete(keys.used("vault"))
        index.residency._noted_s = float("-inf")
        for _ in range(2):
            await asked(harness, f"{VAULT}/entries")
        assert 2 == ways["answer"]
        assert 1 == await index.client.exists(keys.used("vault"))


async def test_a_window_that_is_over_is_not_shown_as_the_current_one(harness: Harness, ways: Counter[str]):
    """A kind of window means another one from midnight on."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries?window=daily")
    harness.clock.shift(86_400)
    assert 0 == (await asked(harness, f"{VAULT}/entries?window=daily")).body["total"]
    assert 0 == ways["answer"]


async def test_a_read_is_paid_for_as_on_the_plain_way(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """What its route declares, and the time that it took here, by its address and its network; who cannot is refused."""
    charged: Counter[str] = Counter()
    charge = ReadBudget.charge

    def noted(self, caller, cost_us):
        charged[caller] += cost_us
        charge(self, caller, cost_us)

    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries/p2")
    monkeypatch.setattr(ReadBudget, "charge", noted)
    with monkeypatch.context() as patched:
        at_ns = itertools.count(0, 3_000)
        patched.setattr("time.thread_time_ns", lambda: next(at_ns))
        await asked(harness, f"{VAULT}/entries/p2")
    assert {"answer": 1, "go_on": 1} == ways
    assert [150 + 2 * 3] * 2 == list(charged.values())
    monkeypatch.setattr(ReadBudget, "wait_s", lambda self, caller: 7.0)
    short, plain = await both_ways(harness, f"{VAULT}/entries/p2")
    assert (429, "7") == (short.status, short.headers["Retry-After"])
    assert shape(plain) == shape(short)


async def test_reads_that_come_at_once_share_the_time_that_it_took_to_read_them(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """Nobody pays for the requests of those who came with them."""
    connections: list[Connection] = []
    made = Connection.connection_made

    def noted(self, transport):
        made(self, transport)
        connections.append(self)

    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries/p2")
    monkeypatch.setattr(Connection, "connection_made", noted)
    host, port = harness.authority.split(":")
    clients = [await asyncio.open_connection(host, int(port)) for _ in range(3)]

    async def are_here() -> bool:
        return len(connections) == len(clients)

    await until(are_here)
    charged_us, at_ns = noted_charges(monkeypatch), itertools.count(0, 3_000)
    with monkeypatch.context() as patched:
        patched.setattr("time.thread_time_ns", lambda: next(at_ns))
        for connection in connections:
            connection.data_received(as_bytes(harness, f"{VAULT}/entries/p2"))
        for reader, writer in clients:
            assert b"HTTP/1.1 200 OK\r\n" == await reader.readline()
            writer.close()
    assert (3, [150 + 1 + 3] * 3) == (ways["answer"], charged_us)


async def test_reads_are_counted_by_route_and_class(harness: Harness):
    """As on the plain way: a page, and that a reader has it."""
    name = 'scoregate_request_seconds_count{route="/v1/boards/{board}/entries",status="%s"}'

    async def counted() -> dict[str, float]:
        lines = [line.rpartition(" ") for line in (await harness.metrics()).splitlines()]
        values = {
            text: float(value)
            for text, _, value in lines
            if text.startswith("scoregate_request_seconds_count")
        }
        return {status: values.get(name % status, 0.0) for status in ("2xx", "3xx")}

    await filled(harness, 3)
    tag = (await asked(harness, f"{VAULT}/entries")).headers["ETag"]
    before = await counted()
    await asked(harness, f"{VAULT}/entries")
    await asked(harness, f"{VAULT}/entries", If_None_Match=tag)
    assert {status: count + 1 for status, count in before.items()} == await counted()


async def test_requests_behind_a_read_wait_their_turn(harness: Harness, ways: Counter[str]):
    """One that comes while another is under way, and two in one segment, are answered in order on one connection."""
    await filled(harness, 3)
    targets = [f"{VAULT}/entries?limit={count}" for count in (1, 2, 3, 1)]
    for target in targets:
        await asked(harness, target)
    async with RawConnection(harness.authority) as connection:
        for target in targets[:2]:
            await connection.send(as_bytes(harness, target))
        await connection.send(b"".join(as_bytes(harness, target) for target in targets[2:]))
        answers = [await connection.answer() for _ in targets]
        assert [1, 2, 3, 1] == [len(answer.body["entries"]) for answer in answers]
        await connection.send(as_bytes(harness, targets[0]))
        assert 200 == (await connection.answer()).status
    assert 1 <= ways["answer"]


async def test_a_kept_page_waits_for_the_answer_before_it(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """One that aiohttp is still at, however long it takes: answers come in the order of their requests."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries?limit=1")
    is_waiting, may_go_on, page = asyncio.Event(), asyncio.Event(), BoardReader.page

    async def held(self, *rest):
        is_waiting.set()
        await may_go_on.wait()
        return await page(self, *rest)

    monkeypatch.setattr(BoardReader, "page", held)
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(harness, f"{VAULT}/entries?limit=2"))
        await is_waiting.wait()
        await connection.send(as_bytes(harness, f"{VAULT}/entries?limit=1"))
        for _ in range(3):
            await harness.get("/v1/boards")  # the edge has had time for the other one meanwhile
        may_go_on.set()
        assert [2, 1] == [len((await connection.answer()).body["entries"]) for _ in range(2)]
    assert 0 == ways["answer"]


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("second", [f"GET {VAULT}/entries", "POST /v1/players"])
async def test_no_answer_overtakes_a_request_that_was_just_taken_up(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, second: str, turns: int
):
    """Whichever turn of the event loop it comes in: before aiohttp takes the first up, before its task begins, or after."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    connections: list[Connection] = []
    made = Connection.connection_made

    def noted(self, transport):
        made(self, transport)
        connections.append(self)

    monkeypatch.setattr(Connection, "connection_made", noted)
    monkeypatch.setattr(harness.edge.entrance, "admit_unparsed", lambda delay_s: None)
    method, target = second.split(" ")
    fields = {"Content_Length": "0"} if method == "POST" else {}

    async def is_here() -> bool:
        return bool(connections)

    async with RawConnection(harness.authority) as connection:
        await until(is_here)
        await connection.send(as_bytes(harness, f"{VAULT}/windows"))
        assert "windows" in (await connection.answer()).body
        loop, data = asyncio.get_running_loop(), as_bytes(harness, target, method, **fields)
        connections[0].data_received(as_bytes(harness, f"{VAULT}/windows"))

        def come(left: int) -> None:
            if left:
                loop.call_soon(come, left - 1)
            else:
                connections[0].data_received(data)

        loop.call_soon(come, turns)
        assert "windows" in (await connection.answer()).body
        assert "windows" not in (await connection.answer()).body


async def test_what_follows_a_part_of_a_request_belongs_to_it(harness: Harness, ways: Counter[str]):
    """A kept page's request inside the head of another is the value of a field, however the bytes come."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    begun, inner = b"GET /v1/nothing HTTP/1.1\r\nX-Note: ", as_bytes(harness, f"{VAULT}/entries")

    async def is_here() -> bool:
        return bool(pieces)

    pieces: list[bytes] = []
    received = Connection.data_received

    def noted(self, data):
        received(self, data)
        pieces.append(data)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Connection, "data_received", noted)
        async with RawConnection(harness.authority) as connection:
            await connection.send(begun)
            await until(is_here)
            await connection.send(inner)
            assert 404 == (await connection.answer()).status
            await connection.send(inner)
            assert 200 == (await connection.answer()).status
    assert [begun, inner, inner] == pieces
    assert 0 == ways["answer"]


async def test_a_change_while_a_page_is_read_counts_once(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """It is in the page already: who reads it next is not told of a rank that it has shifted twice."""
    private, around, scores = await filled(harness, 5), BoardReader.around, [5000]

    async def changed_meanwhile(self, *rest):
        while scores:
            await change(harness, private, ("p9", scores.pop()))
        return await around(self, *rest)

    monkeypatch.setattr(BoardReader, "around", changed_meanwhile)
    answers = [await asked(harness, f"{VAULT}/entries/p4/around?radius=0") for _ in range(3)]
    assert [5, 5, 5] == [answer.body["entries"][0]["rank"] for answer in answers]
    assert 1 == len({answer.headers["ETag"] for answer in answers})
    await change(harness, private, ("p8", 4000))
    assert 6 == (await asked(harness, f"{VAULT}/entries/p4/around?radius=0")).body["entries"][0]["rank"]


async def test_an_edge_that_ends_refuses_nothing_unparsed(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Whatever it answers says `Connection: close`, which a refusal at the door does not."""
    monkeypatch.setattr(harness.edge.entrance, "admit_unparsed", lambda delay_s: None)
    for is_ending, said in ((False, ""), (True, "close")):
        harness.edge.shutdown.has_begun = is_ending
        async with RawConnection(harness.authority) as connection:
            await connection.send(as_bytes(harness, f"{VAULT}/scores", "POST", Content_Length="0"))
            assert said == (await connection.answer()).headers.get("Connection", "")
    harness.edge.shutdown.has_begun = False


async def test_a_client_that_reads_nothing_is_answered_by_who_waits_for_it(
    harness: Harness, ways: Counter[str]
):
    """A connection with unsent bytes takes no short way, or those bytes would have no bound."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")

    async def is_here() -> bool:
        return bool(gates())

    def gates() -> list[Connection]:
        return [each for each in connections if each.transport is not None]

    connections: list[Connection] = []
    made = Connection.connection_made

    def noted(self, transport):
        made(self, transport)
        connections.append(self)
        self.pause_writing()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Connection, "connection_made", noted)
        async with RawConnection(harness.authority) as connection:
            await until(is_here)
            await connection.send(as_bytes(harness, f"{VAULT}/entries"))
            for _ in range(3):
                await harness.get("/v1/boards")
            assert 0 == ways["answer"]
            gates()[0].resume_writing()
            assert 200 == (await connection.answer()).status


async def test_an_edge_that_ends_answers_what_it_took_and_says_so(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """`Connection: close`, by aiohttp, for a read that was taken before the end began."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    ask = UsualReads._ask

    def ask_late(self, group, cost_ns):
        ask(self, group, cost_ns)
        harness.edge.shutdown.has_begun = True

    monkeypatch.setattr(UsualReads, "_ask", ask_late)
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(harness, f"{VAULT}/entries"))
        answer = await connection.answer()
        assert (200, "close") == (answer.status, answer.headers["Connection"])
        assert await connection.is_closed()
    assert 0 == ways["answer"]


async def test_a_bug_on_the_short_way_is_reported_and_the_plain_way_answers(
    harness: Harness, ways: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    """Nobody waits for ever, and the operator hears of it."""
    await filled(harness, 3)
    await asked(harness, f"{VAULT}/entries")
    reported: list[Any] = []
    monkeypatch.setattr(usual_reads, "report", lambda place, error, **facts: reported.append((error, facts)))

    def fail(self, page, version, moves):
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        kept = PageCache.kept
        calls: list[int] = []

        def fail_once(self, *rest):
            calls.append(1)
            return fail(self, *rest) if len(calls) == 1 else kept(self, *rest)

        broken.setattr(PageCache, "kept", fail_once)
        assert 200 == (await asked(harness, f"{VAULT}/entries")).status
    [(error, facts)] = reported
    assert (ZeroDivisionError, {"route": "/v1/boards/{board}/entries"}) == (type(error), facts)
    assert 0 == ways["answer"]


class Fake:
    """A connection that notes what it is told."""

    def __init__(self) -> None:
        self.peer, self.transport = "192.0.2.1", object()
        self.answers: list[bytes] = []
        self.given_back: list[bytes] = []

    def answer(self, answer: bytes, *, is_last: bool) -> None:
        self.answers.append(answer)

    def go_on(self, data: bytes, *, is_index_away: bool = False) -> None:
        self.given_back.append(data)


async def test_reads_of_a_moment_wait_for_one_version_of_each_window(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """However many there are; a turn begins no more than its share, and who left is told nothing."""
    await filled(harness, 3)
    takers: list[UsualReads] = []
    take, of = UsualReads.take, Versions.of

    def noted_taker(self, connection, data):
        takers.append(self)
        take(self, connection, data)

    targets = [f"{VAULT}/entries", f"{VAULT}/entries?window=daily"]
    with monkeypatch.context() as patched:
        patched.setattr(UsualReads, "take", noted_taker)
        for target in targets:
            await asked(harness, target)
    await asked(harness, targets[0])
    assert targets[0] == list(takers[0]._pages._pages)[-1]  # what was read last is let go last
    asked_for: list[str] = []

    def noted_window(self, window):
        asked_for.append(window)
        return of(self, window)

    monkeypatch.setattr(Versions, "of", noted_window)
    monkeypatch.setattr(takers[0]._waiting, "_per_turn", 6)
    fakes = [Fake() for _ in range(12)]
    fakes[10].transport = None
    for number, fake in enumerate(fakes[:10]):
        takers[0].take(cast("Connection", fake), as_bytes(harness, targets[number % 2]))
    for fake in fakes[10:]:
        takers[0].take(cast("Connection", fake), b"GET /v1/boards/vault HTTP/1.1\r\n\r\n")

    async def are_answered() -> bool:
        return all(fake.answers for fake in fakes[:10])

    await until(are_answered)
    assert [1] * 10 + [0, 0] == [len(fake.answers) for fake in fakes]
    assert [0] * 11 + [1] == [len(fake.given_back) for fake in fakes]
    assert (4, 2) == (len(asked_for), len(set(asked_for)))
