"""Boards that nobody uses leave Redis and come back, and no change is lost whenever it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.edge.reads.board_reader import BoardReader
from gateway.index import generation as building
from gateway.index import keys
from gateway.index.board_index import Page
from gateway.index.changes import ChangeStream
from gateway.index.feed.place_watch import PlaceWatch
from gateway.index.residency import Residency
from gateway.index.scripts import Script
from gateway.index.windows.subsets import PlayerLookup
from gateway.ledger import queries
from gateway.ledger.records import OutboxRow
from gateway.ledger.standings import ranks
from gateway.recordings.opening import recordings_of
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all, project
from gateway.shared_records import Change
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index.check import check
from gateway.steward.index.cold import ColdBoard
from gateway.steward.rule_changes import RuleKeeper
from gateway.wiring import load_policies, open_index, open_ledger
from policies.choices import RankKind
from policies.errors import IndexNotWhole, RebuildRefused
from policies.loader import Policies
from policies.vocabulary import Reason, State
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.duty import Duty, be_unused
from tests.support.thorough import examples
from tests.support.valkey import ValkeyServer

BOARD = "tiny"
HOUR_MS = 3_600_000
COLD, USED, WHOLE = keys.cold(BOARD), keys.used(BOARD), keys.sentinel(BOARD)


def settings_of(folder: Path, valkey: ValkeyServer, **policy: Any) -> Settings:
    boards.write_board(
        folder / "policies",
        **{"cold_after_h": 1, "windows": ["alltime", "daily"], "ranks": [*RankKind]} | policy,
    )
    return Settings(
        data_dir=folder / "data",
        policies_dir=folder / "policies",
        redis_url=valkey.url,
        redis_timeout_ms=5_000,
    )


@asynccontextmanager
async def open_duty(settings: Settings) -> AsyncIterator[Duty]:
    known, redis = load_policies(settings), Redis.from_url(settings.redis_url)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
        steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(redis), **parts)
        yield Duty(settings, known[BOARD], ledger, steward, redis)
    redis.close()


@pytest.fixture
async def duty(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Duty]:
    async with open_duty(settings_of(tmp_path, valkey)) as each:
        await each.fill()
        await each.settle_down()
        yield each


async def idle(duty: Duty) -> None:
    """The board is cold, since nobody used it for its hour."""
    be_unused(duty.redis, BOARD)
    assert 1 == await duty.steward.see_to_cold()


def reader_of(duty: Duty) -> BoardReader:
    index = duty.index.of(duty.board)
    index.guard()
    return BoardReader(index, duty.ledger)


async def by_ledger(duty: Duty, kind: RankKind = RankKind.UNIQUE) -> Page:
    index = duty.index.of(duty.board)
    answer = await duty.ledger.read(ranks.page_of(index.ranking, "alltime", 0, 100, kind))
    return index.page_of("alltime", kind, answer)


async def test_an_idle_board_leaves_redis_and_is_no_difference(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Its windows and what follows from them go in one step; what is no window's stays, a check has nothing to say, and no round looks at it."""
    before = set(duty.redis.keys("lb:{201}:tiny:*"))
    await idle(duty)
    kept = {b"pending", b"settled", b"baselines", b"cold"}
    assert kept == {key.rpartition(b":")[2] for key in duty.redis.keys("lb:{201}:tiny:*")}
    assert len(before) > len(kept)
    looked_at, state = [], Residency.state

    async def look(residency: Residency) -> Any:
        looked_at.append(residency)
        return await state(residency)

    with monkeypatch.context() as patch:
        patch.setattr(Residency, "state", look)
        assert (0, []) == (await duty.steward.reconcile(), looked_at)
    assert [] == await duty.differences()
    assert 0 == await duty.steward.see_to_cold()


async def test_a_key_of_a_window_is_a_difference_while_the_board_is_cold(duty: Duty):
    """A part of a window would pass for all of it: it is named, and goes."""
    await idle(duty)
    duty.redis.zadd(keys.window(BOARD, "alltime"), {"forged": 1})
    found = await check(duty.view(), is_repaired=True, in_flight_s=0)
    assert [("forged-key", keys.window(BOARD, "alltime"))] == [
        (str(each.kind), each.key) for each in found.differences
    ]
    assert 0 == found.left
    assert not duty.redis.exists(keys.window(BOARD, "alltime"))


@pytest.mark.parametrize("why", ["used", "lease"])
async def test_a_board_in_use_stays(duty: Duty, why: str):
    """Somebody came between the look and the step, or is rebuilding it: then nothing is taken away."""
    key = USED if why == "used" else keys.lease(BOARD)
    duty.redis.delete(USED)
    duty.redis.set(key, "1")
    held = set(duty.redis.keys("lb:{201}:tiny:*"))
    assert not await duty.index.of(duty.board).residency.evict([keys.window(BOARD, "alltime")], now_ms=1)
    assert held == set(duty.redis.keys("lb:{201}:tiny:*"))


async def test_a_fold_waits_for_who_builds_a_cold_board(duty: Duty):
    """What is built may have been read before the fold; a cold board that nobody builds is left as it is."""
    await idle(duty)
    catalogue = Catalogue(Policies({BOARD: duty.board}))
    keeper = RuleKeeper(duty.ledger, duty.index, catalogue, clock=duty.clock)
    await keeper._build(duty.board)
    assert duty.redis.exists(COLD)
    duty.redis.set(keys.lease(BOARD), "another", px=60_000)
    with pytest.raises(RebuildRefused):
        await keeper._build(duty.board)


async def test_a_reader_is_answered_at_once_and_brings_the_board_back(duty: Duty):
    """From the ledger while it is cold, with the ranks that the index gave; from the index when it is there again."""
    reader = reader_of(duty)
    shown = [(await reader.page("alltime", 0, 100, kind)).page for kind in RankKind]
    await idle(duty)
    cold = [await reader.page("alltime", 0, 100, kind) for kind in RankKind]
    assert [(page, False) for page in shown] == [(each.page, each.is_from_index) for each in cold]
    assert 1 == await duty.steward.see_to_cold()
    warm = [await reader.page("alltime", 0, 100, kind) for kind in RankKind]
    assert [(page, True) for page in shown] == [(each.page, each.is_from_index) for each in warm]
    assert not duty.redis.exists(COLD)
    duty.assert_index_is_the_ledgers()
    assert 0 == await duty.steward.see_to_cold()


async def test_a_board_that_was_emptied_has_its_idle_time_anew(duty: Duty):
    """With Redis it is forgotten when it was used last: its time begins as soon as it is rebuilt."""
    assert 0 == await duty.steward.see_to_cold()
    duty.redis.flushall()
    assert 0 == await duty.steward.see_to_cold()
    await duty.settle_down()
    assert 0 == await duty.steward.see_to_cold()
    assert [1, 0] == [duty.redis.exists(key) for key in (USED, COLD)]
    assert HOUR_MS - 60_000 < duty.redis.pttl(USED) <= HOUR_MS


async def test_a_board_of_which_nobody_knows_when_it_was_used_has_its_whole_time(duty: Duty):
    """Its mark of use and its lane's set are lost: the next look begins its time, and does not end it."""
    duty.redis.delete(USED, keys.idle(lane_of(BOARD)))
    assert 0 == await duty.steward.see_to_cold()
    await duty.steward.reconcile()
    assert 0 == await duty.steward.see_to_cold()
    assert [0, 1] == [duty.redis.exists(key) for key in (COLD, WHOLE)]
    duty.clock.shift(3_601)
    assert 1 == await duty.steward.see_to_cold()


async def test_that_a_board_left_or_came_back_is_in_the_log(duty: Duty):
    """Once each, with the board, and with how many entries it has again; a look that does nothing says nothing."""
    reader = reader_of(duty)
    with capture_logs() as logs:
        await idle(duty)
        assert 0 == await duty.steward.see_to_cold()
        await reader.page("alltime", 0, 100, RankKind.UNIQUE)
        assert 1 == await duty.steward.see_to_cold()
        assert 0 == await duty.steward.see_to_cold()
    rebuilt = await duty.rebuilder().rebuild()
    evicted = {"event": Event.EVICTED, "board": BOARD, "log_level": "info"}
    warmed = {"event": Event.WARMED, "board": BOARD, "restored": rebuilt.entries, "log_level": "info"}
    assert [evicted, warmed] == logs


async def test_two_stewards_warm_a_board_once(duty: Duty):
    """The second finds the first at it, and does nothing."""
    await idle(duty)
    await reader_of(duty).page("alltime", 0, 1, RankKind.UNIQUE)
    index, policy = duty.index.of(duty.board), duty.board.policy
    stewards = [ColdBoard(duty.ledger, index, policy, clock=duty.clock) for _ in range(3)]
    assert [False, False, True] == sorted(await asyncio.gather(*(each.warm() for each in stewards)))


async def test_a_write_to_a_cold_board_makes_no_part_of_a_window(duty: Duty):
    """The ledger has it, the pending set and the feed hear of it once, and the board comes back with it."""
    await idle(duty)
    before = duty.redis.xlen(keys.changes(BOARD))
    await duty.append("late", player="dot", score=9)
    await duty.promote("late")
    row = OutboxRow(await duty.ledger.read(queries.newest_seq()), "project", "late", BOARD, "dot", 0, 0, 0)
    [change] = await duty.ledger.read(duty.steward._in_outbox._changes_of([row]))
    await duty.index.project(duty.board, [change])
    assert before + 2 == duty.redis.xlen(keys.changes(BOARD))  # one for each window
    assert not duty.redis.keys("lb:{201}:tiny:alltime*")
    duty.index.of(duty.board).residency._noted_s = float("-inf")
    await duty.index.project(duty.board, [change])
    assert 1 == await duty.steward.see_to_cold()
    duty.assert_index_is_the_ledgers()


async def test_who_needs_the_windows_themselves_comes_again(duty: Duty):
    """Friends, groups and lists of players are made in Redis: for a cold board they are refused, and it is asked for."""
    await idle(duty)
    index = duty.index.of(duty.board)
    reader, listed = BoardReader(index, duty.ledger), PlayerLookup(index)
    with pytest.raises(IndexNotWhole):
        await reader.indexed(listed.entries("alltime", ["ann"]), if_unplayed=None)
    assert 1 == await duty.steward.see_to_cold()
    await reader.indexed(listed.entries("alltime", ["ann"]), if_unplayed=None)


async def test_a_board_that_is_read_in_part_alone_stays(duty: Duty):
    """Who reads friends, groups or lists of players uses it as much as who reads pages."""
    duty.redis.delete(USED)
    async with open_duty(duty.settings) as other:
        listed = PlayerLookup(other.index.of(other.board))
        await reader_of(other).indexed(listed.entries("alltime", ["ada"]), if_unplayed=None)
    assert [1, 0] == [duty.redis.exists(USED), await duty.steward.see_to_cold()]


async def test_a_board_that_may_no_longer_go_cold_comes_back(
    duty: Duty, tmp_path: Path, valkey: ValkeyServer
):
    """Taking `cold_after_h` out of the policy is enough."""
    await idle(duty)
    async with open_duty(settings_of(tmp_path, valkey, cold_after_h=None)) as other:
        await other.steward.reconcile()
        assert 1 == await other.steward.see_to_cold()
        other.assert_index_is_the_ledgers()


async def test_a_cold_board_that_is_emptied_with_redis_is_rebuilt(duty: Duty):
    """The mark goes with the rest: then the reconciler does what it does for every board."""
    await idle(duty)
    duty.redis.flushall()
    assert 0 < await duty.steward.reconcile()
    duty.assert_index_is_the_ledgers()


class Interleaved:
    """Lets writers and readers in between any two things that the steward asks of Redis or of the ledger."""

    def __init__(self, meanwhile: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        self._meanwhile = meanwhile
        self._is_inside = False
        self.steps = 0

    def around(self, asked: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        async def ask(*given: Any, **named: Any) -> Any:
            if not self._is_inside:
                self._is_inside = True
                await self._meanwhile(self.steps)
                self.steps += 1
                self._is_inside = False
            return await asked(*given, **named)

        return ask


WRITES = st.lists(
    st.tuples(
        st.integers(0, 45),
        st.integers(0, 25),
        st.sampled_from(["ada", "dot"]),
        st.one_of(st.none(), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=4,
)
"""When a write is committed, how much later it is shown, whose, and its score; None takes the player's last one back."""


@settings(
    max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(writes=WRITES)
def test_no_update_is_lost_whenever_it_comes(tmp_path_factory: Any, valkey: ValkeyServer, writes: Any):
    """At every moment of eviction and warming: the index ends as the ledger, and readers in between see what is shown."""
    folder = tmp_path_factory.mktemp("cold")
    with valkey.client() as client:
        client.flushall()
    asyncio.run(_assert_no_update_is_lost(settings_of(folder, valkey), writes))


async def _assert_no_update_is_lost(settings_: Settings, writes: Any) -> None:
    async with open_duty(settings_) as duty:
        await duty.append("first", player="ada", score=1)
        await duty.promote("first")
        await duty.steward.reconcile()
        reader, patch = reader_of(duty), pytest.MonkeyPatch()
        writer = _Writer(duty, writes)

        async def meanwhile(step: int) -> None:
            await writer.go_on(step)
            if not writer.unshown:
                found = await reader.page("alltime", 0, 100, RankKind.UNIQUE)
                assert await by_ledger(duty) == found.page

        between = Interleaved(meanwhile)
        be_unused(duty.redis, BOARD)
        with patch.context() as patched:
            patched.setattr(Script, "__call__", _method(between, Script.__call__))
            patched.setattr(building, "transact", between.around(building.transact))
            patched.setattr(duty.ledger, "read", between.around(duty.ledger.read))
            await duty.steward.see_to_cold()
            await reader.index.residency.note_use(is_missed=True)
            await duty.steward.see_to_cold()
        await writer.go_on(10_000)
        await duty.steward.see_to_cold()
        assert not duty.redis.exists(COLD)
        await duty.settle_down()
        duty.assert_index_is_the_ledgers()


def _method(between: Interleaved, asked: Any) -> Any:
    """A method for a class, not for an instance."""

    async def ask(self: Any, *given: Any) -> Any:
        return await between.around(asked)(self, *given)

    return ask


class _Writer:
    """Commits and shows at given steps, as settlement does one right after the other."""

    def __init__(self, duty: Duty, writes: Any) -> None:
        self._duty = duty
        self._due = sorted(
            (at, number, at + later, player, score)
            for number, (at, later, player, score) in enumerate(writes)
        )
        self.unshown: list[tuple[int, list[Change]]] = []
        self._last = {"ada": "first"}

    async def go_on(self, step: int) -> None:
        while self._due and self._due[0][0] <= step:
            _, number, shown_at, player, score = self._due.pop(0)
            self.unshown.append((shown_at, await self._commit(f"w{number}", player, score)))
        for each in [each for each in self.unshown if each[0] <= step]:
            await project(self._duty.ledger, self._duty.index, self._duty.board, each[1])
            self.unshown.remove(each)

    async def _commit(self, name: str, player: str, score: int | None) -> list[Change]:
        to_state = State.PROMOTED
        if score is None:
            if (name := self._last.pop(player, "")) == "":
                return []
            to_state = State.REVOKED
        else:
            await self._duty.append(name, player=player, score=score)
            self._last[player] = name
        decision = Decision(name, to_state, "replay", Reason.VERIFIED, self._duty.clock(), frozenset(State))
        _, changes = await self._duty.ledger.write(_decide_all(self._duty.board, [decision]))
        return changes


async def test_the_feed_tells_of_a_cold_board_without_ranks(duty: Duty):
    """Who follows it hears of the change, with the score and no rank, and no watched player's rank is guessed."""
    await idle(duty)
    await duty.append("late", player="dot", score=9)
    await duty.promote("late")
    stream = ChangeStream(duty.index.client, duty.board.ranking)
    [*_, change] = stream.changes_in(await duty.index.client.xrange(keys.changes(BOARD)))
    assert ("dot", 9, None) == (change.player, change.score, change.rank)
    assert [] == await PlaceWatch(stream, ["dot"]).follow(change)


async def test_a_watched_rank_is_right_again_once_the_board_is_back(duty: Duty):
    """What came while it was cold moved others unseen: where the watched stand is read again."""
    stream = ChangeStream(duty.index.client, duty.board.ranking)
    watch = PlaceWatch(stream, ["bob"])

    async def moved_by(player: str, score: int) -> list[tuple[int | None, int | None]]:
        await duty.append(f"of-{player}", player=player, score=score)
        await duty.promote(f"of-{player}")
        entries = await duty.index.client.xrange(keys.changes(BOARD))
        [*_, change] = [each for each in stream.changes_in(entries) if each.window == "alltime"]
        return [(each.was_rank, each.rank) for each in await watch.follow(change)]

    assert [(3, 4)] == await moved_by("dot", 9)
    await idle(duty)
    assert [] == await moved_by("eve", 8)
    assert 1 == await duty.steward.see_to_cold()  # it was asked for by the change
    assert [(5, 6)] == await moved_by("fay", 7)
