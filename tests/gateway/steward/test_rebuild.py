"""A rebuild: beside the live keys, put in place in one step, under readers, writers, wipes and deaths."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.index import keys
from gateway.index.generation import KEPT_MS, LEASE_MS
from gateway.index.groups.segments import SegmentBoards
from gateway.index.shards import board_index
from gateway.ledger.players.memberships import change_membership
from gateway.ledger.whole_boards import has_content
from gateway.runtime.failpoints import VARIABLE, Point, arm, disarm
from gateway.steward.index import rebuild as rebuilding
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import IndexNotWhole, IndexUnavailable, RebuildRefused
from policies.vocabulary import State
from tests.support import boards, preloaded
from tests.support.banning import Bench, a_ban
from tests.support.books import Books
from tests.support.duty import Duty
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import on_both_if_thorough, on_both_ledgers
from tests.support.thorough import IS_THOROUGH, thoroughly

BOARD = "lb:{201}:tiny:"
ALLTIME = f"{BOARD}alltime"
REBUILDS = 6 if IS_THOROUGH else 3
"""Rebuilds at least, while others read and write."""


SIZES = {"in pages": 5, "at once": rebuilding.PAGE}


@pytest.fixture(autouse=True)
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """So that a small board has many pages, unless a test asks for one, and no fail-point outlives its test."""
    name = getattr(request, "param", "in pages")
    monkeypatch.setattr(rebuilding, "PAGE", SIZES[name])
    monkeypatch.setattr(rebuilding, "EVENTS", 7)
    yield name
    disarm()


in_pages_and_at_once = pytest.mark.parametrize("size", SIZES, indirect=True)


async def crowd(duty: Duty, count: int) -> None:
    """A board of `count` players."""
    await duty.fill()
    ids = [f"crowd-{number}" for number in range(count)]
    await asyncio.gather(
        *(duty.append(each, player=f"p{at}", score=at % 7) for at, each in enumerate(ids, start=1))
    )
    await duty.promote(*ids)
    await duty.settle_down()


def built_keys(duty: Duty) -> list[bytes]:
    return list(duty.redis.scan_iter(f"{BOARD}built:*"))


async def test_an_index_that_is_rebuilt_during_a_ban_and_after_it_is_the_ledgers(duty: Duty):
    """Without the player, and then with every place that there was before; the live one is the same each time."""
    await duty.fill()
    bench = Bench(duty.ledger, {"tiny": duty.board}, duty.index)
    places = [ranked_keys(duty)]
    for step in (bench.ban(a_ban("one", "ada"), at_ms=duty.clock()), bench.unban("one", at_ms=duty.clock())):
        await step
        await duty.settle_down()
        live = duty.snapshot()
        await duty.rebuilder().rebuild()
        assert live == duty.snapshot()
        duty.assert_index_is_the_ledgers()
        places.append(ranked_keys(duty))
    assert places[0] == places[2]
    assert places[0] != places[1]
    assert not [entry for key in places[1].values() for entry in key if b"ada" in entry[0]]


def ranked_keys(duty: Duty) -> dict[bytes, Any]:
    return {key: kept for key, kept in duty.snapshot().items() if isinstance(kept, list)}


@in_pages_and_at_once
@on_both_ledgers
async def test_a_rebuilt_board_is_byte_equal_to_the_live_one(duty: Duty):
    """Every window, slot, name, baseline and pending id, with the life that its key had; nothing is left beside it."""
    await crowd(duty, 40)
    before, lives = duty.snapshot(), {key: duty.redis.pexpiretime(key) for key in duty.snapshot()}
    settled = duty.redis.zrange(f"{BOARD}settled", 0, -1)
    pages: list[int] = []

    done = await duty.rebuilder(pages.append).rebuild()

    assert before == duty.snapshot()
    assert lives == {key: duty.redis.pexpiretime(key) for key in duty.snapshot()}
    assert set(settled) == set(duty.redis.zrange(f"{BOARD}settled", 0, -1))
    assert (done.standings, done.standings) == (sum(pages), await duty.rebuilder().total())
    assert max(pages) <= rebuilding.PAGE
    assert [] == built_keys(duty) + list(duty.redis.scan_iter(f"{BOARD}building"))
    assert await duty.differences() == []


async def test_a_rebuild_takes_out_what_the_ledger_does_not_say(duty: Duty):
    """Whatever was in the keys of the board before, none of it is there after."""
    await crowd(duty, 10)
    before = duty.snapshot()
    duty.redis.zadd(ALLTIME, {"0" * 22 + ":eve": -999, b"\xff\xfe": -3})
    duty.redis.hset(f"{ALLTIME}:members", "eve", "999999 x y")
    duty.redis.hset(f"{BOARD}baselines", "eve", "1 2 3.0 4.0")
    duty.redis.delete(f"{BOARD}names")
    duty.redis.set(f"{BOARD}names", "of another type")
    duty.redis.zadd(f"{BOARD}pending", {"ghost": 1})
    await duty.rebuilder().rebuild()
    assert before == duty.snapshot()


@in_pages_and_at_once
async def test_an_empty_board_can_be_rebuilt(duty: Duty):
    """Nothing in the ledger is nothing on the board, whatever was there."""
    duty.redis.zadd(ALLTIME, {"0" * 22 + ":eve": -999})
    assert 0 == (await duty.rebuilder().rebuild()).entries
    assert {} == duty.snapshot()
    assert duty.redis.exists(f"{BOARD}whole")


@in_pages_and_at_once
@on_both_ledgers
async def test_I04_readers_and_writers_go_on_under_rebuilds(duty: Duty):
    """Every page is a whole board as it stood at some moment; in the end the index is the fold of the ledger."""
    await crowd(duty, 30)
    await duty.rebuilder().rebuild()
    is_over, settled, pages = False, 0, []
    reader = board_index(duty.index.client, duty.board.ranking)
    reader.guard()

    async def write() -> None:
        nonlocal settled
        while not is_over:
            settled += 1
            name = f"live-{settled}"
            await duty.append(name, player=f"n{settled}", score=1_000 + settled)
            await duty.promote(name)
            if settled % 3 == 0:
                await duty.promote(name, to_state=State.REVOKED)
            await asyncio.sleep(0.005)

    async def read() -> None:
        while not is_over:
            with suppress(IndexNotWhole):  # between the swap and the end, where an edge asks the ledger
                pages.append(await reader.page("alltime", 0, 10_000))
            await asyncio.sleep(0.002)

    busy = [asyncio.create_task(write()), asyncio.create_task(read())]
    rebuilds = 0
    while rebuilds < REBUILDS or len(pages) <= 10:
        await duty.rebuilder().rebuild()
        rebuilds += 1
    is_over = True
    await asyncio.gather(*busy)

    for page in pages:
        assert page.total == len(page.entries) >= 33  # the crowd never leaves the board
        players = [entry.player for entry in page.entries]
        assert len(set(players)) == len(players)
        assert {f"p{at}" for at in range(1, 31)} <= set(players)
        newest = max((int(each[1:]) for each in players if each.startswith("n")), default=0)
        standing = {f"n{at}" for at in range(1, newest + 1) if at % 3} - {f"n{newest}"}
        assert standing <= set(players)
    await duty.index.drained()
    duty.assert_index_is_the_ledgers()


MOMENTS = [("sqlite", Point.INSIDE_REBUILD), ("sqlite", Point.BEFORE_SWAP), ("postgres", Point.BEFORE_SWAP)]
MOMENTS_AT_ONCE = [("sqlite", Point.INSIDE_REBUILD), *thoroughly(("postgres", Point.INSIDE_REBUILD))]
at_each_moment = pytest.mark.parametrize(
    ("database_server", "moment", "size"),
    [
        *((*moment, "in pages") for moment in (*MOMENTS, *thoroughly(("postgres", Point.INSIDE_REBUILD)))),
        *((*moment, "at once") for moment in MOMENTS_AT_ONCE),
    ],
    indirect=["database_server", "size"],
)


@at_each_moment
async def test_what_is_settled_during_a_rebuild_is_in_place_after_it(duty: Duty, moment: Point):
    """A promotion, a revocation and a new pending run that come between two pages, or after the last of them."""
    await crowd(duty, 12)
    await duty.append("late-1", player="p1", score=900)
    await duty.append("late-2", player="zoe", score=901)
    changes: list[asyncio.Task[None]] = []

    async def change() -> None:
        await duty.promote("late-1", "late-2")
        await duty.promote("crowd-5", to_state=State.REVOKED)
        await duty.append("late-3", player="yan", score=5)

    swap = rebuilding.Generation.swap

    async def swap_after_changes(self: Any, windows: Any) -> None:
        await asyncio.gather(*changes)  # shown on keys that are about to go
        await swap(self, windows)

    arm(moment, lambda: changes.append(asyncio.get_running_loop().create_task(change())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuilding.Generation, "swap", swap_after_changes)
        await duty.rebuilder().rebuild()
    assert 1 == len(changes)
    duty.assert_index_is_the_ledgers()
    assert [] == await duty.differences()


async def test_two_rebuilds_at_once_are_one(duty: Duty):
    """The second is refused, and says until when at most; the first one is not disturbed. Another board is not blocked."""
    await crowd(duty, 20)
    before = duty.snapshot()
    results = await asyncio.gather(
        duty.rebuilder().rebuild(), duty.rebuilder().rebuild(), return_exceptions=True
    )
    assert ["RebuildCounts", "RebuildRefused"] == sorted(type(each).__name__ for each in results)
    [refusal] = [each for each in results if isinstance(each, RebuildRefused)]
    assert "tiny is already being rebuilt" in str(refusal)
    assert before == duty.snapshot()
    await duty.rebuilder().rebuild()


@in_pages_and_at_once
async def test_I04_a_flushall_during_a_rebuild_has_it_begin_again(duty: Duty):
    """What was built so far is gone: it is never put in place, and the second attempt puts everything there."""
    await crowd(duty, 20)
    before = duty.snapshot()
    for moment in (Point.INSIDE_REBUILD, Point.BEFORE_SWAP):
        arm(moment, duty.redis.flushall)
        await duty.rebuilder().rebuild()
        assert before == duty.snapshot()
        assert [] == built_keys(duty)


async def test_I04_a_redis_that_is_emptied_again_and_again_is_left_to_the_steward(duty: Duty):
    """After three attempts the rebuild gives up in order; the board is not called whole, and the next turn rebuilds it."""
    await crowd(duty, 5)
    before = duty.snapshot()

    def empty(_count: int) -> None:
        duty.redis.flushall()

    with pytest.raises(IndexUnavailable):
        await duty.rebuilder(empty).rebuild()
    assert [] == duty.redis.keys(f"{BOARD}*")
    assert await duty.steward.reconcile() > 0
    assert before == duty.snapshot()


@in_pages_and_at_once
async def test_a_rebuild_that_fails_leaves_the_live_board_and_nothing_beside_it(duty: Duty):
    """An error nobody foresaw: what was built is taken away at once, and the lease is free."""
    await crowd(duty, 12)
    before = duty.snapshot()

    def fail() -> None:
        assert built_keys(duty)
        raise ZeroDivisionError

    for moment in (Point.INSIDE_REBUILD, Point.BEFORE_SWAP):
        arm(moment, fail)
        with pytest.raises(ZeroDivisionError):
            await duty.rebuilder().rebuild()
        assert before == duty.snapshot()
        assert [] == built_keys(duty)
    await duty.rebuilder().rebuild()


def rebuild_and_die(duty: Duty, point: Point) -> int:
    """The exit status of `scoregate board rebuild` that is killed at a point."""
    settings = duty.settings
    environment = {
        "SCOREGATE_DATA_DIR": str(settings.data_dir),
        "SCOREGATE_POLICIES_DIR": str(settings.policies_dir),
        "SCOREGATE_REDIS_URL": settings.redis_url,
        "SCOREGATE_LEDGER_URL": settings.ledger_url.get_secret_value(),
        VARIABLE: f"{point}:kill",
    }
    return preloaded.finished(["board", "rebuild", "tiny"], os.environ | environment).returncode


@at_each_moment
async def test_I10_a_rebuild_killed_before_the_swap_changes_nothing(duty: Duty, moment: Point):
    """Readers see the board as it was; another waits for the lease; what is left over ends by itself."""
    await crowd(duty, 12)
    before = duty.snapshot()
    assert -signal.SIGKILL == await asyncio.to_thread(rebuild_and_die, duty, moment)

    left = built_keys(duty)
    assert left
    assert all(0 < duty.redis.pttl(key) <= KEPT_MS for key in left)
    assert 0 < duty.redis.pttl(f"{BOARD}building") <= LEASE_MS
    assert before == {key: value for key, value in duty.snapshot().items() if is_live(key)}
    with pytest.raises(RebuildRefused, match=r"try again in \d+ s"):
        await duty.rebuilder().rebuild()
    assert [] == await duty.differences()

    duty.redis.delete(f"{BOARD}building")  # as its expiry does
    await duty.rebuilder().rebuild()
    assert before == {key: value for key, value in duty.snapshot().items() if is_live(key)}


@on_both_if_thorough
async def test_I10_a_rebuild_killed_after_the_swap_is_done_again_by_the_steward(duty: Duty):
    """The board that readers see is whole at once; it counts as rebuilt only when what came meanwhile is shown too."""
    await crowd(duty, 12)
    before = duty.snapshot()
    assert -signal.SIGKILL == await asyncio.to_thread(rebuild_and_die, duty, Point.AFTER_SWAP)
    assert before == {key: value for key, value in duty.snapshot().items() if is_live(key)}
    assert not duty.redis.exists(f"{BOARD}whole")

    assert 0 == await duty.steward.reconcile()  # the dead one's lease holds
    duty.redis.delete(f"{BOARD}building")
    assert await duty.steward.reconcile() > 0
    assert duty.redis.exists(f"{BOARD}whole")
    duty.assert_index_is_the_ledgers()


def is_live(key: bytes) -> bool:
    return not key.startswith((f"{BOARD}built:".encode(), f"{BOARD}building".encode()))


@pytest.mark.parametrize(("moment", "pages"), [(Point.INSIDE_REBUILD, 1), (Point.BEFORE_SWAP, 12)])
async def test_a_lease_that_ran_out_puts_nothing_in_place(duty: Duty, moment: Point, pages: int):
    """A builder that stood still for too long may have lost keys: it stops at its next step, and never swaps."""
    await crowd(duty, 12)
    before, told = duty.snapshot(), []

    def lose() -> None:
        duty.redis.set(f"{BOARD}building", "another's", px=20_000)
        [one, *_] = built_keys(duty)
        duty.redis.delete(one)

    arm(moment, lose)
    with pytest.raises(RebuildRefused):
        await duty.rebuilder(told.append).rebuild()
    assert pages <= len(told) <= min(pages + 1, 12)  # another page may have been under way
    assert before == {key: value for key, value in duty.snapshot().items() if is_live(key)}


async def test_the_lease_is_kept_while_late_events_are_shown_and_groups_are_made(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """Each slice puts off its end, as each page of standings does: there may be very many of both."""
    await crowd(duty, 3)
    for number in range(1, 4):
        await duty.ledger.write(change_membership("tiny", f"p{number}", {"country": "fi"}))
    monkeypatch.setattr(rebuilding, "REGROUPED", 1)
    done: list[str] = []

    def takes_long(name: str) -> None:
        """So long that the lease would not have lasted for two of them."""
        assert duty.redis.pttl(f"{BOARD}building") > LEASE_MS // 2, done
        duty.redis.pexpire(f"{BOARD}building", LEASE_MS // 3)
        done.append(name)

    swap, show, keep = rebuilding.Generation.swap, Rebuilder._show, SegmentBoards.keep

    async def swap_after_more(self: Any, windows: Any) -> None:
        await duty.append(*(f"late-{number}" for number in range(20)))
        await swap(self, windows)

    async def show_for_long(self: Any, found: Any) -> None:
        takes_long("events")
        await show(self, found)

    async def keep_for_long(self: Any, membership: Any, windows: Any) -> None:
        takes_long("groups")
        await keep(self, membership, windows)

    monkeypatch.setattr(rebuilding.Generation, "swap", swap_after_more)
    monkeypatch.setattr(Rebuilder, "_show", show_for_long)
    monkeypatch.setattr(SegmentBoards, "keep", keep_for_long)
    policy = duty.board.policy.model_copy(update={"segments": ("country",)})
    await Rebuilder(duty.ledger, duty.view().index, policy, clock=duty.clock).rebuild()
    assert ["events"] * 3 + ["groups"] * 3 == done


async def test_a_rebuild_ends_while_more_is_settled_than_it_shows(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """It shows what the ledger had when it was put in place; what comes later is shown by who settles it."""
    await crowd(duty, 3)
    swap, show = rebuilding.Generation.swap, Rebuilder._show
    shown: list[int] = []

    async def more() -> None:
        await duty.append(*(f"more-{len(shown)}-{number}" for number in range(rebuilding.EVENTS)))

    async def swap_after_more(self: Any, windows: Any) -> None:
        await more()
        await swap(self, windows)

    async def show_while_more_comes(self: Any, found: Any) -> None:
        shown.append(len(found.events))
        assert len(shown) < 4, "it goes on as long as its board does"
        await more()
        await show(self, found)

    monkeypatch.setattr(rebuilding.Generation, "swap", swap_after_more)
    monkeypatch.setattr(Rebuilder, "_show", show_while_more_comes)
    await duty.rebuilder().rebuild()
    assert [rebuilding.EVENTS] == shown
    assert duty.redis.exists(f"{BOARD}whole")


@in_pages_and_at_once
@on_both_if_thorough
async def test_windows_that_are_over_are_not_built(duty: Duty):
    """The ledger keeps every day there ever was; a rebuild builds those that can still be read."""
    await crowd(duty, 6)
    live = await duty.rebuilder().total()
    duty.clock.shift(100 * 86_400)
    done = await duty.rebuilder().rebuild()
    assert live // len(duty.board.policy.windows) == done.standings == await duty.rebuilder().total()


@on_both_ledgers
async def test_the_ledger_is_never_asked_for_more_than_a_page(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Memory stays flat however large a board is: nothing that the ledger gives is longer than a page."""
    await crowd(duty, 60)
    lengths: list[int] = []
    read = duty.ledger.read

    async def measured(work: Callable[..., Any]) -> Any:
        found = await read(work)
        lengths.append(len(found) if isinstance(found, list) else 0)
        return found

    monkeypatch.setattr(duty.ledger, "read", measured)
    await duty.rebuilder().rebuild()
    assert max(lengths) <= rebuilding.EVENTS
    assert len(lengths) > 4 * 60 / rebuilding.PAGE
    stored = [slot for slot in duty.history().standings if slot[1] == "alltime"]
    assert len(stored) == duty.redis.hlen(keys.members("tiny", "alltime"))


@pytest.mark.parametrize("size", ["at once"], indirect=True)
@on_both_if_thorough
async def test_a_small_board_takes_few_calls(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Two reads of the ledger and four calls of Redis, however many windows it has: there may be very many boards."""
    await crowd(duty, 10)
    rebuilder, view = duty.rebuilder(), duty.view()
    reads: list[Any] = []
    read = view.ledger.read
    monkeypatch.setattr(view.ledger, "read", lambda *asked: reads.append(asked) or read(*asked))
    before = calls_of(duty)
    await rebuilder.rebuild()
    assert 2 == len(reads)
    assert {"set": 2, "exec": 1, "evalsha": 2} == {
        name: count - before[name] for name, count in calls_of(duty).items() if name in before
    }


def calls_of(duty: Duty) -> dict[str, int]:
    """How often each command was called that a rebuild sends: one SET is that of a script."""
    stats = duty.redis.info("commandstats")
    return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("set", "exec", "evalsha")}


async def test_a_board_with_a_page_of_anything_is_built_in_pages(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Whether that is standings, runs that wait, or decisions of the last hour; older ones do not count."""
    at_once: list[Any] = []
    put = rebuilding.Generation.put_board
    monkeypatch.setattr(rebuilding.Generation, "put_board", lambda *of: at_once.append(of) or put(*of))

    async def is_built_at_once() -> bool:
        at_once.clear()
        await duty.rebuilder().rebuild()
        duty.assert_index_is_the_ledgers()
        return bool(at_once)

    rejected = [f"rejected-{number}" for number in range(2)]  # with two events each
    await duty.append(*rejected)
    await duty.promote(*rejected, to_state=State.REJECTED)
    assert await is_built_at_once()
    await duty.append("one-more")
    assert not await is_built_at_once()
    duty.clock.shift(2 * 3_600)
    assert await is_built_at_once()
    await duty.append(*(f"waits-{number}" for number in range(4)))
    assert not await is_built_at_once()


def test_a_board_where_a_submission_waits_has_content(tmp_path: Path):
    """Though nobody stands there yet; another board is as empty as before."""
    books = Books(boards.board(tmp_path))
    books.append([new_submission("waits", board="tiny")])
    found = [books.do(has_content(board, now_ms=NOON_MS)) for board in ("tiny", "other")]
    assert [True, False] == found
