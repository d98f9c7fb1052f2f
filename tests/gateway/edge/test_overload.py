"""What cannot be answered in time is refused at once, and never stored: on either ledger, whatever the machine's speed."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop

from gateway.edge import connections
from gateway.edge.admission.early_refusals import is_whole_request, is_write, refusal
from gateway.edge.admission.shedding import ALWAYS, VISIT, Entrance, Visit, begin_visit, overload_problem
from gateway.edge.problems import Problem, problem_response
from gateway.ledger import queries
from gateway.ledger.writes import GroupedWrites, QueuedAppend
from gateway.runtime.deadline import WAITER
from gateway.runtime.settings import Settings
from policies.errors import LedgerOverloaded, LedgerUnavailable
from tests.support.attack import honest, issued, until
from tests.support.harness import Harness, running_harness
from tests.support.ledger import new_submission
from tests.support.metrics import counts, metric
from tests.support.raw import RawConnection, as_bytes
from tests.support.stores import Store, open_in

WITHIN_S = 1.2
QUEUED_S = WITHIN_S / 6
"""The part of it that may be spent in the queue."""


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def busy(
    clock: Clock, *, a_second: int, seconds: float = 2.0, index_timeout_s: float = 0.0
) -> tuple[Entrance, list[Visit]]:
    """An entrance behind which so many a second are dealt with, and twice as many come: with who is under way."""
    entrance = Entrance(WITHIN_S, index_timeout_s=index_timeout_s, monotonic_s=clock)
    under_way: list[Visit] = []
    for _ in range(int(a_second * seconds)):
        clock.s += 1 / a_second
        for _ in range(2):
            if not entrance.is_full():
                visit = entrance.visit()
                visit.begin()
                under_way.append(visit)
        under_way.pop(0).leave()
    return entrance, under_way


@pytest.mark.parametrize("a_second", [200, 2_000])
def test_F21_as_many_are_let_in_as_leave_in_time(a_second: int):
    """At twice the capacity the queue is as long as its time and no longer, on a slow machine and on a fast one."""
    entrance, under_way = busy(Clock(), a_second=a_second)
    assert len(under_way) == pytest.approx(max(a_second * QUEUED_S, ALWAYS), rel=0.2)
    with pytest.raises(Problem) as refused:
        [entrance.visit().begin() for _ in range(a_second)]
    assert (503, True) == (refused.value.kind.status, 1 <= int(refused.value.headers["Retry-After"]) <= 5)


def test_F21_the_time_that_redis_may_take_is_added_to_the_time_to_answer():
    """To that of the queue too: while Redis hangs, an edge does not refuse what it can still answer."""
    clock = Clock()
    entrance, under_way = busy(clock, a_second=200, seconds=4.0, index_timeout_s=0.5)
    assert clock.s + WITHIN_S + 0.5 == entrance.until_s()
    assert len(under_way) == pytest.approx(200 * (QUEUED_S + 0.5), rel=0.2)


def test_F21_a_second_in_which_nobody_leaves_outweighs_all_that_left_before():
    """It counts as much as the windows that fit into it: the queue of a fast edge is no measure for one that hangs."""
    clock = Clock()
    entrance, under_way = busy(clock, a_second=1_000)
    for visit in under_way[60:]:
        visit.leave()
    clock.s += 1.0
    assert entrance.is_full()


def test_F21_a_burst_on_a_busy_edge_is_no_overload_while_nobody_has_waited():
    """However many come at once: only when the oldest has waited for a twelfth of the time are they a queue."""
    clock = Clock()
    entrance, under_way = busy(clock, a_second=200)
    for _ in range(500):
        entrance.visit(0.0).begin()
    for visit in under_way:
        visit.leave()
    clock.s += WITHIN_S / 13
    assert not entrance.is_full()
    clock.s += WITHIN_S / 13
    assert entrance.is_full()


def test_F21_who_is_on_the_way_from_the_door_makes_an_edge_busy():
    """Sixteen writes make it busy, whether they have come in or are still expected."""
    entrance = Entrance(WITHIN_S, monotonic_s=Clock())
    for _ in range(ALWAYS - 1):
        entrance.visit().begin()
    assert not entrance.is_busy
    entrance.admit_unparsed(float)
    assert entrance.is_busy


def test_F21_a_write_that_goes_another_way_keeps_its_deadline_and_is_counted_once():
    """What leaves the short way for the usual one is expected there as old as it is, and leaves only once."""
    clock = Clock()
    entrance = Entrance(WITHIN_S, monotonic_s=clock)
    first = entrance.visit(0.0)
    first.begin()
    until_s = first.until_s
    clock.s += 0.3
    waited_s = first.hand_over()
    first.leave()
    assert waited_s == pytest.approx(0.3)
    second = entrance.visit(waited_s)
    entrance.forget_expected()
    second.begin()
    assert until_s == pytest.approx(second.until_s)
    second.leave()
    assert not entrance._under_way


def test_F21_the_time_to_answer_begins_once():
    """A handler that asks for it again gets no more of it."""
    clock = Clock()
    visit = Entrance(WITHIN_S, monotonic_s=clock).visit()
    request: Any = {VISIT: visit}
    begin_visit(request)
    clock.s += 0.5
    begin_visit(request)
    assert clock.s - 0.5 + WITHIN_S == visit.until_s
    begin_visit(cast("Any", {}))  # a read has no visit


def test_F21_who_was_let_in_at_the_door_counts_until_it_has_come():
    """Between the door and the request nobody is under way yet; else all that comes in that moment would be let in."""
    entrance, under_way = busy(Clock(), a_second=200)
    for visit in under_way[20:]:
        visit.leave()
    let_in = [entrance.admit_unparsed(float) is not None for _ in range(100)]
    assert 20 + sum(let_in) == pytest.approx(200 * QUEUED_S, rel=0.2)
    assert entrance.admit_unparsed(float) is None
    entrance.forget_expected()
    assert 0.0 == entrance.admit_unparsed(float)


def test_F21_what_waited_unread_is_older_than_it_seems():
    """It has less time left for the answer; with none to speak of it is refused, though nothing else is under way."""
    clock = Clock()
    entrance = Entrance(WITHIN_S, monotonic_s=clock)
    assert [0.2, None] == [entrance.admit_unparsed(lambda age=age: age) for age in (0.2, 0.4)]
    entrance.forget_expected()
    visit = entrance.visit(0.2)
    assert clock.s + WITHIN_S - 0.2 == visit.until_s
    clock.s += 3.0  # its body comes late, which is not for us to answer
    visit.begin()
    assert clock.s + WITHIN_S - 0.2 == visit.until_s


def test_F21_who_is_refused_is_counted_wherever_that_is():
    """At the door as after it: operators see that it is the edge that sheds."""
    entrance, _ = busy(Clock(), a_second=200)
    while entrance.admit_unparsed(float) is not None:
        pass
    before = shed()
    assert entrance.admit_unparsed(float) is None
    with pytest.raises(Problem):
        entrance.visit()
    assert 2 == shed() - before


def shed() -> float:
    return metric("scoregate_shed_total", place="entrance")


def test_F21_recovery_is_at_once():
    """When the queue is empty everybody is let in: what was measured before is forgotten."""
    clock = Clock()
    entrance, under_way = busy(clock, a_second=200)
    for visit in under_way:
        visit.leave()
    assert not entrance.is_full()
    for _ in range(500):
        entrance.visit().begin()


def test_F21_a_burst_after_a_quiet_hour_is_no_overload():
    """That nobody left while nobody was there says nothing: how fast others leave is measured anew."""
    clock = Clock()
    entrance, under_way = busy(clock, a_second=200)
    for visit in under_way:
        visit.leave()
    clock.s += 3600
    for _ in range(2 * ALWAYS):
        entrance.visit().begin()
    clock.s += WITHIN_S / 8  # for longer than nobody is refused, and before it is known how many leave
    assert not entrance.is_full()


def test_F21_a_burst_is_no_overload():
    """A burst that has only come is let in whole, however large: nothing has waited yet."""
    clock = Clock()
    entrance = Entrance(WITHIN_S, monotonic_s=clock)
    for _ in range(5_000):
        entrance.visit().begin()
    clock.s += 0.05
    assert not entrance.is_full()


def test_F21_what_stands_still_lets_nobody_else_in():
    """Where nobody leaves at all, a few are let in, and then no more."""
    clock = Clock()
    entrance = Entrance(WITHIN_S, monotonic_s=clock)
    for _ in range(ALWAYS):
        entrance.visit().begin()
    clock.s += 1.0
    assert entrance.is_full()


def test_F21_a_slow_client_or_bucket_keeps_nobody_out():
    """Who has not sent its body yet, or waits for a store of recordings, is not under way, and loses none of its time."""
    clock = Clock()
    entrance = Entrance(WITHIN_S, monotonic_s=clock)
    for _ in range(1_000):
        entrance.visit()
    visits = [entrance.visit() for _ in range(100)]
    for visit in visits:
        visit.begin()
    until_s = visits[0].until_s
    waits = [visit.aside() for visit in visits]
    for each in waits:
        each.__enter__()
    clock.s += 5.0
    assert not entrance.is_full()
    for each in waits:
        each.__exit__(None, None, None)
    assert until_s + 5.0 == visits[0].until_s
    visits[0].leave()
    assert math.inf == visits[0].until_s


class Held:
    """Somebody who waits for an answer until a moment."""

    __slots__ = ("until_s",)

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s


async def test_F21_what_waited_too_long_is_not_stored(store: Store):
    """What is too old when its turn comes is refused and never in the ledger; the same bytes are taken afterwards."""
    async with open_in(store) as ledger:
        WAITER.set(Held(-math.inf))
        with counts(2, "scoregate_shed_total", place="ledger"):
            with pytest.raises(LedgerOverloaded):
                await ledger.append(new_submission("late"))
            with pytest.raises(LedgerOverloaded):
                await ledger.write(queries.newest_seq())
        assert not ledger.is_refusing
        WAITER.set(None)
        assert await ledger.read(queries.receipt("late")) is None
        assert (await ledger.append(new_submission("late"))).is_new


async def test_a_ledger_that_could_not_store_a_submission_is_refusing(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Whoever asks is told that the edge is not ready, until the next submission is stored."""

    def refuse(_: object, write: QueuedAppend) -> None:
        write.answer.set_exception(LedgerUnavailable("no disk"))

    async with open_in(store) as ledger:
        with monkeypatch.context() as broken:
            broken.setattr(GroupedWrites, "_enqueue", refuse)
            with pytest.raises(LedgerUnavailable):
                await ledger.append(new_submission("run"))
        assert ledger.is_refusing
        assert (await ledger.append(new_submission("run"))).is_new
        assert not ledger.is_refusing


async def test_F21_a_full_edge_refuses_before_it_reads(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Refused at the door: 503 with Retry-After, the connection stays, nothing is stored; then the same bytes are taken."""
    run = issued(harness)
    raw = as_bytes(honest(harness, run), harness.authority)
    monkeypatch.setattr(Entrance, "is_full", lambda _: True)
    async with RawConnection(harness.authority) as connection:
        await connection.send(raw)
        refused = await connection.answer()
        await connection.send(b"GET /livez HTTP/1.1\r\nHost: " + harness.authority.encode() + b"\r\n\r\n")
        assert 200 == (await connection.answer()).status
    async with RawConnection(harness.authority) as connection:  # which ends if the answer is before the body
        await connection.send(raw[:-5])
        await asyncio.sleep(0)
        await connection.send(raw[-5:])
        in_pieces = await connection.answer()
    monkeypatch.undo()
    async with RawConnection(harness.authority) as connection:
        await connection.send(raw)
        accepted = await connection.answer()
    for answer in (refused, in_pieces):
        assert (503, "temporary-reduced-capacity") == (answer.status, answer.problem)
        assert 1 <= int(answer.headers["Retry-After"]) <= 5
    assert (202, None) == (accepted.status, accepted.headers.get("Idempotency-Replayed")), accepted.raw


@pytest.mark.skipif(sys.platform != "linux", reason="no other kernel says how long bytes have waited")
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_F21_an_edge_that_reads_late_refuses_what_grew_old_meanwhile(
    settings: Settings, loop: Callable[[], asyncio.AbstractEventLoop]
):
    """Though it has nothing else to do: its client has waited for as long as an answer may take. The next one is taken."""
    changed = settings.model_copy(update={"answer_within_s": 1.0, "redis_timeout_ms": 1_000})

    async def answers() -> list[int]:
        async with running_harness(changed) as harness, RawConnection(harness.authority) as connection:
            raw = as_bytes(honest(harness, issued(harness)), harness.authority)
            statuses = []
            for pause_s in (1.2, 0.0):
                await connection.send(raw)
                time.sleep(pause_s)  # noqa: ASYNC251 - the loop of the edge is what has to stand still
                statuses.append((await connection.answer()).status)
            return statuses

    with asyncio.Runner(loop_factory=loop) as runner:
        assert [503, 202] == runner.run(answers())


async def test_F21_who_passes_the_door_and_never_comes_in_is_expected_no_more(harness: Harness):
    """A write that the parser cannot read was let in by its first line: its place ends with its connection."""
    entrance = harness.edge.entrance

    async def is_nobody_expected() -> bool:
        return not entrance._expected

    for _ in range(3):
        async with RawConnection(harness.authority) as connection:
            await connection.send(b"POST /v1/players HTTP/1.1\r\nHost: a\r\nno field\r\n\r\n")
            assert "malformed-request" == (await connection.answer()).problem
    await until(is_nobody_expected)


async def test_F21_a_write_that_is_refused_is_under_way_no_more(harness: Harness):
    """Before its body is read or for what is in it: what stayed would make the edge seem full until it is restarted."""
    paths = ("/v1/nowhere", "/v1/players")
    refused = [await harness.post(path, {"no such": "field"}) for path in paths]
    assert [404, 422] == [answer.status for answer in refused], [answer.raw for answer in refused]
    assert not harness.edge.entrance._under_way


async def test_F21_a_connection_that_was_busy_is_refused_at_the_door_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A whole request that had to wait for another leaves nothing in the parser: later ones are refused unparsed."""
    refused: list[bytes] = []

    def noted(fields: bytes) -> bytes:
        refused.append(refusal(fields))
        return refused[-1]

    monkeypatch.setattr(connections, "refusal", noted)
    raw = as_bytes(honest(harness, issued(harness)), harness.authority)
    read = f"GET /readyz HTTP/1.1\r\nHost: {harness.authority}\r\n\r\n".encode()
    asked, asking = asyncio.Event(), asyncio.Event()

    async def slow() -> tuple[bool, bool]:
        asked.set()
        await asking.wait()
        return True, True

    monkeypatch.setattr(harness.edge.probes, "answers", slow)
    async with RawConnection(harness.authority) as connection:
        await connection.send(raw)
        assert 202 == (await connection.answer()).status
        await connection.send(read)
        await asked.wait()
        monkeypatch.setattr(Entrance, "is_full", lambda _: True)
        await connection.send(raw)
        async with RawConnection(harness.authority) as other:  # what came before it has been taken
            await other.send(raw)
            assert 503 == (await other.answer()).status
        asking.set()
        assert [200, 503] == [(await connection.answer()).status for _ in range(2)]
        before = len(refused)
        await connection.send(raw)
        assert 503 == (await connection.answer()).status
    assert (1, 2) == (before, len(refused))


WHOLE = [
    b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
    b"DELETE /v1/x HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PUT /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
    b"POST /v1/x HTTP/1.1\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nab",
]
NOT_WHOLE = [
    b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\na",
    b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nabc",
    b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    b"POST /v1/x HTTP/1.1\r\nContent-Length : 2\r\n\r\nab",
    b"POST /v1/x HTTP/1.1\r\nContent-Length: +2\r\n\r\nab",
    b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nConnection: keep-alive, upgrade\r\nContent-Length: 0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nX: ",
]
ANNOUNCED = [
    b"Content-Length: 2",
    b"Content-Length : 2",
    b"Content-Length:\t2 ",
    b"CONTENT-LENGTH: +2",
    b"content-length: 2, 2",
    b"Content-Length: 0x2",
    b"Content-Length: 2;",
    b"Content-Length:\r\n 2",
    b"Content-Length: 0000000002",
    b"Transfer-Encoding: chunked",
    b"transfer-encoding:chunked",
]
"""What may announce a body to somebody, in whatever spelling."""


def test_F21_a_head_whose_body_is_still_to_come_is_not_whole():
    """Not in any spelling of its length: what comes next would be read as the next request."""
    heads = [b"POST /v1/x HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n" % line for line in ANNOUNCED]
    assert [False] * len(heads) == [is_whole_request(head) for head in heads]


def test_F21_only_a_whole_plain_request_is_refused_at_the_door():
    """Whatever might end elsewhere than it seems goes through the parser: nothing can be smuggled past it."""
    assert [True] * len(WHOLE) == [is_whole_request(each) and is_write(each) for each in WHOLE]
    assert [False] * len(NOT_WHOLE) == [is_whole_request(each) for each in NOT_WHOLE]
    assert not is_write(b"GET /v1/x HTTP/1.1\r\n\r\n")
    head, _, body = refusal().partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head


def test_F21_a_refusal_at_the_door_is_the_problem_that_any_other_is():
    """With the same type, fields and count; and each asks for another time, so that not all come again at once."""
    with counts(200, "scoregate_problems_total", type="temporary-reduced-capacity"):
        refusals = [refusal().partition(b"\r\n\r\n") for _ in range(200)]
    assert {"1", "2", "3", "4", "5"} == {overload_problem().headers["Retry-After"] for _ in range(200)}
    ours = problem_response(overload_problem())
    assert {ours.body} == {body for *_, body in refusals}
    heads = [head.decode().split("\r\n") for head, *_ in refusals]
    assert {"HTTP/1.1 503 Service Unavailable"} == {line for line, *_ in heads}
    fields = [dict(field.split(": ") for field in found) for _, *found in heads]
    assert {"1", "2", "3", "4", "5"} == {each.pop("Retry-After") for each in fields}
    expected = {name: value for name, value in ours.headers.items() if name != "Retry-After"}
    assert all(expected | {"Content-Length": str(len(ours.body or b""))} == each for each in fields)
