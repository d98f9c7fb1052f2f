"""What the steward leaves alone, and what it bounds: repairs of what is under way, and the settled set."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.index import keys
from gateway.ledger import index_pages
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.index import rebuild as rebuilding
from gateway.steward.index import reconcile
from gateway.steward.index.rebuild import SETTLED_MS, Rebuilder
from policies.errors import IndexUnavailable
from policies.vocabulary import Reason, State
from tests.support.duty import Duty
from tests.support.ledger import new_submission

SETTLED = keys.settled("tiny")


class NoIndex:
    async def project(self, _board, _changes: Any) -> None:
        raise IndexUnavailable


async def decide(duty: Duty, submission_id: str, *, at_ms: int | None = None, index: Any = None) -> None:
    at_ms = duty.clock() if at_ms is None else at_ms
    decision = Decision(submission_id, State.PROMOTED, "replay", Reason.VERIFIED, at_ms, frozenset(State))
    await settle(duty.ledger, index or duty.index, duty.board, [decision])


async def test_M14_what_is_on_its_way_to_the_index_is_not_repaired(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """A settlement that shows between the first look and the second is no difference, and is not counted as one."""
    await duty.append("run")
    await duty.steward.reconcile()
    await decide(duty, "run", index=NoIndex())
    duty.clock.shift(60)
    slept, sleep = [], asyncio.sleep

    async def shown_meanwhile(delay: float, *result: Any) -> Any:
        if delay == reconcile.MOMENT_S:
            slept.append(await duty.steward.project())
        return await sleep(0, *result)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", shown_meanwhile)
        assert 0 == await duty.steward.reconcile()
    assert 1 in slept
    duty.assert_index_is_the_ledgers()


async def test_M13_what_was_settled_an_hour_ago_leaves_the_settled_set(duty: Duty):
    """With each decision that is shown: the set holds an hour of them, however long a board lives."""
    await duty.append("run")
    seconds, _ = duty.redis.time()
    now_ms = seconds * 1000
    duty.redis.zadd(SETTLED, {"old": now_ms - SETTLED_MS - 5_000, "recent": now_ms - SETTLED_MS + 60_000})
    await duty.promote("run")
    assert {b"recent", b"run"} == set(duty.redis.zrange(SETTLED, 0, -1))


@pytest.mark.parametrize(("page", "pages"), [(2, 3), (100, 0)])
async def test_M18_a_rebuild_puts_exactly_the_last_hour_on_the_settled_set(
    duty: Duty, monkeypatch: pytest.MonkeyPatch, page: int, pages: int
):
    """To the millisecond, whatever the size of a page; what waits is not on it, nor what is of another board."""
    monkeypatch.setattr(rebuilding, "PAGE", page)
    now_ms = duty.clock()
    ages_ms = {
        "older": SETTLED_MS + 1,
        "hour": SETTLED_MS,
        "within": SETTLED_MS - 1,
        "b": 500,
        "c": 2,
        "new": 1,
    }
    await duty.append(*ages_ms)
    for number, (submission_id, age_ms) in enumerate(ages_ms.items()):
        await decide(duty, submission_id, at_ms=now_ms - age_ms)
        await duty.ledger.append(new_submission(f"far-{number}", board="far", state=State.REJECTED))
    await duty.append("waits")
    view, reads, read = duty.view(), [], index_pages.events_before
    monkeypatch.setattr(
        index_pages, "events_before", lambda *of, **count: reads.append(of) or read(*of, **count)
    )
    await Rebuilder(duty.ledger, view.index, view.policy, clock=lambda: now_ms).rebuild()
    held = {
        name.decode(): now_ms - int(at_ms)
        for name, at_ms in duty.redis.zrange(SETTLED, 0, -1, withscores=True)
    }
    assert {name: age_ms for name, age_ms in ages_ms.items() if age_ms < SETTLED_MS} == held
    assert pages == len(reads), "it walks past no event of another board"
