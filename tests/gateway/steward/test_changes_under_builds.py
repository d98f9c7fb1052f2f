"""A change that a build overtakes on its way to the index: whoever follows the board hears of it, and once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import AsyncMock

import pytest

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.generation import LEASE_MS
from gateway.settlement.settle import project
from gateway.shared_records import Change
from gateway.steward.index import rebuild as rebuilding
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import IndexUnavailable
from policies.vocabulary import State
from tests.support.duty import Duty, be_unused
from tests.support.stores import on_both_ledgers

STREAM = keys.changes("tiny")
SIZES = {"in pages": 2, "at once": rebuilding.PAGE}


@pytest.fixture(autouse=True)
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The rows of a page: a board of more is built in pages."""
    name = getattr(request, "param", "at once")
    monkeypatch.setattr(rebuilding, "PAGE", SIZES[name])
    monkeypatch.setattr(rebuilding, "EVENTS", 3)
    return name


in_pages_and_at_once = pytest.mark.parametrize("size", SIZES, indirect=True)


async def show(duty: Duty, changes: Sequence[Change]) -> None:
    assert await project(duty.ledger, duty.index, duty.board, changes)


def told(duty: Duty) -> Counter[tuple[str, str]]:
    """How often the stream has each submission in each window."""
    entries = (fields for _, fields in duty.redis.xrange(STREAM))
    return Counter((each[b"submission"].decode(), each[b"window"].decode()) for each in entries)


def windows(duty: Duty) -> set[str]:
    return {window for _, window in told(duty)}


@in_pages_and_at_once
@on_both_ledgers
async def test_a_change_that_a_build_overtakes_is_told_once(duty: Duty):
    """It is in the generation before anybody has shown it; its settlement then finds it in place."""
    await duty.fill()
    await duty.append("overtaken", player="dot", score=9)
    changes = await duty.commit("overtaken")
    await duty.rebuilder().rebuild()
    assert {("overtaken", each): 1 for each in windows(duty)}.items() <= told(duty).items()
    before = told(duty)
    await show(duty, changes)
    await duty.settle_down()
    assert before == told(duty)
    duty.assert_index_is_the_ledgers()


@in_pages_and_at_once
async def test_what_was_shown_and_not_struck_from_the_outbox_is_not_told_again(duty: Duty):
    """Between the two, a build takes it for unshown; the live keys know better."""
    await duty.fill()
    await duty.append("shown", player="dot", score=9)
    changes = await duty.commit("shown")
    await duty.index.project(duty.board, changes)
    before = told(duty)
    await duty.rebuilder().rebuild()
    await show(duty, changes)
    assert before == told(duty)
    assert {1} == {before["shown", each] for each in windows(duty)}


@in_pages_and_at_once
async def test_a_build_of_an_emptied_redis_tells_what_was_not_told_and_no_more(duty: Duty):
    """What the stream had and lost is not told as new, though its player has a decision that nobody has shown."""
    await duty.fill()
    await duty.append("refused", player="cy", score=99)
    await duty.append("new", player="dot", score=9)
    late = [*await duty.commit("new"), *await duty.commit("refused", to_state=State.REJECTED)]
    duty.redis.flushall()
    await duty.rebuilder().rebuild()
    assert {"new"} == {submission for submission, _ in told(duty)}
    before = told(duty)
    await show(duty, late)
    assert before == told(duty)
    assert {1} == set(before.values())
    duty.assert_index_is_the_ledgers()


async def test_many_changes_are_told_a_slice_at_a_time_and_under_the_lease(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """A backlog that an outage of Redis left: each of them once, in the order of the log."""
    await duty.fill()
    ids = [f"late-{number}" for number in range(8)]
    for number, each in enumerate(ids):
        await duty.append(each, player=f"q{9 - number}", score=number)
    changes = await duty.commit(*ids)
    end = duty.redis.xrevrange(STREAM, count=1)[0][0]
    shown: list[int] = []
    put = Rebuilder._put_on_stream

    async def put_for_long(self: Any, changed: Any) -> None:
        """So long that the lease would not have lasted for another slice of them."""
        if len(shown) % rebuilding.EVENTS == 0:
            assert duty.redis.pttl(keys.lease("tiny")) > LEASE_MS // 2, shown
            duty.redis.pexpire(keys.lease("tiny"), LEASE_MS // 3)
        await put(self, changed)
        shown.append(changed[0].seq)

    monkeypatch.setattr(Rebuilder, "_put_on_stream", put_for_long)
    await duty.rebuilder().rebuild()
    assert sorted(shown) == shown
    assert len(ids) == len(shown)
    later = [fields for _, fields in duty.redis.xrange(STREAM, min=b"(" + end)]
    assert ids == list(dict.fromkeys(each[b"submission"].decode() for each in later))
    await show(duty, changes)
    assert {1} == {told(duty)[each, window] for each in ids for window in windows(duty)}


async def test_a_change_on_a_cold_board_that_is_built_meanwhile_is_told_once(duty: Duty):
    """It was committed while the board was cold, and is shown when the board is back."""
    await duty.fill()
    be_unused(duty.redis, "tiny")
    duty.redis.hset(keys.cold("tiny"), "*", "1")
    duty.redis.delete(keys.sentinel("tiny"))
    await duty.append("overtaken", player="dot", score=9)
    changes = await duty.commit("overtaken")
    await duty.rebuilder().rebuild()
    assert not duty.redis.exists(keys.cold("tiny"))
    await show(duty, changes)
    assert {1} == {told(duty)["overtaken", each] for each in windows(duty)}
    duty.assert_index_is_the_ledgers()


@pytest.mark.parametrize("damaged", ["members", "names"])
async def test_damaged_keys_do_not_keep_a_board_from_being_built(duty: Duty, damaged: str):
    """A change that cannot be shown on them is on the board all the same: the build takes them away."""
    await duty.fill()
    await duty.append("overtaken", player="dot", score=9)
    changes = await duty.commit("overtaken")
    key = keys.names("tiny") if damaged == "names" else keys.members("tiny", "alltime")
    duty.redis.delete(key)
    duty.redis.set(key, "of another type")
    await duty.rebuilder().rebuild()
    await show(duty, changes)
    duty.assert_index_is_the_ledgers()


async def test_a_build_does_not_go_on_without_an_answer_about_what_was_not_told(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """Redis was too slow to show it: the live board stays, and the next build tells of the change."""
    await duty.fill()
    await duty.append("overtaken", player="dot", score=9)
    await duty.commit("overtaken")
    with monkeypatch.context() as patch:
        patch.setattr(BoardIndex, "restore", AsyncMock(side_effect=IndexUnavailable()))
        with pytest.raises(IndexUnavailable):
            await duty.rebuilder().rebuild()
    assert "overtaken" not in {submission for submission, _ in told(duty)}
    await duty.rebuilder().rebuild()
    assert {1} == {told(duty)["overtaken", each] for each in windows(duty)}


@pytest.mark.parametrize("is_marked", [True, False], ids=["cold", "emptied"])
async def test_what_a_crash_left_unshown_tells_of_nothing_that_was_shown_before(
    duty: Duty, *, is_marked: bool
):
    """The slots of its player are gone, and the stream is not: the steward shows the event's own changes alone."""
    await duty.fill()
    duty.redis.delete(*(key for key in duty.redis.keys("lb:{201}:tiny:*") if not key.endswith(b"changes")))
    if is_marked:
        duty.redis.hset(keys.cold("tiny"), "*", "1")
    before = told(duty)
    await duty.append("refused", player="ada", score=99)
    await duty.append("new", player="cy", score=9)
    await duty.commit("refused", to_state=State.REJECTED)
    await duty.commit("new")
    duty.clock.shift(60)
    assert 2 == await duty.steward.project()
    new = told(duty) - before
    assert {("new", each): 1 for each in windows(duty)} == new
