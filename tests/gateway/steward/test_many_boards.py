"""Many boards under one steward: every kind that the loader takes, one that fails among others, and one with many groups."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.index import keys
from gateway.index.groups.segments import SegmentBoards
from gateway.ledger.archive.windows import archived_windows_of
from gateway.ledger.players.joins import put_join
from gateway.ledger.players.memberships import change_membership
from gateway.runtime.telemetry import Event
from gateway.steward.failures import FORGOTTEN_S, Failures
from gateway.steward.index.check import check
from gateway.steward.index.rebuild import RebuildCounts, Rebuilder
from gateway.steward.rounds import AT_ONCE, Round, Step
from policies.errors import IndexUnavailable, LedgerUnavailable
from policies.vocabulary import State
from tests.support.cluster import ValkeyCluster
from tests.support.duty import Duty, be_unused
from tests.support.many import stewarding
from tests.support.metrics import metric
from tests.support.policies import a_policy
from tests.support.valkey import ValkeyServer

DAY_S = 86_400
MEMBERS = 300
PLAYERS = ("ada", "bob", "cy", "dot", "eve")
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"ranges": [20, 50]},
    {"shards": 2},
    {"exact_ranks": 10},
    {"segments": ["country", "club"]},
    {"ranges": [30], "segments": ["country"]},
    {"cold_after_h": 1, "ranges": [10, 20, 30]},
    {"cold_after_h": 1, "segments": ["club"]},
)
TIES: tuple[dict[str, Any], ...] = (
    {"tie_break": "first"},
    {"tie_break": "composite", "tie_resolution_ms": 60_000},
    {"tie_break": "fields", "tie_fields": [{"stat": "moves", "order": "ascending"}, {"stat": "hits"}]},
)
OPERATORS = ("best", "latest", "sum", "count")
OPERATORS = ("best", "latest", "sum", "count")


def kinds() -> list[dict[str, Any]]:
    """A policy for every shape and tie-break; what else a policy has takes turns, so that each meets all of the others."""
    found = []
    for (at, shape), (turn, tie) in product(enumerate(SHAPES), enumerate(TIES)):
        is_composite = tie["tie_break"] == "composite"
        others = {
            "operator": OPERATORS[(at + turn) % (2 if is_composite else 4)],
            "order": ("descending", "ascending")[(at + turn) % 2],
            "ranks": [("sparse" if (at + turn) % 3 == 0 or "shards" in shape else "dense"), "unique"],
            "joins": ("open", "required")[(at + turn) % 3 == 1],
            "windows": ["alltime", "daily"],
            "score": {"minimum": 0, "maximum": 100},
        }
        if (at + turn) % 4 == 0:
            others |= {"windows": ["daily", "weekly", "season"], "season": "0 10 1 * *"}
        found.append(a_policy(f"kind-{at}-{turn}", writes="trusted", **others, **shape, **tie))
    return found


async def fill(duty: Duty) -> None:
    """Two runs of each player, of whom one left the board and one lost a run."""
    board = duty.board
    if board.policy.joins == "required":
        for player in PLAYERS[:4]:
            await join(duty, player)
    for player in PLAYERS[:3] if board.policy.segments else ():
        groups = dict.fromkeys(board.policy.segments, f"of-{player}")
        await duty.ledger.write(change_membership(board.name, player, groups))
    ids = [f"{board.name}-{player}-{score}" for player in PLAYERS for score in (7, 45)]
    for submission_id in ids:
        _, player, score = submission_id.rsplit("-", 2)
        await duty.append(submission_id, board=board.name, player=player, score=int(score))
    await duty.promote(*ids)
    await duty.promote(ids[1], to_state=State.REVOKED)


async def join(duty: Duty, player: str) -> None:
    facts = {"joins_now": True, "actor": "player", "at_ms": duty.clock()}
    await duty.ledger.write(lambda tx: put_join(tx, duty.board.name, player, **facts))


async def mend(duties: dict[str, Duty]) -> None:
    steward = next(iter(duties.values())).steward
    while await steward.reconcile():
        pass
    assert () == steward.failures.now()


async def wrong(duties: dict[str, Duty]) -> dict[str, list[Any]]:
    found = {name: await duty.differences() for name, duty in duties.items()}
    return {name: each for name, each in found.items() if each}


async def test_B03_every_kind_of_board_is_checked_rebuilt_archived_and_goes_cold(
    tmp_path: Path, valkey: ValkeyServer
):
    """Whatever the loader takes together, the steward sees to: nothing fails, and nothing differs in the end."""
    async with stewarding(tmp_path, valkey.url, kinds()) as duties:
        one = next(iter(duties.values()))
        for duty in duties.values():
            await fill(duty)
        await mend(duties)
        for name in duties:  # what no window bears, or no text, as whoever can write to Redis can make it
            one.redis.zadd(f"{keys.stem(name)}segment:country:x:nonsense", {"eve": 1})
            one.redis.zadd(f"{keys.stem(name)}season:2", {"eve": 1})
            one.redis.zadd(f"{keys.stem(name)}segment:".encode() + b"\xff:x:alltime", {"eve": 1})
        repaired = [await check(each.view(), is_repaired=True, in_flight_s=0) for each in duties.values()]
        assert [(3, 0)] * len(duties) == [(len(each.differences), each.left) for each in repaired]
        one.redis.flushall()
        await mend(duties)
        assert {} == await wrong(duties)
        limited = {name: duty for name, duty in duties.items() if duty.board.policy.cold_after_h}
        await see_to_cold(limited)
        assert {} == await wrong(limited)
        one.clock.shift(2 * DAY_S)
        assert await one.steward.archive()
        for name in duties:
            archived = await one.ledger.read(archived_windows_of(name))
            assert "daily" in {each.window.partition(":")[0] for each in archived if each.entries}


async def see_to_cold(duties: dict[str, Duty]) -> None:
    """Takes these boards out of Redis, checks them there, and has them come back."""
    steward = next(iter(duties.values())).steward
    for name, duty in duties.items():
        be_unused(duty.redis, name)
    assert len(duties) == await steward.see_to_cold()
    assert {} == await wrong(duties)
    for duty in duties.values():
        await duty.index.of(duty.board).residency.note_use(is_missed=True)
    assert len(duties) == await steward.see_to_cold()


async def test_B03_a_board_that_fails_keeps_no_other_from_its_turn(
    tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """The others are seen to in the same round; the failure is counted, and named until it is over."""
    names = ("first", "second", "third")
    policies = [a_policy(name, writes="trusted") for name in names]
    async with stewarding(tmp_path, valkey.url, policies) as duties:
        steward, rebuild, redis = duties["first"].steward, Rebuilder.rebuild, duties["first"].redis

        async def failing(rebuilder: Rebuilder) -> RebuildCounts:
            if rebuilder._board == "first":
                raise ValueError("a bug")
            return await rebuild(rebuilder)

        before = failures_of("reconcile", "first")
        with monkeypatch.context() as patched:
            patched.setattr(Rebuilder, "rebuild", failing)
            await steward.reconcile()
        assert [0, 1, 1] == [redis.exists(keys.sentinel(name)) for name in names]
        assert ("reconcile:first",) == steward.failures.now()
        assert before + 1 == failures_of("reconcile", "first")
        await steward.reconcile()
        assert ((), 1) == (steward.failures.now(), redis.exists(keys.sentinel("first")))


async def test_B03_a_lease_that_never_ends_is_nobodys(tmp_path: Path, valkey: ValkeyServer):
    """Ours expire. What stands there for ever was never ours, and would keep a board from ever being whole."""
    async with stewarding(tmp_path, valkey.url, [a_policy("first", writes="trusted")]) as duties:
        redis = duties["first"].redis
        redis.hset(keys.lease("first"), "not", "a lease")
        await duties["first"].steward.reconcile()
        assert redis.exists(keys.sentinel("first"))


def failures_of(duty: str, board: str) -> float:
    return metric("scoregate_duty_failures_total", duty=duty, board=board)


async def test_B03_a_failure_is_logged_once_until_it_changes(capsys: pytest.CaptureFixture[str]):
    """What fails round after round has a line when it begins, and again when it failed, worked, and failed again."""
    failures = Failures()
    for _ in range(50):
        failures.note("archive", "tiny", IndexUnavailable("no"))
    failures.clear("archive", "tiny")
    failures.note("archive", "tiny", IndexUnavailable("no"))
    assert 2 == capsys.readouterr().out.count("duty_failed")


def test_B03_what_fails_is_known_until_it_works_and_logged_each_minute(monkeypatch: pytest.MonkeyPatch):
    """By duty and board, whatever the error; each is counted, and one that goes on failing has a line a minute."""
    now_s = 1000.0
    monkeypatch.setattr("gateway.steward.failures.time.monotonic", lambda: now_s)
    failures, before = Failures(), failures_of("archive", "tiny")
    with capture_logs() as logs:
        for moment_s in (1000.0, 1059.0, 1060.0, 1061.0):
            now_s = moment_s
            failures.note("archive", "tiny", IndexUnavailable("no"))
        failures.note("seal", "", ValueError("nobody foresaw this"))
    assert before + 4 == failures_of("archive", "tiny")
    said = {"event": Event.DUTY_FAILED, "duty": "archive", "board": "tiny", "log_level": "warning"}
    said |= {"error": "IndexUnavailable: no"}
    assert [said, said] == logs[:2]
    [unforeseen] = logs[2:]
    assert ("unexpected", "duty", "seal", "") == tuple(
        unforeseen[name] for name in ("event", "place", "duty", "board")
    )
    assert ("archive:tiny", "seal") == failures.now()
    failures.clear("archive", "other")
    failures.clear("seal", "")
    assert ("archive:tiny",) == failures.now()
    failures.clear("archive", "tiny")
    assert () == failures.now()


def test_a_failure_on_a_board_that_is_tried_no_more_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    """It may be due never again, or its lane may be another steward's; a whole duty is tried for ever."""
    now_s = 1000.0
    monkeypatch.setattr("gateway.steward.failures.time.monotonic", lambda: now_s)
    failures = Failures()
    for duty, board in (("archive", "one"), ("archive", "two"), ("seal", "")):
        failures.note(duty, board, IndexUnavailable("no"))
    now_s += FORGOTTEN_S - 1
    failures.note("archive", "two", IndexUnavailable("no"))
    assert ("archive:one", "archive:two", "seal") == failures.now()
    now_s += 1
    assert ("archive:two", "seal") == failures.now()
    now_s += FORGOTTEN_S
    failures.note("archive", "one", IndexUnavailable("no"))
    assert ("archive:one", "seal") == failures.now()


async def test_B03_a_board_that_takes_long_holds_up_no_other():
    """It goes on beside the rounds, is not begun again meanwhile, and is ended with the steward."""
    done, begun, may_end = [], [], asyncio.Event()

    async def endless() -> int:
        begun.append("slow")
        await may_end.wait()
        return 5

    async def quick() -> int:
        done.append("quick")
        return 1

    turns, steps = Round("reconcile", Failures(), patience_s=0), {"slow": endless, "quick": quick}
    while len(done) < 3:
        await turns.step(steps)
    assert ["slow"] == begun
    may_end.set()
    while 5 not in done:
        done.append(await turns.step(steps) - 1)
    await turns.aclose()


async def test_B03_a_round_ends_when_there_is_no_ledger():
    """No board has one then: it is tried on those at once alone, and it is the duty's failure, once."""
    tried: list[int] = []

    async def no_ledger() -> int:
        tried.append(1)
        raise LedgerUnavailable

    turns = Round("archive", Failures())
    with pytest.raises(LedgerUnavailable):
        await turns.step({f"b{number}": no_ledger for number in range(2 * AT_ONCE)})
    assert AT_ONCE == len(tried)
    assert 0 == await turns.step({})


async def test_a_board_whose_pages_are_damaged_keeps_no_other_from_its_turn():
    """Its ledger is there for the others; that it was not for one is told once they have had their turns."""
    tried: list[str] = []

    def step(name: str) -> Step:
        async def work() -> int:
            tried.append(name)
            if name == "b0":
                raise LedgerUnavailable("database disk image is malformed")
            return 1

        return work

    names = [f"b{number}" for number in range(4 * AT_ONCE)]
    turns = Round("archive", Failures())
    with pytest.raises(LedgerUnavailable):
        await turns.step({name: step(name) for name in names})
    assert names == tried


async def test_boards_have_their_turns_side_by_side_and_no_more_than_a_few():
    """Each waits for its database most of the time; those that take long leave less room for the others."""
    at_work, seen, may_end = set[str](), list[int](), asyncio.Event()

    def step(name: str, *, is_slow: bool) -> Step:
        async def work() -> int:
            at_work.add(name)
            seen.append(len(at_work))
            await (may_end.wait() if is_slow else asyncio.sleep(0))
            at_work.discard(name)
            return 1

        return work

    turns = Round("reconcile", Failures(), patience_s=0)
    slow = {f"slow{number}": step(f"slow{number}", is_slow=True) for number in range(AT_ONCE - 1)}
    quick = {f"quick{number}": step(f"quick{number}", is_slow=False) for number in range(20)}
    async with asyncio.timeout(30):
        assert 20 == await turns.step(slow | quick) + await turns.step({})
        assert AT_ONCE == max(seen)
        may_end.set()
        late = 0
        while late < AT_ONCE - 1:
            await asyncio.sleep(0)
            late += await turns.step({})


@pytest.mark.parametrize("where", ["cluster", "server"])
async def test_B02_a_board_of_many_groups_is_rebuilt_whole(
    tmp_path: Path, valkey: ValkeyServer, cluster: ValkeyCluster, where: str
):
    """However many players are in groups: each stands in its own again before the board is said to be whole."""
    url = cluster.url if where == "cluster" else valkey.url
    policies = [
        a_policy("clubs", writes="trusted", segments=["club"], windows=["alltime", "daily", "weekly"])
    ]
    async with stewarding(tmp_path, url, policies, queue_url=valkey.url) as duties:
        duty = duties["clubs"]
        ids = [f"run-{at}" for at in range(MEMBERS)]
        await asyncio.gather(
            *(duty.append(each, board="clubs", player=f"p{at}", score=at) for at, each in enumerate(ids))
        )
        for at in range(MEMBERS):
            await duty.ledger.write(change_membership("clubs", f"p{at}", {"club": f"c{at % 2}"}))
        await duty.promote(*ids)
        cluster.empty() if where == "cluster" else duty.redis.flushall()
        await duty.rebuilder().rebuild()
        segments = SegmentBoards(duty.index.of(duty.board), ("club",))
        totals = [(await segments.page("alltime", "club", f"c{at}", 0, 1)).total for at in (0, 1)]
        assert [MEMBERS // 2, MEMBERS // 2] == totals
        assert [] == await duty.differences()


async def test_B02_a_board_whose_groups_failed_is_not_said_to_be_whole(
    tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """Its sentinel is gone until all groups are there, so readers are never told that a part is all."""
    async with stewarding(
        tmp_path, valkey.url, [a_policy("clubs", writes="trusted", segments=["club"])]
    ) as duties:
        duty = duties["clubs"]
        await duty.append("run", board="clubs", score=5)
        await duty.ledger.write(change_membership("clubs", "ada", {"club": "red"}))
        await duty.promote("run")
        await duty.steward.reconcile()

        async def refused(*_: Any) -> None:
            raise IndexUnavailable

        with monkeypatch.context() as patched:
            patched.setattr(SegmentBoards, "keep", refused)
            with pytest.raises(IndexUnavailable):
                await duty.rebuilder().rebuild()
        assert not duty.redis.exists(keys.sentinel("clubs"))
        assert 0 < await duty.steward.reconcile()
        assert duty.redis.exists(keys.sentinel("clubs"))
