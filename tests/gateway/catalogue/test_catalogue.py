"""What a process knows of the boards of families: read when they are asked for, never more than it may keep."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.catalogue import catalogue as rooms
from gateway.catalogue.catalogue import Catalogue
from policies.errors import LedgerOverloaded, LedgerUnavailable
from policies.loader import Policies, load_policies
from policies.opened_board import BoardState, NarrowedBounds, NarrowedScore, OpenedBoard
from tests.support.boards import write_board
from tests.support.families import write_family


class Rows:
    """Rows of boards, and what was asked of them."""

    def __init__(self, *names: str) -> None:
        self.boards = {name: OpenedBoard(name, "track", name) for name in names}
        self.queries: list[list[str]] = []
        self.is_down = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def look_up(self, names: Sequence[str]) -> Mapping[str, OpenedBoard]:
        self.queries.append(list(names))
        await self.may_answer.wait()
        if self.is_down:
            raise LedgerUnavailable("away")
        return {name: self.boards[name] for name in names if name in self.boards}

    def change(self, name: str, **facts: Any) -> None:
        self.boards[name] = replace(self.boards[name], version=self.boards[name].version + 1, **facts)


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    write_board(tmp_path, "tiny")
    write_family(tmp_path)
    return load_policies(tmp_path)


def opened(policies: Policies, rows: Rows, now_s: list[float], **options: Any) -> Catalogue:
    return Catalogue(policies, rows.look_up, clock=lambda: now_s[0], **options)


async def test_what_no_family_can_have_costs_no_query(policies: Policies):
    """Boards of files are in memory, and a name that is no family's is nobody's; what nobody opened is asked for."""
    rows = Rows()
    catalogue = opened(policies, rows, [0.0])
    for name in ("", "other", "track", "other.a", "track.", "track.a.b", "track.ä", "Track.a", "track.a/b"):
        assert await catalogue.board(name) is None
    assert (await catalogue.board("tiny")) is policies.boards["tiny"]
    assert [] == rows.queries
    assert await catalogue.board("track.a") is None
    assert [["track.a"]] == rows.queries
    assert await Catalogue(policies).board("track.a") is None


async def test_what_is_asked_at_the_same_moment_is_one_query(policies: Policies):
    """Each name once, by whomever; nothing is kept of a name without a board."""
    rows = Rows("track.a", "track.b")
    catalogue = opened(policies, rows, [0.0])
    names = ["track.b", "track.a", "tiny", "track.none", "track.b", "other"]
    found, again = await asyncio.gather(catalogue.boards(names), catalogue.boards(["track.a"]))
    assert {"track.b", "track.a", "tiny"} == found.keys()
    assert found["track.a"] is again["track.a"]
    assert [["track.b", "track.a", "track.none"]] == rows.queries
    assert 2 == len(catalogue.cache)


async def test_a_board_is_read_again_when_it_is_used_and_old(policies: Policies):
    """Not within a second; within the next beside its use; from two seconds on before it. The same row is the same board."""
    rows, now_s = Rows("track.a"), [100.0]
    catalogue = opened(policies, rows, now_s)
    first = await catalogue.board("track.a")
    rows.change("track.a", state=BoardState.CLOSED)
    told = []
    for at_s in (100.9, 101.1, 101.2):
        now_s[0] = at_s
        board = await catalogue.board("track.a")
        assert board
        assert board.opened
        told.append((board.opened.state, len(rows.queries)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert [(BoardState.OPEN, 1), (BoardState.OPEN, 1), (BoardState.CLOSED, 2)] == told
    closed = await catalogue.board("track.a")
    assert closed is not first
    rows.change("track.a", state=BoardState.OPEN)
    now_s[0] = 103.3
    reopened = await catalogue.board("track.a")
    assert reopened
    assert reopened.opened
    assert BoardState.OPEN is reopened.opened.state
    now_s[0] = 105.5
    assert reopened is await catalogue.board("track.a")
    assert 4 == len(rows.queries)


async def test_a_read_beside_a_use_is_one_however_many_use_it(policies: Policies):
    """While the ledger takes its time nobody queues the same question again, and the next second asks anew."""
    rows, now_s = Rows("track.a"), [100.0]
    catalogue = opened(policies, rows, now_s)
    await catalogue.board("track.a")
    now_s[0] = 101.5
    rows.may_answer.clear()
    for _ in range(50):
        assert await catalogue.board("track.a")
        await asyncio.sleep(0)
    assert 2 == len(rows.queries)
    rows.may_answer.set()
    await asyncio.sleep(0.01)
    now_s[0] = 103.0
    await catalogue.board("track.a")
    await asyncio.sleep(0.01)
    assert [["track.a"]] * 3 == rows.queries


async def test_without_the_ledger_what_is_known_is_served(
    policies: Policies, monkeypatch: pytest.MonkeyPatch
):
    """A refused read and one that hangs, of which a second's uses wait for one; what is not known is not told as nothing."""
    monkeypatch.setattr(rooms, "PATIENCE_S", 0.01)
    rows, now_s = Rows("track.a"), [100.0]
    catalogue = opened(policies, rows, now_s)
    first = await catalogue.board("track.a")
    rows.is_down = True
    now_s[0] = 200.0
    assert first is await catalogue.board("track.a")
    with pytest.raises(LedgerUnavailable):
        await catalogue.board("track.b")
    rows.is_down = False
    rows.may_answer.clear()
    now_s[0] = 300.0
    assert first is await catalogue.board("track.a")
    monkeypatch.setattr(rooms, "PATIENCE_S", 3600.0)
    async with asyncio.timeout(20):
        assert first is await catalogue.board("track.a")
    rows.may_answer.set()


async def test_more_lookups_than_may_wait_are_refused(policies: Policies, monkeypatch: pytest.MonkeyPatch):
    """Only one query runs at a time, of a bounded number of names; whoever comes when too many wait hears so at once."""
    monkeypatch.setattr(rooms, "WAITING", 3)
    monkeypatch.setattr(rooms, "READ_TOGETHER", 2)
    rows = Rows("track.n0")
    rows.may_answer.clear()
    catalogue = opened(policies, rows, [0.0])
    waiting = [asyncio.create_task(catalogue.board(f"track.n{number}")) for number in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    refused = [task for task in waiting if task.done() and isinstance(task.exception(), LedgerOverloaded)]
    assert 2 == len(refused)
    rows.may_answer.set()
    assert [True, False, False] == [bool(await task) for task in waiting[:3]]
    assert [["track.n0", "track.n1"], ["track.n2"]] == rows.queries


async def test_one_name_takes_one_place_however_many_ask_for_it(
    policies: Policies, monkeypatch: pytest.MonkeyPatch
):
    """One that gives up takes the answer from nobody. Who asks while a query runs may know more than it: another follows."""
    monkeypatch.setattr(rooms, "WAITING", 2)
    rows = Rows("track.a")
    rows.may_answer.clear()
    catalogue = opened(policies, rows, [0.0])
    asking = [asyncio.create_task(catalogue.board("track.a")) for _ in range(50)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    late = [asyncio.create_task(catalogue.board("track.a")) for _ in range(50)]
    await asyncio.sleep(0)
    assert [["track.a"]] == rows.queries
    rows.may_answer.set()
    answers = await asyncio.gather(*asking[1:], *late)
    assert answers[0]
    assert all(answer is answers[0] for answer in answers)
    assert [["track.a"]] * 2 == rows.queries
    assert asking[0].cancelled()


async def test_a_long_list_of_boards_waits_for_itself(policies: Policies, monkeypatch: pytest.MonkeyPatch):
    """However many more they are than may wait or be kept, each is read once, and all are found."""
    monkeypatch.setattr(rooms, "WAITING", 3)
    monkeypatch.setattr(rooms, "READ_TOGETHER", 2)
    names = [f"track.n{number}" for number in range(7)]
    rows = Rows(*names)
    found = await opened(policies, rows, [0.0], limit=2).boards([*names, "track.none", "tiny"])
    assert [*names, "tiny"] == list(found)
    assert [names[0:2], names[2:4], names[4:6], [names[6], "track.none"]] == rows.queries


async def test_a_list_of_boards_waits_once_for_a_slow_ledger(
    policies: Policies, monkeypatch: pytest.MonkeyPatch
):
    """And is then what is known; one that nobody knows is waited for, and whoever gives up leaves no error behind."""
    names = [f"track.n{number}" for number in range(5)]
    rows, now_s, waits = Rows(*names), [100.0], []
    catalogue = opened(policies, rows, now_s)
    known = await catalogue.boards(names)
    rows.may_answer.clear()
    now_s[0] = 200.0

    async def wait(lookups: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as asyncio's own
        waits.append(timeout)
        return await original(lookups, timeout=timeout and 0.01)

    original = asyncio.wait
    monkeypatch.setattr(rooms.asyncio, "wait", wait)
    assert known == await catalogue.boards(names)
    assert [rooms.PATIENCE_S] == waits
    assert known == await catalogue.boards(names), "for a second nobody waits again"
    assert [rooms.PATIENCE_S] == waits
    asking = asyncio.create_task(catalogue.boards([*names, "track.none"]))
    await asyncio.sleep(0)
    asking.cancel()
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    rows.is_down = True
    rows.may_answer.set()
    with pytest.raises(LedgerUnavailable):
        await catalogue.boards(["track.other", *names])
    gc.collect()
    assert [] == complaints


async def test_a_deleted_board_is_served_only_to_those_who_settle(policies: Policies):
    """An edge finds none; a worker finds it, since what was received before reaches its verdict."""
    rows = Rows("track.a")
    rows.change("track.a", state=BoardState.DELETED)
    edge, worker = opened(policies, rows, [0.0], serves_deleted=False), opened(policies, rows, [0.0])
    for _ in range(2):
        assert await edge.board("track.a") is None
        assert {} == await edge.boards(["track.a"])
        assert await worker.board("track.a")
    assert 2 == len(rows.queries)


async def test_other_policies_hold_for_boards_that_are_known(policies: Policies, tmp_path: Path):
    """From the next use on, without a query; the old board is as it was for whoever has it. A family that is gone has none."""
    rows = Rows("track.a")
    rows.change("track.a", bounds=NarrowedBounds(score=NarrowedScore(maximum=7)))
    catalogue = opened(policies, rows, [0.0])
    before = await catalogue.board("track.a")
    write_family(tmp_path, title="Other", staleness_s=3.0, writes="trusted", operator="sum")
    catalogue.replace(load_policies(tmp_path))
    after = await catalogue.board("track.a")
    assert before
    assert after
    assert (0.0, 3.0) == (before.policy.staleness_s, after.policy.staleness_s)
    assert 7 == after.policy.score.maximum
    assert 1 == len(rows.queries)
    assert ("track.a" in catalogue, "track.none" in catalogue, "tinier" in catalogue) == (True, True, False)
    catalogue.replace(Policies(policies.boards))
    assert await catalogue.board("track.a") is None
    assert "track.a" not in catalogue


async def test_a_catalogue_keeps_the_boards_used_last(policies: Policies):
    """As many as it may, for ten minutes without a use; the others are read again."""
    rows, now_s = Rows(*(f"track.n{number}" for number in range(5))), [0.0]
    catalogue = opened(policies, rows, now_s, limit=3)
    for number in (0, 1, 2, 0, 3):
        assert await catalogue.board(f"track.n{number}")
    assert (3, 4) == (len(catalogue.cache), len(rows.queries))
    assert await catalogue.board("track.n0")
    assert 4 == len(rows.queries)
    assert await catalogue.board("track.n1")
    assert (3, 5) == (len(catalogue.cache), len(rows.queries))
    now_s[0] = 599.0
    assert await catalogue.board("track.n1")
    now_s[0] = 601.0
    catalogue.cache.let_go_of_idle()
    assert 1 == len(catalogue.cache)
