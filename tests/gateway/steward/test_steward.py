"""The steward: hands due work to RQ until it is settled, shows what a crash left unshown, repairs the index."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import delete, insert
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger import queries
from gateway.ledger.records import OutboxRow
from gateway.ledger.schema import outbox
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Query
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event
from gateway.shared_records import Change
from gateway.steward import outbox_duties
from gateway.steward.dispatch import JOB_KEPT_S, JOB_TIMEOUT_S, QUEUED_JOBS, RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index import reconcile
from gateway.steward.ledger_duties import ABSENT_MS
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Policies
from tests.support.clock import ShiftedClock
from tests.support.deployment import eventually
from tests.support.duty import Duty
from tests.support.ledger import rows
from tests.support.valkey import running_valkey
from validators.verification_priority import HARMS, UNASSESSED, URGENT

_PUT, _TAKE = Query(insert(outbox)), Query(delete(outbox))


async def test_due_submissions_are_handed_to_rq_in_batches(duty: Duty):
    """Every pending submission is in a job, once, by id; and is not handed out again at once."""
    await duty.append(*(f"run-{n}" for n in range(40)))

    assert 40 == await duty.steward.dispatch()
    assert 0 == await duty.steward.dispatch()

    assert [16, 16, 8] == [len(job) for job in duty.queued()]
    assert sorted(f"run-{n}" for n in range(40)) == sorted(each for job in duty.queued() for each in job)
    lives = {(job.timeout, job.ttl, job.result_ttl, job.failure_ttl) for job in duty.queue.jobs}
    assert {(JOB_TIMEOUT_S, JOB_KEPT_S, 0, JOB_KEPT_S)} == lives, "Redis keeps one that nobody takes for ever"


async def test_I15_losing_every_rq_key_loses_nothing(duty: Duty):
    """What was queued and is not settled comes again when its time has come; what is settled does not."""
    await duty.append("run-1", "run-2", "run-3")
    await duty.steward.dispatch()
    await duty.promote("run-2")
    duty.redis.delete(*duty.redis.keys("rq:*"))

    duty.clock.shift(29)
    assert 0 == await duty.steward.dispatch()
    duty.clock.shift(2)
    assert 2 == await duty.steward.dispatch()
    assert {"run-1", "run-3"} == {each for job in duty.queued() for each in job}


async def test_I14_what_a_worker_took_up_in_vain_goes_alone(duty: Duty):
    """A submission that may be what kills workers is not batched with others; one that only waited long is."""
    await duty.append("run-1", "run-2", "run-3", "run-4")
    await duty.steward.dispatch()
    now_ms = duty.clock()
    await duty.ledger.write(work.lease_all(["run-1", "run-3"], now_ms=now_ms, lease_ms=1))
    duty.redis.delete(*duty.redis.keys("rq:*"))
    duty.clock.shift(31)
    await duty.append("fresh-1", "fresh-2")
    await duty.steward.dispatch()
    assert [["run-1"], ["run-2", "run-4", "fresh-1", "fresh-2"], ["run-3"]] == duty.queued()


async def test_I15_a_full_queue_takes_no_more(duty: Duty):
    """RQ's part of a backlog is bounded; the rest waits in the ledger, and goes on as room comes."""
    await duty.append(*(f"run-{n}" for n in range(QUEUED_JOBS * 64 + 5)))
    while await duty.steward.dispatch():
        pass
    assert QUEUED_JOBS == len(duty.queued())

    duty.queue.pop_job_id()
    assert 5 == await duty.steward.dispatch()


async def test_I01_dispatch_waits_for_redis(own_settings: Settings, duty: Duty):
    """With the queue's server gone nothing is marked as handed out; with it back all of it is."""
    with running_valkey() as own:
        steward = duty.steward
        steward._dispatcher._jobs = RqJobs(Redis.from_url(own.url, socket_timeout=1))
        await duty.append("run-1")
        own.kill()
        assert 0 == await steward.dispatch()
        own.start()
        assert 1 == await steward.dispatch()


async def test_I01_what_the_queue_did_not_take_is_due_at_once(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Though it had room a moment before: nothing waits as if a worker had it."""

    async def refuse(*_: Any) -> bool:
        return False

    await duty.append("run-1")
    with monkeypatch.context() as patch:
        patch.setattr(duty.steward._dispatcher._jobs, "put", refuse)
        assert 0 == await duty.steward.dispatch()
    assert 1 == await duty.steward.dispatch()


async def test_a_round_with_nothing_due_costs_one_read_and_asks_no_queue(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """There are twenty a second in an idle steward; whatever kind of work comes due, the next round sees it."""
    asked: list[str] = []
    read, rooms = duty.ledger.read, duty.steward._dispatcher._jobs.rooms

    async def reading(*arguments: Any) -> Any:
        asked.append("ledger")
        return await read(*arguments)

    async def asking() -> Any:
        asked.append("queue")
        return await rooms()

    monkeypatch.setattr(duty.ledger, "read", reading)
    monkeypatch.setattr(duty.steward._dispatcher._jobs, "rooms", asking)
    assert 0 == await duty.steward.dispatch()
    assert ["ledger"] == asked
    due_ms = duty.clock() + 60_000
    kinds = [("verify", UNASSESSED), *(("verify", harm) for harm in HARMS), ("recheck", URGENT), ("audit", 0)]
    for seq, (kind, harm) in enumerate(kinds, start=1):
        row = {"seq": seq, "submission_id": f"s{seq}", "board": "tiny", "player": "p", "handed_out": 0}
        later = {"kind": kind, "priority": harm, "due_at_ms": due_ms}
        await duty.ledger.write(lambda tx, put=row | later: tx.run(_PUT, **put))
        assert due_ms == await read(work.next_due_for_workers)
        await duty.ledger.write(lambda tx: tx.run(_TAKE))


async def test_work_of_boards_without_a_policy_is_in_nobodys_way(duty: Duty):
    """A board whose policy was taken away keeps its work in the ledger; other boards' work passes it by."""
    await duty.append(*(f"old-{n}" for n in range(300)), board="gone")
    await duty.append("run-1")
    for _ in range(3):
        await duty.steward.dispatch()
    assert [["run-1"]] == duty.queued()

    old = {
        row[0] for row in rows(duty.settings.ledger_path, "SELECT due_at_ms FROM outbox WHERE board = 'gone'")
    }
    assert all(due > duty.clock() + ABSENT_MS - 60_000 for due in old)
    assert 300 == rows(duty.settings.ledger_path, "SELECT count(*) FROM outbox WHERE board = 'gone'")[0][0]


async def test_B04_a_board_whose_index_fails_keeps_no_other_from_being_shown(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """What is due on other boards is shown and struck off; the failing one is named until it works, and makes room."""
    shown, postponed, failing = [], [], {"b1"}
    rows_due = [OutboxRow(seq, "project", f"s{seq}", f"b{seq % 2}", "p", 0, 0, 0) for seq in range(1, 5)]

    async def due(_kind: str) -> list[OutboxRow]:
        return rows_due

    async def boards(names: Iterable[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(name=name) for name in names}

    async def shows(_ledger: Any, _index: Any, _board: Any, changes: Sequence[Change]) -> bool:
        if {name for change in changes for name in (change.board, change.submission_id)} & failing:
            return False
        shown.extend(change.seq for change in changes)
        return True

    monkeypatch.setattr(outbox_duties, "SLICE", 4)
    monkeypatch.setattr(outbox_duties, "project", shows)
    monkeypatch.setattr(duty.steward.catalogue, "boards", boards)
    monkeypatch.setattr(duty.steward._in_outbox._due, "of_kind", due)
    monkeypatch.setattr(
        work, "postpone", lambda rows, until_ms: postponed.extend(rows) or work.strike_projected([])
    )
    assert 2 == await duty.steward.project()
    assert ([2, 4], [1, 3]) == (shown, [row.seq for row in postponed])
    assert ("project:b1",) == duty.steward.failures.now()
    rows_due.pop()  # what does not fill a slice stands in nobody's way, and comes again at once
    failing.add("b0")
    assert 0 == await duty.steward.project()
    assert [1, 3] == [row.seq for row in postponed]
    assert ("project:b0", "project:b1") == duty.steward.failures.now()
    failing.clear()
    assert 3 == await duty.steward.project()
    assert () == duty.steward.failures.now()
    monkeypatch.setattr(outbox_duties, "CHANGES_AT_ONCE", 1)
    failing.add("s3")  # what was shown before a late answer is struck off
    assert (2, [1, 2]) == (await duty.steward.project(), sorted(shown[-2:]))


async def test_I10_a_change_whose_projection_died_is_shown_by_the_steward(duty: Duty):
    """A crash between the commit and the index leaves an outbox row; its turn comes after two seconds."""
    await duty.append("run-1", "run-2", score=7)
    await duty.promote("run-1")
    project = duty.index.project

    async def die(_board: object, _changes: object) -> None:
        raise asyncio.CancelledError

    duty.index.project = die  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await duty.promote("run-2")
    duty.index.project = project  # type: ignore[method-assign]
    assert 0 == await duty.steward.project()

    duty.clock.shift(3)
    assert 1 == await duty.steward.project()
    assert [] == rows(duty.settings.ledger_path, "SELECT * FROM outbox WHERE kind = 'project'")
    await duty.steward.reconcile()
    duty.assert_index_is_the_ledgers()


async def test_I04_a_flushed_index_is_byte_equal_again(duty: Duty):
    """FLUSHALL: one round later every window, baseline and pending id is what the ledger says."""
    await duty.fill()
    duty.assert_index_is_the_ledgers()
    duty.redis.flushall()

    assert await duty.steward.reconcile() > 0
    duty.assert_index_is_the_ledgers()
    assert 0 == await duty.steward.reconcile()


FORGERIES = {
    "a member nobody knows": lambda r: r.zadd(
        "lb:{201}:tiny:alltime", {"000000000001" + "0" * 10 + ":eve": -999}
    ),
    "a second member of a player": lambda r: r.zadd(
        "lb:{201}:tiny:alltime", {"000000000001" + "0" * 10 + ":ada": -999}
    ),
    "another score": lambda r: r.zadd(
        "lb:{201}:tiny:alltime", {r.zrange("lb:{201}:tiny:alltime", 0, 0)[0]: -5}
    ),
    "a slot from the future": lambda r: r.hset("lb:{201}:tiny:alltime:members", "ada", "999999  "),
    "a slot that is no slot": lambda r: r.hset("lb:{201}:tiny:alltime:members", "ada", "nonsense"),
    "a slot with a member in the window": lambda r: [
        r.zadd("lb:{201}:tiny:alltime", {"000000000001" + "0" * 10 + ":eve": -999}),
        r.hset("lb:{201}:tiny:alltime:members", "eve", "99999 000000000001" + "0" * 10 + ":eve sub"),
    ],
    "a member taken out": lambda r: r.zremrangebyrank("lb:{201}:tiny:alltime", 0, 0),
    "a window deleted": lambda r: r.delete("lb:{201}:tiny:alltime"),
    "slots deleted": lambda r: r.delete("lb:{201}:tiny:alltime:members"),
    "a ghost on pending": lambda r: r.zadd("lb:{201}:tiny:pending", {"ghost": 1}),
    "a settled run on pending": lambda r: r.zadd("lb:{201}:tiny:pending", {"ada-1": 1}),
    "pending deleted": lambda r: r.delete("lb:{201}:tiny:pending"),
    "a baseline from the future": lambda r: r.hset("lb:{201}:tiny:baselines", "ada", "99999 50 1.0 1.0"),
    "what passes, as something else": lambda r: [
        r.zadd("lb:{201}:tiny:runs:eve", {"x": 1}),
        r.hset("lb:{201}:tiny:limit:eve", "x", "1"),
        *(r.expire(f"lb:{{201}}:tiny:{each}:eve", 86_400) for each in ("runs", "limit")),
    ],
    "baselines deleted": lambda r: r.delete("lb:{201}:tiny:baselines"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_I26_what_the_ledger_does_not_say_does_not_stay(duty: Duty, forgery: str):
    """Whatever is changed in Redis behind our back, the reconciler makes it the ledger's again."""
    await duty.fill()
    duty.assert_index_is_the_ledgers()
    before = duty.snapshot()
    FORGERIES[forgery](duty.redis)
    assert before != duty.snapshot()

    await duty.settle_down()
    assert before == duty.snapshot()
    await duty.append("next", player="ada", score=50)
    await duty.promote("next")
    await duty.steward.reconcile()
    duty.assert_index_is_the_ledgers()


async def test_I26_forged_members_of_the_window_before_do_not_stay(duty: Duty):
    """Yesterday's board is still read today."""
    await duty.fill()
    duty.clock.shift(86_400)
    yesterday = next(key for key in duty.redis.keys("lb:{201}:tiny:daily:*") if not key.endswith(b":members"))
    duty.redis.zadd(yesterday, {"000000000001" + "0" * 10 + ":eve": -999})
    await duty.settle_down()
    duty.assert_index_is_the_ledgers()


async def test_the_reconciler_works_in_bounded_slices(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """One step looks at a slice of each kind, and goes on from there; a whole turn repairs all."""
    await duty.fill()
    monkeypatch.setattr(reconcile, "SLICE", 2)
    duty.redis.delete(
        "lb:{201}:tiny:alltime",
        "lb:{201}:tiny:alltime:members",
        "lb:{201}:tiny:pending",
        "lb:{201}:tiny:baselines",
    )

    repaired = [await duty.steward.reconcile() for _ in range(20)]

    assert max(repaired) <= 2 * 5
    assert len([each for each in repaired if each]) > 1
    duty.assert_index_is_the_ledgers()


async def test_I01_every_duty_outlives_redis(own_settings: Settings, tmp_path: Path):
    """The steward runs on while Redis is down, and does all that was left undone once it is back, emptied."""
    with running_valkey() as own:
        settings = own_settings.model_copy(update={"redis_url": own.url, "reconcile_s": 0.1})
        known = load_policies(settings)
        async with open_ledger(settings) as ledger, open_index(settings) as index:
            queue = Redis.from_url(own.url, socket_timeout=1)
            parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
            steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(queue), **parts)
            duty = Duty(settings, known["tiny"], ledger, steward, queue)
            running = asyncio.create_task(steward.run())
            await duty.append("before", score=1)
            await duty.promote("before")
            with capture_logs() as logs:  # a failure is logged once a minute, so it must not be missed
                own.kill()
                await duty.append("during", "waits", score=2)
                await duty.promote("during")
                await eventually(lambda: failed(logs) >= NEEDING_REDIS)
            assert not running.done()
            (own.folder / "appendonlydir").rename(tmp_path / "lost")
            own.start()
            await eventually(lambda: _is_whole(duty))
            running.cancel()
            await asyncio.wait([running])
            assert [["waits"]] == duty.queued()


NEEDING_REDIS = {"derive_from_log", "derive_from_changes", "reconcile"}


def failed(logs: Sequence[Mapping[str, Any]]) -> set[str]:
    """The duties that could not be done."""
    return {entry["duty"] for entry in logs if entry["event"] == Event.DUTY_FAILED}


def _is_whole(duty: Duty) -> bool:
    try:
        duty.assert_index_is_the_ledgers()
    except AssertionError:
        return False
    return bool(duty.queued())


@pytest.mark.parametrize("turns", [1, 5, 20])
async def test_a_steward_that_is_told_to_end_while_it_connects_ends(duty: Duty, turns: int):
    """redis-py swallows a cancellation while it connects; the duty that it happened to ends all the same."""
    await duty.index.client.connection_pool.disconnect()
    running = asyncio.create_task(duty.steward.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=20)
    assert {running} == done


async def test_a_duty_that_fails_in_a_way_nobody_foresaw_is_done_again(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """A bug in one duty neither ends it nor the others, and it is said to fail for as long as it does."""
    calls, is_mended, failing = 0, False, duty.steward.failures.now

    async def broken() -> int:
        nonlocal calls
        calls += 1
        return 0 if is_mended else 1 // 0

    monkeypatch.setattr(duty.steward, "reconcile", broken)
    monkeypatch.setattr(duty.steward, "_settings", duty.settings.model_copy(update={"reconcile_s": 0.01}))
    running = asyncio.create_task(duty.steward.run())
    await duty.append("run-1")
    await eventually(lambda: calls > 2 and bool(duty.queued()))
    assert ("broken",) == failing()
    await duty.steward.presence.beat()
    assert ["broken"] == duty.steward.presence.failing(), "others read it there, and `scoregate status`"
    is_mended = True
    await eventually(lambda: failing() == ())
    running.cancel()
    await asyncio.wait([running])
    assert 1 == await duty.ledger.read(queries.newest_seq())


async def test_a_running_steward_does_every_duty(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """What each does is tested where it is called by hand; that nobody has to, here."""
    known = {
        name
        for name, each in vars(Steward).items()
        if inspect.iscoroutinefunction(each) and not name.startswith("_") and name != "run"
    }
    done: set[str] = set()

    def noting(name: str) -> Callable[[], Awaitable[int]]:
        async def noted() -> int:
            done.add(name)
            return 0

        noted.__name__ = name
        return noted

    for name in known:
        monkeypatch.setattr(duty.steward, name, noting(name))
    running = asyncio.create_task(duty.steward.run())
    await eventually(lambda: known == done)
    running.cancel()
    await asyncio.wait([running])
    assert {"dispatch", "expire", "collect", "seal"} <= known
