"""What a steward does follows its leases: duties of which there is one, boards of its lanes, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gateway.ledger.derived import board_duties
from gateway.ledger.derived.board_duties import BoardDuty, DueDuty
from gateway.ledger.leases import NOBODY, lease_holders
from gateway.runtime.settings import Settings
from gateway.steward.agenda import Agenda
from gateway.steward.duties import Steward
from gateway.steward.failures import Failures
from gateway.steward.leases import LEASE_NAMES, StewardLeases
from gateway.steward.rounds import Round
from gateway.steward_wiring import open_steward
from gateway.wiring import open_ledger
from policies.errors import LeaseLost
from tests.support.deployment import eventually
from tests.support.duty import Duty

OF_LANES = {"anchor", "archive", "draw_audits", "keep_tails", "reconcile", "see_to_cold", "see_to_top"}
DUTIES = {
    name
    for name, method in vars(Steward).items()
    if inspect.iscoroutinefunction(method) and not name.startswith("_") and name != "run"
}
OF_ONE = DUTIES - OF_LANES
PATIENCE_S = 20


class Calls(Counter[str]):
    """How often each duty of a steward was called, which does nothing any more."""

    def __init__(self, steward: Steward, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        for name in OF_LANES | OF_ONE:
            monkeypatch.setattr(steward, name, self._counted(name))

    def _counted(self, name: str) -> Callable[[], Any]:
        async def duty() -> int:
            self[name] += 1
            if name == "seal":
                raise LeaseLost
            return 0

        duty.__name__ = name
        return duty


async def another(duty: Duty) -> StewardLeases:
    """A steward that has everything."""
    leases = StewardLeases(duty.ledger, clock=duty.clock)
    leases.is_kept = True
    await leases.turn()
    return leases


async def called(calls: Calls, names: set[str]) -> None:
    """Returns once each of these was called."""
    await eventually(lambda: names <= calls.keys(), patience_s=PATIENCE_S)


async def test_a_duty_of_which_there_is_one_is_done_by_whoever_has_its_lease(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """A steward beside one that has everything looks at its lanes alone; once the other has gone, it does all at once."""
    other = await another(duty)
    calls = Calls(duty.steward, monkeypatch)
    running = asyncio.create_task(duty.steward.run())
    await called(calls, OF_LANES)
    assert OF_LANES == calls.keys()
    await other.give_up()
    await called(calls, OF_LANES | OF_ONE)
    assert () == duty.steward.failures.now()  # a lease that was lost is no failure
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_boards_of_others_lanes_are_left_alone(duty: Duty):
    """An index that was emptied is rebuilt by the steward that has the board's lane, and by no other."""
    other = await another(duty)
    leases = duty.steward.leases
    leases.is_kept = True
    await leases.turn()
    assert 0 == await duty.steward.reconcile()
    assert not (await duty.index.of(duty.board).residency.state()).is_whole
    await other.give_up()
    await leases.turn()
    await duty.steward.reconcile()
    assert (await duty.index.of(duty.board).residency.state()).is_whole


async def test_a_board_whose_lane_was_lost_has_not_failed():
    """Its round ends without a word, and the other boards have theirs."""

    async def lost() -> int:
        raise LeaseLost

    async def done() -> int:
        return 2

    failures = Failures()
    assert 2 == await Round("archive", failures).step({"lost": lost, "done": done})
    assert () == failures.now()


async def test_duties_of_boards_without_a_policy_are_put_off_under_the_lease_of_their_lane(duty: Duty):
    """Under none the ledger would refuse it, and with it the turn of all other boards."""
    leases = duty.steward.leases
    leases.is_kept = True
    await leases.turn()
    gone = DueDuty(BoardDuty.TOP, "gone", "", 0, 1, 1)
    await duty.ledger.write(board_duties.noted([gone]))
    due = board_duties.due(BoardDuty.TOP, now_ms=duty.clock(), count=1)
    assert [gone.board] == [row.board for row in await duty.ledger.read(due)]
    assert 0 == await duty.steward.see_to_top()
    assert [] == await duty.ledger.read(due)


async def test_whoever_lost_the_agenda_alone_goes_on_with_its_lanes(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """Another steward notes what becomes due; what is noted on these lanes is done here."""
    looked: list[str] = []

    async def lost(_self: Agenda) -> int:
        raise LeaseLost

    async def none_due(_tx: object) -> list[DueDuty]:
        return []

    def due(duty: BoardDuty, **_: object) -> Callable[[object], Any]:
        looked.append(duty.value)
        return none_due

    monkeypatch.setattr(Agenda, "follow", lost)
    monkeypatch.setattr(board_duties, "due", due)
    steward = duty.steward
    for step in (steward.see_to_top, steward.draw_audits, steward.anchor, steward.archive):
        assert 0 == await step()
    assert ["top", "audit", "anchor", "archive"] == looked


async def test_a_steward_that_ends_in_order_gives_everything_back(own_settings: Settings):
    """The next one begins at once, and does not wait for its row to expire."""
    async with open_steward(own_settings) as steward:
        await steward.leases.turn()
    async with open_ledger(own_settings) as ledger:
        assert {NOBODY: tuple(sorted(LEASE_NAMES))} == await ledger.read(lease_holders)
