"""Windows that roll over while the index is there: what is shown where, and what the archive leaves alone."""

from __future__ import annotations

import asyncio

import pytest

from gateway.index import keys
from gateway.ledger import index_pages
from gateway.ledger.archive.reading import archived_page
from gateway.ledger.archive.windows import ArchiveStage, archived_window
from gateway.settlement.joins import set_joined
from gateway.steward.archive import archiving
from gateway.steward.archive.archiving import Archiver
from gateway.steward.archive.refold import refold_board
from policies.choices import WindowKind
from policies.vocabulary import State
from policies.windows import Window, window_at
from tests.support.archives import DAY_S, Shelf, a_board
from tests.support.duty import Duty
from tests.support.stores import on_both_ledgers

KINDS = (WindowKind.ALLTIME, WindowKind.DAILY, WindowKind.WEEKLY, WindowKind.MONTHLY)


def windows_of(duty: Duty, at_ms: int) -> dict[WindowKind, Window]:
    return {kind: window_at(duty.board.policy, kind, at_ms) for kind in KINDS}


async def archive(duty: Duty) -> None:
    """Rounds until a quiet while finds nothing to do."""
    quiet = 0
    while quiet < 2:
        quiet = 0 if await duty.steward.archive() else quiet + 1
        duty.clock.shift(archiving.QUIET_MS / 1000 if quiet == 1 else 0)


async def ranks(duty: Duty, window: str) -> list[tuple[int, str]]:
    found = await duty.ledger.read(archived_page("tiny", window, first=0, count=100))
    return [(each.rank, each.player) for each in found.entries] if found else []


@on_both_ledgers
async def test_any_number_of_stewards_archive_the_same(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """At once, slice by slice, and each entry once; a late decision among them is in the revision that is read."""
    monkeypatch.setattr(archiving, "SLICE", 2)
    monkeypatch.setattr(archiving, "QUIET_MS", 0)
    for number in range(9):
        await duty.append(f"s{number}", player=f"p{number}", score=number // 2)
    await duty.promote(*(f"s{number}" for number in range(9)))
    day = windows_of(duty, duty.clock())[WindowKind.DAILY].name
    duty.clock.shift(40 * DAY_S)
    stewards = [Archiver(duty.settings, duty.ledger, duty.board, clock=duty.clock) for _ in range(4)]

    async def rounds(steward: Archiver) -> None:
        quiet = 0
        while quiet < 3:
            quiet = 0 if await steward.step() else quiet + 1

    await asyncio.gather(*map(rounds, stewards), duty.promote("s3", to_state=State.REVOKED))
    await asyncio.gather(*map(rounds, stewards))
    expected = ["p8", "p6", "p7", "p4", "p5", "p2", "p0", "p1"]
    assert list(enumerate(expected, start=1)) == await ranks(duty, day)
    found = await duty.ledger.read(archived_window("tiny", day))
    assert (ArchiveStage.KEPT, 8, 5) == (found.stage, found.entries, found.groups)


@on_both_ledgers
async def test_what_was_verified_days_later_is_credited_to_the_window_it_was_achieved_in(duty: Duty):
    """One call shows it in every window of that time that still lives; the day that ended is made a new revision of."""
    duty.clock.shift(-3 * DAY_S)
    then = windows_of(duty, duty.clock())
    await duty.append("first", player="ada", score=1)
    await duty.promote("first")
    await duty.append("late", player="bob", score=7)
    duty.clock.shift(3 * DAY_S)
    await archive(duty)
    assert [(1, "ada")] == await ranks(duty, then[WindowKind.DAILY].name)

    await duty.promote("late")
    await archive(duty)
    assert [(1, "bob"), (2, "ada")] == await ranks(duty, then[WindowKind.DAILY].name)
    today = windows_of(duty, duty.clock())
    shown = {key.decode() for key in duty.redis.keys("lb:{201}:tiny:*")}
    for kind, window in then.items():
        key = keys.window("tiny", window.name)
        is_live = window.expires_at_ms is None or window.expires_at_ms > duty.clock()
        assert is_live == (key in shown), window.name
        if is_live:
            assert [b"ada", b"bob"] == sorted(
                each.rpartition(b":")[2] for each in duty.redis.zrange(key, 0, -1)
            )
        if today[kind].name != window.name:
            assert keys.window("tiny", today[kind].name) not in shown
    duty.assert_index_is_the_ledgers()
    told = [
        fields[b"window"].decode()
        for _, fields in duty.redis.xrange("lb:{201}:changes")
        if fields[b"player"] == b"bob"
    ]
    live = [each.name for each in then.values() if (each.expires_at_ms or 2**53) > duty.clock()]
    assert sorted(live) == sorted(told)


async def test_one_call_shows_a_run_in_all_windows_with_their_ends(duty: Duty):
    """Every window is written together, each with the expiry of its kind, one span after its end."""
    await duty.append("run", player="ada", score=1)
    await duty.promote("run")
    now = windows_of(duty, duty.clock())
    told = duty.redis.xrange("lb:{201}:changes")
    assert {each.name for each in now.values()} == {fields[b"window"].decode() for _, fields in told}
    assert 1 == len({stream_id.partition(b"-")[0] for stream_id, _ in told})  # time stands still in a call
    for kind, window in now.items():
        for key in (keys.window("tiny", window.name), keys.members("tiny", window.name)):
            assert (window.expires_at_ms or -1) == duty.redis.pexpiretime(key), kind


async def test_archiving_leaves_index_and_ledger_equal(duty: Duty):
    """Before and after the standings of a day have gone: nothing to reconcile, no difference, and a rebuild is the same."""
    duty.clock.shift(-DAY_S)
    day = windows_of(duty, duty.clock())[WindowKind.DAILY].name
    await duty.fill()
    await duty.promote("waits-1", "waits-2", to_state=State.REJECTED)
    duty.clock.shift(DAY_S)
    await archive(duty)
    assert ArchiveStage.FROZEN is (await duty.ledger.read(archived_window("tiny", day))).stage
    assert day in await duty.ledger.read(index_pages.live_windows("tiny", now_ms=duty.clock()))
    await assert_equal(duty)

    await expire(duty, day)
    duty.clock.shift(2 * DAY_S)
    await archive(duty)
    assert ArchiveStage.KEPT is (await duty.ledger.read(archived_window("tiny", day))).stage
    assert day not in await duty.ledger.read(index_pages.live_windows("tiny", now_ms=0))
    await assert_equal(duty)
    await duty.promote("ada-3", to_state=State.REVOKED)
    await archive(duty)
    await expire(duty, day)
    await assert_equal(duty)
    assert [(1, "cy"), (2, "ada"), (3, "bob")] == await ranks(duty, day)


async def expire(duty: Duty, window: str) -> None:
    """Does what Redis would, whose clock does not go with ours."""
    duty.redis.delete(*duty.redis.keys(f"lb:{{201}}:tiny:{window}*"))


async def assert_equal(duty: Duty) -> None:
    await duty.settle_down()
    duty.assert_index_is_the_ledgers()
    assert [] == await duty.differences()
    await duty.rebuilder().rebuild()
    duty.assert_index_is_the_ledgers()


async def test_a_refold_leaves_archived_windows_as_they_were(duty: Duty):
    """`board refold` is about what goes on; final ranks keep the policy of their time, and so do their standings."""
    duty.clock.shift(-DAY_S)
    day = windows_of(duty, duty.clock())[WindowKind.DAILY].name
    await duty.fill()
    await duty.promote("waits-1", "waits-2", to_state=State.REJECTED)
    duty.clock.shift(DAY_S)
    await archive(duty)
    before = await ranks(duty, day)
    stood = await duty.ledger.read(index_pages.standings_after("tiny", day, "", count=100))
    policy = a_board(operator="count").policy
    done = await refold_board(duty.ledger, policy, clock=duty.clock, tell=lambda _count: None)
    assert 0 < done.changed
    await archive(duty)
    assert stood == await duty.ledger.read(index_pages.standings_after("tiny", day, "", count=100))
    found = await duty.ledger.read(archived_window("tiny", day))
    assert (1, 0, before) == (found.revision, found.changed_seq, await ranks(duty, day))


def test_B07_who_leaves_a_board_stays_in_the_windows_that_are_over():
    """A day that has just ended has its final ranks, as what is older has, though the index still shows it."""
    shelf = Shelf(a_board(windows=["alltime", "daily"], joins="required"))
    days = []
    for day in range(4):
        for player in ("ada", "bob"):
            shelf.do(set_joined(shelf.board, player, joins_now=True, actor="test", now_ms=shelf.clock()))
            shelf.score(f"{player}-{day}", player, day + 1)
        days.append(shelf.window().name)
        shelf.clock.shift(DAY_S)
    shelf.settle_down()
    shelf.do(set_joined(shelf.board, "bob", joins_now=False, actor="test", now_ms=shelf.clock()))
    shelf.settle_down()
    assert [2, 2, 2, 2] == [shelf.archived(day).entries for day in days]
    assert [1, 1, 1, 1] == [shelf.archived(day).revision for day in days]
