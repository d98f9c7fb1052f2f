"""What is due costs, and nothing else: boards that nobody uses are in no round, and those in use come back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.edge.reads.board_reader import BoardReader
from gateway.index import keys
from gateway.index.residency import WANTED_LIMIT
from gateway.ledger.archive.windows import archived_windows_of
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.derived.board_duties import BoardDuty, DueDuty, due, noted, strike
from gateway.ledger.ledger import Ledger
from gateway.recordings.opening import recordings_of
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward import ledger_duties
from gateway.steward.agenda import merged
from gateway.steward.archive import archiving
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.wiring import open_index, open_ledger
from policies.choices import RankKind
from policies.loader import Board, load_policies
from policies.opened_board import OpenedBoard
from policies.vocabulary import Reason, State
from tests.support.clock import ShiftedClock
from tests.support.duty import be_unused
from tests.support.ledger import new_submission
from tests.support.policies import a_policy, write_policies
from tests.support.valkey import ValkeyServer

DAY_S = 86_400
DUTIES = ("reconcile", "see_to_cold", "keep_tails", "archive", "see_to_top", "draw_audits", "anchor")


class Yard:
    """A steward of one family, driven round by round."""

    def __init__(self, steward: Steward, ledger: Ledger, redis: Redis, clock: ShiftedClock) -> None:
        self.steward, self.ledger, self.redis, self.clock = steward, ledger, redis, clock
        self.terms = FamilyTerms("track", steward.catalogue.families["track"].digest)
        self.reads = 0

    async def open(self, count: int) -> None:
        opened = [OpenedBoard(f"track.b{at}", "track", title="T") for at in range(count)]
        for at in range(0, count, 1_000):
            await self.ledger.write(
                open_boards(self.terms, opened[at : at + 1_000], actor="ops", at_ms=self.clock())
            )

    async def board(self, name: str) -> Board:
        board = await self.steward.catalogue.board(name)
        assert board
        return board

    async def play(self, name: str, run: str, score: int = 5) -> None:
        """A run that is promoted, and shown."""
        new = new_submission(run, board=name, score=score, at_ms=self.clock(), recording=None)
        await self.ledger.append(new)
        await self.decide(name, run, State.PROMOTED)

    async def decide(self, name: str, run: str, state: State) -> None:
        """A decision on a run, whatever it was before."""
        decision = Decision(run, state, "replay", Reason.VERIFIED, self.clock(), frozenset(State))
        await settle(self.ledger, self.steward.index, await self.board(name), [decision])

    async def read(self, name: str) -> bool:
        """Reads a page, and returns whether the index gave it."""
        reader = BoardReader(self.steward.index.of(await self.board(name)), self.ledger)
        return (await reader.page("alltime", 0, 10, RankKind.UNIQUE)).is_from_index

    def left(self, name: str) -> list[str]:
        return sorted(key.decode() for key in self.redis.keys(f"{keys.stem(name)}*"))

    def is_whole(self, name: str) -> bool:
        return bool(self.redis.exists(keys.sentinel(name)))

    async def cost(self) -> tuple[int, int]:
        """How many statements of the ledger, and commands of Redis, a round of the duties takes."""
        before, commands = self.reads, self._commands()
        for duty in DUTIES:
            await getattr(self.steward, duty)()
        return self.reads - before, self._commands() - commands

    def _commands(self) -> int:
        stats: Any = self.redis.info("stats")
        return int(stats["total_commands_processed"])


@asynccontextmanager
async def stewarding(folder: Path, url: str) -> AsyncIterator[Yard]:
    policy = a_policy("track", writes="trusted", windows=["alltime", "daily"])
    file = write_policies(folder / "policies", policy) / "track.yaml"
    file.write_text(file.read_text().replace('"board"', '"family"', 1).replace("board:", "family:", 1))
    own = Settings(
        data_dir=folder / "data",
        policies_dir=folder / "policies",
        redis_url=url,
        redis_timeout_ms=5_000,
    )
    redis, clock = Redis.from_url(url), ShiftedClock()
    async with open_ledger(own) as ledger, open_index(own) as index:
        catalogue = Catalogue(load_policies(own.policies_dir), lambda names: ledger.read(boards_named(names)))
        parts = {"recordings": recordings_of(own), "clock": clock}
        yield Yard(Steward(own, catalogue, ledger, index, RqJobs(redis), **parts), ledger, redis, clock)
    redis.close()


@pytest.fixture
async def yard(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Yard]:
    async with stewarding(tmp_path, valkey.url) as made:
        await made.open(3)
        yield made


async def test_an_idle_round_costs_the_same_however_many_boards_are_opened(
    tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """One board is in use: the ledger is asked as often, and Redis has as many commands, with 1 board and 2,000."""
    costs = []
    for count in (1, 2_000):
        valkey.client().flushall()
        async with stewarding(tmp_path / str(count), valkey.url) as yard:
            await yard.open(count)
            await yard.play("track.b0", "run")
            for _ in range(4):  # what became due by it is done
                await yard.cost()
            _count_reads(yard, monkeypatch)
            costs.append(await yard.cost())
    assert costs[0] == costs[1]
    assert costs[0][0] < 40


def _count_reads(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Callable[..., Any] = yard.ledger.read

    async def counted(*given: Any) -> Any:
        yard.reads += 1
        return await read(*given)

    monkeypatch.setattr(yard.ledger, "read", counted)


async def test_a_board_that_was_never_played_leaves_nothing_but_that_it_is_wanted(yard: Yard):
    """The ledger answers its reader; the steward finds that there is nothing to build, and strikes it."""
    assert not await yard.read("track.b1")
    assert [] == yard.left("track.b1")[:-1]  # only the mark of use, which expires
    assert yard.redis.zscore(keys.wanted(lane_of("track.b1")), "track.b1")
    assert 0 == await yard.steward.see_to_cold()
    assert 0 == yard.redis.exists(keys.wanted(lane_of("track.b1")))
    assert not yard.is_whole("track.b1")


async def test_a_flood_of_reads_does_not_fill_redis(yard: Yard):
    """A lane has room for so many wanted boards, and the first ones stay."""
    index = yard.steward.index
    board = await yard.board("track.b0")
    wanted = keys.wanted(lane_of("track.b0"))
    yard.redis.zadd(wanted, {f"track.other{at}": at for at in range(WANTED_LIMIT - 1)})
    await index.of(board).residency.note_use(is_missed=True)
    assert WANTED_LIMIT == yard.redis.zcard(wanted)
    yard.redis.zrem(wanted, "track.b0")
    yard.redis.zadd(wanted, {"track.last": 1})
    await index.of(board).residency.note_use(is_missed=True)
    assert (WANTED_LIMIT, None) == (yard.redis.zcard(wanted), yard.redis.zscore(wanted, "track.b0"))


async def test_the_first_run_on_a_board_has_it_built(yard: Yard):
    """Its change asks for it, and from the next round on the index answers."""
    await yard.play("track.b0", "run")
    assert 1 == await yard.steward.see_to_cold()
    assert await yard.read("track.b0")
    lane = lane_of("track.b0")
    assert [1, 0] == [yard.redis.exists(key(lane)) for key in (keys.residents, keys.wanted)]


@pytest.mark.parametrize("by", ["a reader", "a change"])
async def test_a_board_in_use_comes_back_after_redis_was_emptied(yard: Yard, by: str):
    """Nothing of the sets is left either: who uses the board asks for it again, and gets all of it."""
    await yard.play("track.b0", "run")
    await yard.steward.see_to_cold()
    yard.redis.flushall()
    if by == "a reader":
        assert not await yard.read("track.b0")
    else:
        await yard.play("track.b0", "another", score=7)
    assert 1 == await yard.steward.see_to_cold()
    assert await yard.read("track.b0")


async def test_an_unused_board_of_a_family_leaves_nothing_and_comes_back(yard: Yard):
    """Not even a mark stays of it; a reader has it built as it was."""
    await yard.play("track.b0", "run")
    await yard.steward.see_to_cold()
    assert 0 == await yard.steward.see_to_cold()
    be_unused(yard.redis, "track.b0")
    assert 1 == await yard.steward.see_to_cold()
    assert [] == [name for name in yard.left("track.b0") if not name.endswith(":changes")]
    assert 0 == yard.redis.exists(*(key(lane_of("track.b0")) for key in (keys.residents, keys.idle)))
    assert not await yard.read("track.b0")
    assert 1 == await yard.steward.see_to_cold()
    assert await yard.read("track.b0")


async def test_a_resident_whose_set_was_lost_is_found_again(yard: Yard):
    """Without readers and changes as well: a walk over boards with standings looks which are whole."""
    await yard.play("track.b0", "run")
    await yard.steward.see_to_cold()
    lane = lane_of("track.b0")
    yard.redis.delete(keys.residents(lane), keys.idle(lane))
    await yard.steward.reconcile()
    assert [b"track.b0"] == yard.redis.zrange(keys.residents(lane), 0, -1)
    assert [b"track.b0"] == yard.redis.zrange(keys.idle(lane), 0, -1)


async def test_windows_that_ended_while_no_steward_ran_are_archived(yard: Yard):
    """What the log says since is noted by whoever comes next; each board's day is frozen, and has no row left."""
    assert 0 == await yard.steward.archive()
    for at in range(3):
        await yard.play(f"track.b{at}", f"run-{at}")
    yard.clock.shift(2 * DAY_S)
    while await yard.steward.archive():
        pass
    for at in range(3):
        archived = await yard.ledger.read(archived_windows_of(f"track.b{at}"))
        assert [1] == [window.entries for window in archived]
    now_ms = yard.clock()
    assert [] == await yard.ledger.read(due(BoardDuty.ARCHIVE, now_ms=now_ms, count=9))


async def test_a_window_that_waits_for_quiet_keeps_no_other_from_its_revision(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    """Steward rounds look at some of the windows with late decisions, and the next ones at those behind them."""
    monkeypatch.setattr(ledger_duties, "TAKEN", 1)
    boards = ["track.b0", "track.b1"]
    for board in boards:
        for run, score in (("first", 9), ("second", 5), ("third", 3)):
            await yard.play(board, f"{board}-{run}", score)
    yard.clock.shift(2 * DAY_S)

    async def revisions(late: str = "", *of_boards: str) -> list[int]:
        for board in of_boards:
            await yard.decide(board, f"{board}-{late}", State.REVOKED)
        for _ in range(8):
            await yard.steward.archive()
        yard.clock.shift(archiving.QUIET_MS / 1000 + 1)
        found = [await yard.ledger.read(archived_windows_of(board)) for board in boards]
        return [window.revision for [window] in found]

    told = [
        await revisions(),
        await revisions("first", *boards),
        await revisions("second", boards[0]),
    ]
    assert [[1, 1], [1, 1], [1, 2]] == told


async def test_what_became_due_again_is_not_struck(yard: Yard):
    """An event that came while a step was under way leaves the row for the next one."""
    row = DueDuty(BoardDuty.TOP, "track.b0", "", 5, 1, 1)
    await yard.ledger.write(noted([row]))
    [seen] = await yard.ledger.read(due(BoardDuty.TOP, now_ms=5, count=9))
    await yard.ledger.write(noted([row._replace(first_seq=2, last_seq=2)]))
    assert 0 == await yard.ledger.write(strike([seen]))
    assert [row._replace(last_seq=2)] == await yard.ledger.read(due(BoardDuty.TOP, now_ms=5, count=9))
    assert [] == await yard.ledger.read(due(BoardDuty.TOP, now_ms=4, count=9))
    lanes = {lane_of("track.b0")}
    assert [] == await yard.ledger.read(due(BoardDuty.TOP, now_ms=5, count=9, lanes=set(range(256)) - lanes))
    assert 1 == len(await yard.ledger.read(due(BoardDuty.TOP, now_ms=5, count=9, lanes=lanes)))


ROWS = st.lists(
    st.builds(
        lambda duty, board, at_ms, seq: DueDuty(duty, board, "", at_ms, seq, seq),
        st.sampled_from(BoardDuty), st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9),
    )
)  # fmt: skip


@settings(deadline=None)
@given(rows=ROWS)
def test_each_duty_of_a_board_has_one_row_with_the_earliest_time_and_all_its_events(rows: list[DueDuty]):
    """Whatever the order of events."""
    expected = {}
    for key in {row[:3] for row in rows}:
        of_key = [row for row in rows if row[:3] == key]
        expected[key] = (
            min(row.due_at_ms for row in of_key),
            min(row.first_seq for row in of_key),
            max(row.last_seq for row in of_key),
        )
    assert expected == {row[:3]: row[3:] for row in merged(rows)}
    assert len(expected) == len(merged(rows))
