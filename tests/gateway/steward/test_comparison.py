"""What somebody changes in Redis behind our back is found, named, repaired and reported; what is under way is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from redis import Redis
from structlog.testing import capture_logs

from gateway.ledger import queries
from gateway.runtime.clock import wall_clock
from gateway.runtime.telemetry import REGISTRY, Event
from gateway.steward.index import check as checking
from gateway.steward.index.check import IndexReport, check
from policies.vocabulary import State
from tests.support.duty import Duty
from tests.support.stores import on_both_ledgers
from tests.support.thorough import thoroughly

BOARD = "lb:{201}:tiny:"
ALLTIME, SLOTS, NAMES = f"{BOARD}alltime", f"{BOARD}alltime:members", f"{BOARD}names"
PENDING, SETTLED, BASELINES = f"{BOARD}pending", f"{BOARD}settled", f"{BOARD}baselines"
EARLY = "000000000001" + "0" * 10


class Forgery(NamedTuple):
    """A change in Redis, and the (kind, window, player, submission, key) that each difference is named with."""

    make: Callable[[Redis], Any]
    named: set[tuple[str, str, str, str, str]]


def named(kind: str, *, window: str = "", player: str = "", submission: str = "", key: str = "") -> Any:
    return {(kind, window, player, submission, key)}


def move_to(slot: str) -> Callable[[Redis], None]:
    return lambda r: r.hset(SLOTS, "ada", slot)


def older_slot(r: Redis) -> None:
    """Ada as she stood before her best run: her slot and her member are of an earlier change."""
    [member] = [each for each in r.zrange(ALLTIME, 0, -1) if each.endswith(b":ada")]
    r.zrem(ALLTIME, member)
    r.zadd(ALLTIME, {f"{EARLY}:ada": -1})
    r.hset(SLOTS, "ada", f"1 {EARLY}:ada ada-1")


def of_another_type(key: str) -> Callable[[Redis], None]:
    def make(r: Redis) -> None:
        r.delete(key)
        r.set(key, "of another type")

    return make


def all_of(kind: str, **where: str) -> set[tuple[str, str, str, str, str]]:
    players = ("ada", "bob", "cy")
    return {each for player in players for each in named(kind, player=player, **where)}


FORGERIES = {
    "a score of nobody": Forgery(
        lambda r: r.zadd(ALLTIME, {f"{EARLY}:eve": -999}),
        named("forged-member", window="alltime", player="eve"),
    ),
    "a second score of somebody": Forgery(
        lambda r: r.zadd(ALLTIME, {f"{EARLY}:ada": -999}),
        named("forged-member", window="alltime", player="ada"),
    ),
    "another score": Forgery(
        lambda r: r.zincrby(ALLTIME, -500, next(m for m in r.zrange(ALLTIME, 0, -1) if m.endswith(b":cy"))),
        named("forged-standing", window="alltime", player="cy"),
    ),
    "a score with its slot": Forgery(
        lambda r: [
            r.zadd(ALLTIME, {f"{EARLY}:eve": -9}),
            r.hset(SLOTS, "eve", f"99999 {EARLY}:eve s"),
        ],
        named("forged-member", window="alltime", player="eve")
        | named("forged-standing", window="alltime", player="eve"),
    ),
    "a slot from the future": Forgery(
        move_to("999999  "), named("forged-standing", window="alltime", player="ada")
    ),
    "a slot that is no slot": Forgery(
        move_to("nonsense"), named("forged-standing", window="alltime", player="ada")
    ),
    "an older standing": Forgery(older_slot, named("stale-standing", window="alltime", player="ada")),
    "a member taken out": Forgery(
        lambda r: r.zremrangebyrank(ALLTIME, 0, 0), named("missing-standing", window="alltime", player="ada")
    ),
    "a window deleted": Forgery(
        lambda r: r.delete(ALLTIME, SLOTS), all_of("missing-standing", window="alltime")
    ),
    "bytes that are no text": Forgery(
        lambda r: [r.zadd(ALLTIME, {b"\xff\xfe" * 20: -5}), r.hset(SLOTS, b"\xff\x00", b"\xfe")],
        named("forged-member", window="alltime", player="\\xff\\xfe" * 20)
        | named("forged-standing", window="alltime", player="\\xff\\x00"),
    ),
    "a name changed": Forgery(lambda r: r.hset(NAMES, "bob", "Mallory"), named("wrong-name", player="bob")),
    "a name of nobody": Forgery(lambda r: r.hset(NAMES, "eve", "Eve"), named("wrong-name", player="eve")),
    "names deleted": Forgery(lambda r: r.delete(NAMES), all_of("missing-name")),
    "a baseline from the future": Forgery(
        lambda r: r.hset(BASELINES, "ada", "99999 50 1.0 1.0"), named("forged-baseline", player="ada")
    ),
    "a baseline of nobody": Forgery(
        lambda r: r.hset(BASELINES, "eve", "1 500 1.0 1.0"), named("forged-baseline", player="eve")
    ),
    "an older baseline of all": Forgery(
        lambda r: r.hset(BASELINES, "*", "1 1 1.0 0.0"), named("stale-baseline", player="*")
    ),
    "a ghost on pending": Forgery(
        lambda r: r.zadd(PENDING, {"ghost": 1}), named("forged-pending", submission="ghost")
    ),
    "a decided run on pending": Forgery(
        lambda r: r.zadd(PENDING, {"ada-1": 1}), named("stale-pending", player="ada", submission="ada-1")
    ),
    "a run taken off pending": Forgery(
        lambda r: r.zrem(PENDING, "waits-1"), named("missing-pending", player="ada", submission="waits-1")
    ),
    "a waiting run called decided": Forgery(
        lambda r: [r.zrem(PENDING, "waits-1"), r.zadd(SETTLED, {"waits-1": 1})],
        named("forged-settled", player="ada", submission="waits-1")
        | named("missing-pending", player="ada", submission="waits-1"),
    ),
    "a ghost called decided": Forgery(
        lambda r: r.zadd(SETTLED, {b"\xff": 1}), named("forged-settled", submission="\\xff")
    ),
    "a decision of next year": Forgery(
        lambda r: r.zadd(SETTLED, {"cy-1": 9e15}), named("forged-settled", player="cy", submission="cy-1")
    ),
    "open runs without an end": Forgery(
        lambda r: r.zadd(f"{BOARD}open:ada", {"run": 9e15}),
        named("forged-open-runs", player="ada", key=f"{BOARD}open:ada"),
    ),
    "open runs that end soon, in a key that stays": Forgery(
        lambda r: [
            r.zadd(f"{BOARD}open:bob", {"run": wall_clock() + 60_000}),
            r.expireat(f"{BOARD}open:bob", 9_000_000_000),
        ],
        named("forged-open-runs", player="bob", key=f"{BOARD}open:bob"),
    ),
    "an open run without an end, in a key that ends soon": Forgery(
        lambda r: [r.zadd(f"{BOARD}open:cy", {"run": 9e15}), r.expire(f"{BOARD}open:cy", 60)],
        named("forged-open-runs", player="cy", key=f"{BOARD}open:cy"),
    ),
    "a window that does not exist": Forgery(
        lambda r: r.zadd(f"{BOARD}daily:20991231", {f"{EARLY}:eve": -1}),
        named("forged-key", key=f"{BOARD}daily:20991231"),
    ),
    "a key that is none of ours": Forgery(
        lambda r: r.set(b"lb:{201}:tiny:\xff", "x"), named("forged-key", key=f"{BOARD}\\xff")
    ),
    "a limit without an end": Forgery(
        lambda r: r.set(f"{BOARD}limit:player:ada", "9" * 15),
        named("forged-key", key=f"{BOARD}limit:player:ada"),
    ),
    "a window that shall end": Forgery(lambda r: r.expire(ALLTIME, 3600), named("wrong-expiry", key=ALLTIME)),
    "names of another type": Forgery(
        of_another_type(NAMES), named("forged-key", key=NAMES) | all_of("missing-name")
    ),
    "slots of another type": Forgery(
        of_another_type(SLOTS), named("forged-key", key=SLOTS) | all_of("missing-standing", window="alltime")
    ),
    "pending of another type": Forgery(
        of_another_type(PENDING),
        named("forged-key", key=PENDING)
        | named("missing-pending", player="ada", submission="waits-1")
        | named("missing-pending", player="ada", submission="waits-2"),
    ),
}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests put into Redis is not under way to anywhere."""
    monkeypatch.setattr("gateway.steward.index.reconcile.MOMENT_S", 0)


async def check_now(duty: Duty, *, is_repaired: bool = False) -> IndexReport:
    return await check(duty.view(), is_repaired=is_repaired, in_flight_s=0)


def places(checked: IndexReport) -> set[tuple[str, str, str, str, str]]:
    return {(d.kind.value, d.window, d.player, d.submission, d.key) for d in checked.differences}


TOGETHER = (
    ("names of another type", "pending of another type"),
    ("names deleted", "an older baseline of all", "a waiting run called decided"),
    ("a score with its slot", "a slot from the future", "bytes that are no text"),
    ("a slot that is no slot",),
    ("an older standing",),
    ("a member taken out",),
    ("a window deleted",),
    ("slots of another type",),
)
"""Those that touch what others touch, or are repaired with it; all the rest can be made at once."""

ALL_BUT_THOSE = tuple(each for each in FORGERIES if not any(each in some for some in TOGETHER))
EACH_BY_ITSELF = pytest.param("sqlite", [(each,) for each in FORGERIES], id="each by itself")
SOME_AT_ONCE = [ALL_BUT_THOSE, *TOGETHER]
forged = pytest.mark.parametrize(
    ("database_server", "forgeries"),
    [
        pytest.param("sqlite", SOME_AT_ONCE, id="some at once"),
        pytest.param("postgres", SOME_AT_ONCE, id="some at once on PostgreSQL"),
        *thoroughly(EACH_BY_ITSELF),
    ],
    indirect=["database_server"],
)


def made(redis: Redis, forgeries: Sequence[str]) -> set[tuple[str, str, str, str, str]]:
    """Make the changes, and return all that they are named with."""
    for forgery in forgeries:
        FORGERIES[forgery].make(redis)
    return {each for forgery in forgeries for each in FORGERIES[forgery].named}


@forged
async def test_I26_check_names_each_difference_and_repairs_it(duty: Duty, forgeries: list[Sequence[str]]):
    """Nothing differs before; then exactly what was changed, with place and both sides; after the repair nothing."""
    await duty.fill()
    assert IndexReport((), is_complete=True, left=0) == await check_now(duty)
    for together in forgeries:
        before = duty.snapshot()
        expected = made(duty.redis, together)

        found = await check_now(duty)
        assert (together, expected) == (together, places(found))
        assert all(each.ledger != each.index for each in found.differences)
        repaired = await check_now(duty, is_repaired=True)
        assert expected <= places(repaired), together
        assert (together, 0) == (together, repaired.left)
        assert before == duty.snapshot(), together
    duty.assert_index_is_the_ledgers()


@forged
async def test_I26_the_steward_repairs_and_reports_it(duty: Duty, forgeries: list[Sequence[str]]):
    """In slices, without anybody asking: the same differences, each in the log and counted, and the board is right again."""
    await duty.fill()
    await duty.settle_down()
    for together in forgeries:
        before, counted = duty.snapshot(), count_differences()
        expected = made(duty.redis, together)

        with capture_logs() as logs:
            await duty.settle_down()
        assert before == duty.snapshot(), together
        reported = [entry for entry in logs if entry["event"] == Event.DIFFERENCE]
        fields = ("kind", "window", "player", "submission", "key")
        assert expected <= {tuple(entry[name] for name in fields) for entry in reported}, together
        assert {"tiny"} == {entry["board"] for entry in reported}
        repaired = [entry for entry in logs if entry["event"] == Event.REPAIRED]
        assert {("tiny", "warning")} == {(entry["board"], entry["log_level"]) for entry in repaired}
        assert len(reported) == sum(entry["repaired"] for entry in repaired)
        assert len(reported) == count_differences() - counted


def count_differences() -> float:
    [metric] = [each for each in REGISTRY.collect() if each.name == "scoregate_index_differences"]
    return sum(sample.value for sample in metric.samples if sample.name.endswith("_total"))


@on_both_ledgers
async def test_I26_a_ledger_restored_from_a_backup_takes_later_scores_off_the_board(duty: Duty):
    """Repair goes from ledger to index alone: rows that only the index has are removed, whatever their numbers say."""
    await duty.fill()
    for window in ("alltime", "daily:" + duty.view().policy.board):
        duty.redis.zadd(f"{BOARD}{window}", {f"{EARLY}:late": -7})
    duty.redis.hset(SLOTS, "late", f"9000 {EARLY}:late late-1")
    assert (await check_now(duty, is_repaired=True)).differences
    duty.assert_index_is_the_ledgers()


async def test_the_top_of_a_board_is_looked_at_in_every_turn(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """A forged first place does not stay until the turn of its slice comes."""
    monkeypatch.setattr("gateway.steward.index.reconcile.SLICE", 2)
    await duty.fill()
    ids = [f"many-{number}" for number in range(600)]  # too many for Redis to keep in one piece
    await asyncio.gather(*(duty.append(each, player=f"p{each}", score=1) for each in ids))
    await duty.promote(*ids)
    duty.redis.zadd(ALLTIME, {f"{EARLY}:eve": -999})
    await duty.steward.reconcile()
    assert not duty.redis.zrange(ALLTIME, 0, 0)[0].endswith(b":eve")


@on_both_ledgers
async def test_what_is_under_way_is_no_difference(duty: Duty):
    """While runs are appended and settled all the time, a check of a right index finds nothing."""
    await duty.fill()
    is_over = False

    async def settle_for_ever() -> None:
        number = 0
        while not is_over:
            number += 1
            await duty.append(f"run-{number}", player=f"p{number % 5}", score=number)
            await duty.promote(f"run-{number}")

    settling = asyncio.create_task(settle_for_ever())
    found: list[Any] = []
    for _ in range(4):
        found += (await check(duty.view(), is_repaired=False, in_flight_s=0.3)).differences
    is_over = True
    await settling
    # The runs are appended without an edge, which would note them as pending: those alone are missing for a moment.
    assert [] == [each for each in found if each.kind != "missing-pending"]


@pytest.mark.parametrize(("limit", "in_slice"), [(2, 1), (1, 2)])
async def test_a_check_names_no_more_than_its_limit(
    duty: Duty, monkeypatch: pytest.MonkeyPatch, limit: int, in_slice: int
):
    """A board that has lost everything is told of as such, not row by row for ever."""
    monkeypatch.setattr(checking, "LIMIT", limit)
    monkeypatch.setattr(checking, "SLICE", in_slice)
    await duty.fill()
    duty.redis.delete(ALLTIME, SLOTS)
    found = await check_now(duty)
    assert (False, limit) == (found.is_complete, len(found.differences))


async def test_a_check_waits_once_for_what_is_under_way_and_only_if_it_has_seen_a_difference(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """What the index is shown meanwhile is no difference; what lasts is named after one wait if nothing repairs it."""
    await duty.fill()
    await duty.settle_down()
    waits: list[float] = []
    late: list[Any] = []

    async def arrive(wait_s: float) -> None:
        waits.append(wait_s)
        for change in late:
            await duty.index.of(duty.board).project(change)

    monkeypatch.setattr(checking.asyncio, "sleep", arrive)
    found = await check(duty.view(), is_repaired=False, in_flight_s=3.0)
    assert ((), []) == (found.differences, waits)
    late += await duty.commit("waits-1")
    found = await check(duty.view(), is_repaired=False, in_flight_s=3.0)
    assert ((), [3.0]) == (found.differences, waits)
    duty.redis.hset(NAMES, "ada", "Eve")
    found = await check(duty.view(), is_repaired=False, in_flight_s=3.0)
    assert named("wrong-name", player="ada") == places(found)
    assert [3.0, 3.0] == waits


async def test_what_a_terminal_would_obey_is_shown_escaped(duty: Duty):
    """A forged value is not a way to write on the screen of who looks at it, nor to fill it."""
    await duty.fill()
    duty.redis.zadd(PENDING, {"\x1b[2J" + "x" * 5000: 1})
    [found] = (await check_now(duty)).differences
    assert found.submission.startswith("\\x1b[2Jxxx")
    assert len(found.submission) < 300


async def test_I26_a_page_with_bytes_that_are_no_text_is_unavailable_until_repaired(duty: Duty):
    """Readers are told 'not now', not an error nobody foresaw; the next turn of the steward takes it out."""
    await duty.fill()
    board = duty.index.of(duty.board)
    duty.redis.zadd(ALLTIME, {b"\xff" * 30: -999})
    with pytest.raises(Exception, match="never wrote"):
        await board.page("alltime", 0, 10)
    await duty.steward.reconcile()
    assert ["ada", "cy", "bob"] == [each.player for each in (await board.page("alltime", 0, 10)).entries]


@on_both_ledgers
async def test_standings_of_windows_that_are_over_are_not_looked_for(duty: Duty):
    """The ledger keeps a window for ever, and Redis until its own clock says so: neither is a difference."""
    await duty.fill()
    duty.clock.shift(3 * 86_400)
    found = await check_now(duty)
    assert set() == {each.kind.value for each in found.differences}


@on_both_ledgers
async def test_a_player_whose_name_is_known_to_nobody_has_none(duty: Duty):
    """A player of a game server need not be registered: no name is no difference, and a name then is one."""
    await duty.append("run-1", player="guest")
    await duty.promote("run-1", to_state=State.PROMOTED)
    await duty.steward.reconcile()
    assert not (await check_now(duty)).differences
    duty.redis.hset(NAMES, "guest", "Somebody")
    assert named("wrong-name", player="guest") == places(await check_now(duty))
    assert 0 < await duty.ledger.read(queries.newest_seq())
