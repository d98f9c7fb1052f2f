"""A steward's looks for work: none is repeated that can find nothing new, and none is missed that can."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert

from gateway.ledger.derived.board_duties import BoardDuty, DueDuty, noted
from gateway.ledger.ledger import Ledger
from gateway.ledger.schema import outbox
from gateway.ledger.transaction import Query
from gateway.runtime.lanes import ALL_LANES
from gateway.steward import duties, fencing
from gateway.steward.looks import LOOK_MS, REST_MS, Looks
from gateway.steward.pauses import AGAIN_S, BUSY_S, POLL_S, SOON_S
from policies.errors import IndexUnavailable
from tests.support.clock import ShiftedClock
from tests.support.deployment import eventually
from tests.support.duty import Duty
from tests.support.ledger import new_submission

_PUT = Query(insert(outbox))


class Versions:
    """A ledger of which only the version is asked."""

    def __init__(self) -> None:
        self.now = 0

    async def version(self) -> object:
        return self.now


class Desk:
    """Looks at something that may be there, and counts them."""

    def __init__(self) -> None:
        self.ledger, self.clock = Versions(), ShiftedClock()
        self.looks = Looks(self.ledger.version, longest_ms=LOOK_MS, clock=self.clock, next_due=self.next_due)
        self.found, self.count, self.commits_meanwhile = 0, 0, 0
        self.due_at_ms: int | None = None

    async def look(self) -> int:
        self.count += 1
        self.ledger.now += self.commits_meanwhile
        return self.found

    async def next_due(self) -> int | None:
        return self.due_at_ms

    async def at(self) -> int:
        return await self.looks.at(self.look)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_look_that_found_nothing_is_not_repeated_until_a_commit(desk: Desk):
    """The next one after any commit is a look again."""
    assert [0, 0, 0] == [await desk.at() for _ in range(3)]
    assert 1 == desk.count
    desk.ledger.now += 1
    desk.found = 7
    assert 7 == await desk.at()


async def test_a_look_that_found_something_is_repeated(desk: Desk):
    """What it left may be still there, whether anything is committed or not."""
    desk.found = 7
    assert [7, 7] == [await desk.at() for _ in range(2)]
    assert 2 == desk.count


async def test_what_is_committed_during_a_look_is_looked_at(desk: Desk):
    """The look may have missed it."""
    desk.commits_meanwhile = 1
    await desk.at()
    desk.commits_meanwhile = 0
    await desk.at()
    await desk.at()
    assert 2 == desk.count


@pytest.mark.parametrize("seconds", [LOOK_MS / 1000, -3600], ids=["time passed", "the clock was put back"])
async def test_a_look_is_repeated_when_time_may_have_brought_work(desk: Desk, seconds: float):
    """What is due later needs no commit, and a clock that leapt does not say how long ago a look was."""
    await desk.at()
    desk.clock.shift(seconds)
    await desk.at()
    assert 2 == desk.count


async def test_a_look_is_repeated_when_the_next_work_comes_due(desk: Desk):
    """Not before; and at once if it is due already, such as what waits for a Redis that is away."""
    desk.clock.stop()
    desk.due_at_ms = desk.clock() + 300_000
    await desk.at()
    desk.clock.shift(LOOK_MS / 1000)
    desk.due_at_ms = desk.clock() + LOOK_MS // 2
    await desk.at()
    assert 2 == desk.count  # nothing is due for long, but a look is not put off for longer than usual
    await desk.at()
    assert 2 == desk.count
    desk.clock.shift(LOOK_MS / 2000)
    await desk.at()
    await desk.at()
    assert 4 == desk.count


async def test_a_look_that_failed_is_repeated(desk: Desk):
    """Nobody knows what it would have found, also when the one before found nothing."""

    async def failing() -> int:
        raise ZeroDivisionError

    await desk.at()
    desk.clock.shift(LOOK_MS / 1000)
    with pytest.raises(ZeroDivisionError):
        await desk.looks.at(failing)
    desk.clock.shift(-LOOK_MS / 1000)
    await desk.at()
    assert 2 == desk.count


async def test_an_idle_steward_asks_once_what_is_due_and_hands_out_a_run_at_once(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """Twenty rounds a second cost one read in all while nothing is committed."""
    reads = _counted_reads(duty.ledger, monkeypatch)
    monkeypatch.setattr(duty.steward._dispatcher._looks, "_clock", lambda: 0)
    assert [0, 0, 0] == [await duty.steward.dispatch() for _ in range(3)]
    assert 1 == len(reads)
    await duty.append("run-1")
    assert 1 == await duty.steward.dispatch()


async def test_what_another_clock_made_due_a_little_later_is_handed_out_then(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """A run from an edge whose clock is ahead of the steward's does not wait a second, and costs one read till then."""
    duty.clock.stop()
    await duty.ledger.append(new_submission("run-1", at_ms=duty.clock() + 300))
    reads = _counted_reads(duty.ledger, monkeypatch)
    assert 0 == await duty.steward.dispatch()
    assert 1 == len(reads)
    duty.clock.shift(0.299)
    assert 0 == await duty.steward.dispatch()
    duty.clock.shift(0.001)
    assert 1 == await duty.steward.dispatch()


async def test_a_duty_knows_when_it_is_due_next(duty: Duty):
    """The first change to show, run to recall, and top to look at on lanes of its own; nothing if there is none."""
    steward = duty.steward
    due = (steward._in_outbox.next_projection, steward._in_outbox.next_recall, steward._in_ledger.next_top)
    assert [None] * 3 == [await each() for each in due]
    for seq, kind, due_at_ms in (
        (1, "project", 70),
        (2, "project", 50),
        (3, "recall", 60),
        (4, "verify", 40),
    ):
        row = {"seq": seq, "submission_id": f"s{seq}", "board": "tiny", "player": "p", "handed_out": 0}
        row |= {"kind": kind, "priority": 0, "due_at_ms": due_at_ms}
        await duty.ledger.write(lambda tx, row=row: tx.run(_PUT, **row))
    tops = [DueDuty(BoardDuty.TOP, "tiny", "", 80, 1, 1), DueDuty(BoardDuty.AUDIT, "tiny", "", 30, 1, 1)]
    await duty.ledger.write(noted(tops))
    assert [50, 60, 80] == [await each() for each in due]
    steward.leases.is_kept = True  # and it has none
    assert await steward._in_ledger.next_top() is None


async def test_a_duty_that_found_nothing_rests_until_a_commit(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """It goes on asking whether anything was committed, and works once that is so."""
    calls, rounds, version = [], [], duty.ledger.version

    async def idle() -> int:
        calls.append(1)
        return 0

    async def counted() -> object:
        rounds.append(1)
        return await version()

    monkeypatch.setattr(duty.ledger, "version", counted)
    running = asyncio.create_task(duty.steward._for_ever(idle, 0.01, rest_ms=3_600_000))
    await eventually(lambda: len(rounds) > 5)
    assert 1 == len(calls)
    await duty.append("run-1")
    await eventually(lambda: len(calls) > 1)
    running.cancel()


async def test_a_duty_that_found_nothing_looks_at_lanes_that_are_its_own_since(duty: Duty):
    """It rested with a version of the ledger in which they were its own already."""
    calls: list[frozenset[int]] = []
    leases = duty.steward.leases
    leases.is_kept = True  # and it has none

    async def idle() -> int:
        calls.append(leases.lanes_held())
        return 0

    running = asyncio.create_task(duty.steward._for_ever(idle, 0.01, rest_ms=3_600_000))
    await eventually(lambda: bool(calls))
    leases.is_kept = False  # and it works on all of them
    await eventually(lambda: len(calls) > 1)
    assert [frozenset(), ALL_LANES] == calls
    running.cancel()


async def test_a_duty_that_found_something_looks_more_often_for_a_while(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """As long as it is likely to find more; after that as seldom as before, and the others as they always do."""
    pauses: list[float] = []
    now_s, found = [100.0], [0, 3, 0, 0, 0, 2, 0]

    async def work() -> int:
        return found.pop(0)

    async def noted(pause_s: float) -> None:
        pauses.append(pause_s)
        now_s[0] += 0.4
        if not found:
            raise asyncio.CancelledError

    monkeypatch.setattr(duty.steward.leases, "pause", noted)
    monkeypatch.setattr(duties, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    for busy_s in (1.0, 0.0):
        found[:] = [0, 3, 0, 0, 0, 2, 0]
        with suppress(asyncio.CancelledError):
            await duty.steward._for_ever(work, 7.0, busy_s=busy_s)
    soon, usual = (
        [7.0, SOON_S, SOON_S, SOON_S, 7.0, SOON_S, SOON_S],
        [7.0, POLL_S, 7.0, 7.0, 7.0, POLL_S, 7.0],
    )
    assert soon + usual == pauses


async def test_a_duty_that_failed_is_soon_tried_again(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Redis was away for a moment: readiness does not say so for a minute. A hurried duty keeps its own pause."""
    pauses: list[float] = []
    found: list[Exception | int] = []

    async def work() -> int:
        outcome = found.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def noted(pause_s: float) -> None:
        pauses.append(pause_s)
        if not found:
            raise asyncio.CancelledError

    monkeypatch.setattr(duty.steward.leases, "pause", noted)
    for usual_s in (60.0, 1.0):
        found[:] = [IndexUnavailable("away"), IndexUnavailable("away"), 0]
        with suppress(asyncio.CancelledError):
            await duty.steward._for_ever(work, usual_s)
    assert [AGAIN_S, AGAIN_S, 60.0, 1.0, 1.0, 1.0] == pauses


async def test_duties_rest_as_long_as_what_they_wait_for_allows(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """What may be due by time or by Redis is looked at each second, and nothing rests that has no reason to."""
    rests: dict[str, tuple[int, str]] = {}

    busy_s: dict[str, float] = {}

    async def noted(
        work: Any,
        _pause_s: float,
        _lease: object = None,
        rest_ms: int = 0,
        next_due: Any = None,
        is_busy_s: float = 0.0,
    ) -> None:
        rests[work.__name__] = (rest_ms, next_due.__qualname__ if next_due else "")
        busy_s[work.__name__] = is_busy_s

    async def kept() -> None:
        pass

    monkeypatch.setattr(duty.steward, "_for_ever", noted)
    monkeypatch.setattr(duty.steward.leases, "keep", kept)
    monkeypatch.setattr(duty.steward.presence, "keep", kept)
    await duty.steward.run()
    assert {
        "derive_from_changes": (LOOK_MS, ""),
        "derive_from_log": (REST_MS, ""),
        "deliver": (LOOK_MS, "Sender.next_due"),
        "project": (LOOK_MS, "OutboxDuties.next_projection"),
        "recall": (REST_MS, "OutboxDuties.next_recall"),
        "see_to_top": (REST_MS, "LedgerDuties.next_top"),
        "assess_cases": (REST_MS, "FairTurns.next_due"),
        "keep_targets": (REST_MS, "TargetKeeper.next_due"),
        "keep_bans": (REST_MS, "BanKeeper.next_due"),
        "keep_batches": (REST_MS, "BatchKeeper.next_due"),
        "roll_up": (REST_MS, "FairTurns.next_due"),
    } == {name: rest for name, rest in rests.items() if rest != (0, "")}
    assert {"dispatch", "reconcile", "see_to_cold", "seal", "end_reveals"} < rests.keys()
    assert {"dispatch": BUSY_S} == {name: seconds for name, seconds in busy_s.items() if seconds}
    assert (1_000, 5_000, LOOK_MS) == (LOOK_MS, REST_MS, duty.steward._dispatcher._looks._longest_ms)


def _counted_reads(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    reads, read = [], ledger.read

    async def counted(*arguments: Any) -> Any:
        reads.append(arguments)
        return await read(*arguments)

    monkeypatch.setattr(ledger, "read", counted)
    return reads


async def test_duties_share_a_version_for_a_moment(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Who dispatches asks for it twenty times a second, and the others go by that, but not by an older one."""
    ledger, now_s, versions = duty.steward._ledger, [100.0], Versions()
    monkeypatch.setattr(duty.ledger, "version", versions.version)
    monkeypatch.setattr(fencing, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    versions.now = 1
    assert 1 == await ledger.recent_version()
    versions.now = 2
    assert 1 == await ledger.recent_version()
    assert [2, 2] == [await ledger.version(), await ledger.recent_version()]
    versions.now = 3
    now_s[0] += 2 * fencing.RECENT_S
    assert 3 == await ledger.recent_version()

    async def slow() -> object:
        answer = await versions.version()
        now_s[0] += 2 * fencing.RECENT_S
        return answer

    monkeypatch.setattr(duty.ledger, "version", slow)
    assert 3 == await ledger.version()
    versions.now = 4
    assert 4 == await ledger.recent_version(), "an answer is as old as its question"
