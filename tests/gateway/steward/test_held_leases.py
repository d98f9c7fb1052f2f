"""The leases that a steward believes in: for its time, for what it does not leave, and while it is in use."""

from __future__ import annotations

import pytest

from gateway.ledger.leases import Lease, lane_lease
from gateway.runtime.lanes import ALL_LANES, lane_of
from gateway.steward.held_leases import HeldLeases, kind_of

NOW_MS = 1_000.0
LANES = {name: Lease(name, "me", 3) for name in (lane_lease(1), lane_lease(7))}
DUTIES = {name: Lease(name, "me", 5) for name in ("seal", "audit")}


def held_now() -> tuple[HeldLeases, list[float]]:
    """Leases that are believed in until 2 s, and the clock."""
    clock = [NOW_MS]
    leases = HeldLeases(steady=lambda: clock[0])
    leases.is_kept = True
    leases._trusted_until_ms = 2 * NOW_MS
    leases._hold(LANES | DUTIES)
    return leases, clock


def test_leases_are_believed_in_for_their_time_and_no_longer() -> None:
    """At the very end they are another's already."""
    leases, clock = held_now()
    assert ({1, 7}, ("audit", "seal")) == (leases.lanes_held(), leases.duties_held())
    assert LANES[lane_lease(7)] == leases.held(lane_lease(7))
    clock[0] = 2 * NOW_MS - 1
    assert leases.held("seal")
    clock[0] = 2 * NOW_MS
    assert (None, frozenset(), ()) == (leases.held("seal"), leases.lanes_held(), leases.duties_held())


def test_without_keeping_them_a_steward_works_on_everything() -> None:
    """As a command does that runs one duty by itself."""
    leases = HeldLeases()
    assert ALL_LANES == leases.lanes_held()
    with leases.working("seal") as is_ours:
        assert is_ours


def test_what_is_left_begins_no_new_work_and_goes_once_it_is_not_in_use() -> None:
    """Work that has begun goes on under its lease; then the lease is given up, and only once."""
    leases, _ = held_now()
    names = ["seal", lane_lease(1)]
    with leases.working("seal") as is_ours:
        assert is_ours
        assert [LANES[lane_lease(1)]] == leases._leave(names)
        assert (None, {7}, ("audit",)) == (leases.held("seal"), leases.lanes_held(), leases.duties_held())
        with leases.working("seal") as again:
            assert not again
    assert [DUTIES["seal"]] == leases._leave(["seal"])
    assert {lane_lease(7), "audit"} == leases._held.keys()


def test_work_that_fails_is_not_in_use_any_more() -> None:
    """Nor is one that found no lease."""
    leases, _ = held_now()
    with pytest.raises(ZeroDivisionError), leases.working("seal"):
        raise ZeroDivisionError
    with leases.working("expire") as is_ours:
        assert not is_ours
    assert {"seal": 0, "expire": 0} == dict(leases._in_use)


def test_a_lease_is_lost_by_its_own_epoch_alone() -> None:
    """A write under the one of before says nothing of one that was gained since."""
    leases, _ = held_now()
    leases.lose(Lease("seal", "me", 4))
    assert leases.held("seal")
    leases.lose(DUTIES["seal"])
    assert leases.held("seal") is None
    assert ("audit",) == leases.duties_held()


async def test_a_steps_lane_is_that_of_its_board() -> None:
    """Under another's lane it does nothing, and is done."""
    leases, _ = held_now()
    leases._hold({lane_lease(lane_of("arcade")): Lease(lane_lease(lane_of("arcade")), "me", 1)})
    other = next(
        f"board-{number}" for number in range(1_000) if lane_of(f"board-{number}") != lane_of("arcade")
    )

    async def step() -> int:
        return 5

    assert [5, 0] == [await leases.on_lane(board, step)() for board in ("arcade", other)]


def test_leases_are_of_lanes_or_duties() -> None:
    """As metrics count them."""
    assert ["lane", "duty"] == [kind_of(lane_lease(3)), kind_of("seal")]
