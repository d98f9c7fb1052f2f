"""What is gathered for a board that may be stale: the newest of each player, at once when there is too much of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from gateway.settlement import coalescing
from gateway.settlement.coalescing import Coalescer, newest
from gateway.shared_records import Change, StoredBaseline
from policies.errors import IndexUnavailable
from policies.vocabulary import State
from tests.support.metrics import counts
from tests.support.policies import a_ranking
from tests.support.standings import a_standing


def change(seq: int, player: str = "ada") -> Change:
    own = StoredBaseline("clicks", player, seq, 0.0, 0.0, seq)
    return Change(seq, f"s{seq}", "clicks", player, State.PROMOTED, (), (own, replace(own, player="")))


def a_board(staleness_s: float) -> Any:
    return SimpleNamespace(name="clicks", rollups=(), policy=SimpleNamespace(staleness_s=staleness_s))


class Recorder:
    """An index and a ledger that remember, and fail when they are told to."""

    def __init__(self, *, is_down: bool = False) -> None:
        self.is_down = is_down
        self.shown: list[int] = []
        self.struck_off = 0
        self.has_shown = asyncio.Event()

    async def project(self, board, changes):
        if self.is_down:
            raise IndexUnavailable
        self.shown += [each.seq for each in changes]
        self.has_shown.set()

    async def write(self, work):
        self.struck_off += 1


def test_the_newest_of_each_player_is_left_whatever_the_order():
    """One change each, with the newest baselines, that of the population with whoever brought it last."""
    found = newest([change(4), change(9, "bob"), change(7), change(8), change(2, "bob")])
    assert [("ada", 8, ["ada"]), ("bob", 9, ["bob", ""])] == sorted(
        (each.player, each.seq, [learnt.player for learnt in each.baselines]) for each in found
    )
    assert {8, 9} == {learnt.seq for each in found for learnt in each.baselines}


async def test_too_much_is_shown_before_its_time(monkeypatch):
    """With an hour to wait, the change that is one too many has all of them shown."""
    monkeypatch.setattr(coalescing, "GATHERED_LIMIT", 3)
    recorder = Recorder()
    coalescer = Coalescer(recorder, recorder, a_board(3600))
    for seq in (1, 2, 3):
        await coalescer.show([change(seq)])
    await asyncio.wait_for(recorder.has_shown.wait(), 10)
    assert [3] == recorder.shown


async def test_they_are_shown_when_their_time_has_come():
    """Without anything else happening; and nothing gathered is nothing to wait for."""
    recorder = Recorder()
    coalescer = Coalescer(recorder, recorder, a_board(0.01))
    await coalescer.show([])
    await coalescer.drained()
    await coalescer.show([change(1)])
    await asyncio.wait_for(recorder.has_shown.wait(), 10)
    await coalescer.drained()
    assert ([1], 1) == (recorder.shown, recorder.struck_off)


async def test_without_an_index_they_stay_in_the_outbox():
    """Nothing is struck off, nobody is told, and the next ones are gathered as before."""
    recorder = Recorder(is_down=True)
    coalescer = Coalescer(recorder, recorder, a_board(3600))
    await coalescer.show([change(1)])
    await coalescer.drained()
    assert ([], 0) == (recorder.shown, recorder.struck_off)
    recorder.is_down = False
    await coalescer.show([change(2)])
    await coalescer.drained()
    assert ([2], 1) == (recorder.shown, recorder.struck_off)


async def test_after_too_much_the_next_wait_as_before(monkeypatch):
    """That there was too much once has nothing else shown before its time."""
    monkeypatch.setattr(coalescing, "GATHERED_LIMIT", 2)
    recorder = Recorder()
    coalescer = Coalescer(recorder, recorder, a_board(3600))
    await coalescer.show([change(1), change(2)])
    await asyncio.wait_for(recorder.has_shown.wait(), 10)
    await coalescer.show([change(3)])
    for _ in range(20):
        await asyncio.sleep(0)
    assert [2] == recorder.shown
    await coalescer.drained()
    assert ([2, 3], 2) == (recorder.shown, recorder.struck_off)


async def test_what_nobody_foresaw_ends_no_showing(monkeypatch):
    """It is reported, nothing of it is struck off, and what comes next is shown."""
    recorder = Recorder()

    async def fail(_changes):
        raise ZeroDivisionError

    coalescer = Coalescer(recorder, recorder, a_board(3600))
    with monkeypatch.context() as patch, counts(1, "scoregate_unexpected_total", place="coalescer"):
        patch.setattr(recorder, "project", fail)
        await coalescer.show([change(1)])
        await coalescer.drained()
    await coalescer.show([change(2)])
    await coalescer.drained()
    assert ([2], 1) == (recorder.shown, recorder.struck_off)


def test_the_newest_standing_of_each_window_is_left():
    """A change that touched one window takes nothing from another one that an older change touched."""

    def stood(seq: int, *windows: str) -> Change:
        ranking = a_ranking(windows=["alltime", "daily"])
        standings = [a_standing("ada", seq, seq=seq, ranking=ranking, window=window) for window in windows]
        return replace(change(seq), standings=tuple(standings))

    [found] = newest([stood(3, "daily:20261121"), stood(1, "alltime", "daily:20261120"), stood(2, "alltime")])
    assert {"alltime": 2, "daily:20261120": 1, "daily:20261121": 3} == {
        each.window: each.score for each in found.standings
    }
