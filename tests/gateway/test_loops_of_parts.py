"""What an edge and a steward do for ever, beside requests and duties: begun as they open, and over as they close."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.deployment import presence, reference_clock
from gateway.deployment.presence import PartKind, Presence
from gateway.deployment.reference_clock import ReferenceClock
from gateway.edge.auth import ended_tokens
from gateway.edge.auth.ended_tokens import EndedTokens
from gateway.edge.health import lag
from gateway.edge.health.lag import Lag
from gateway.edge_wiring import open_edge
from gateway.runtime.settings import Settings
from gateway.settlement import banned_players, builds, unprojected
from gateway.settlement.banned_players import BannedPlayers
from gateway.settlement.builds import BuildRegistry
from gateway.settlement.unprojected import UnprojectedChanges
from gateway.shared_records import Change
from gateway.steward import leases as lease_turns
from gateway.steward.leases import StewardLeases
from gateway.steward_wiring import open_steward
from policies.errors import IndexUnavailable, LedgerUnavailable
from policies.loader import Policies
from policies.vocabulary import State

OF_EDGE: Final = {"builds", "presence", "lag", "clock", "owed"}
"""Builds that are blocked elsewhere, parts that come and go, what others could not show, the shared time, what it owes
itself."""


def going_on() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


async def test_an_open_edge_keeps_up_with_everything_that_others_do(settings: Settings):
    """What each loop does is tested where it is called by hand; that nobody has to, here."""
    async with open_edge(settings):
        assert OF_EDGE <= going_on()
    assert not OF_EDGE & going_on()


async def test_an_open_steward_keeps_to_the_shared_clock(settings: Settings):
    """It does not go by what the clock said as it was opened."""
    async with open_steward(settings):
        assert "clock" in going_on()
    assert "clock" not in going_on()


VAULT: Any = SimpleNamespace(name="vault", rollups=(), policy=SimpleNamespace(staleness_s=0.0))


class Asked:
    """A ledger, an index, a store of parts and a clock in one, which cannot be asked, and count how often they were."""

    name = "redis"

    def __init__(self) -> None:
        self.times = 0

    def of(self, _: Any) -> Asked:
        return self

    async def read(self, *_: Any) -> None:
        self.times += 1
        raise LedgerUnavailable

    write = read

    async def register(self, *_: Any) -> None:
        self.times += 1
        raise IndexUnavailable

    project = register

    async def now_us(self) -> None:
        self.times += 1


def paying(asked: Any) -> Coroutine[Any, Any, None]:
    """What is owed, with a change that cannot be shown."""
    debts = UnprojectedChanges(asked, asked)
    debts.add(VAULT, [Change(1, "s1", "vault", "ada", State.PROMOTED, (), ())])
    return debts.run()


def present(asked: Any) -> Coroutine[Any, Any, None]:
    there = Presence(asked, PartKind.EDGE, dict)
    there._store = asked
    return there.keep()


LOOPS: Final[dict[str, tuple[Any, str, Any, int]]] = {
    "builds": (builds, "REFRESH_S", lambda asked: BuildRegistry(asked).keep_fresh(), 0),
    "bans": (banned_players, "REFRESH_S", lambda asked: BannedPlayers(asked).keep_fresh(), 0),
    "tokens": (ended_tokens, "REFRESH_S", lambda asked: EndedTokens(asked).keep_fresh(), 0),
    "lag": (
        lag,
        "LOOK_S",
        lambda asked: Lag(asked, asked, Catalogue(Policies()), clock=lambda: 0).keep_fresh(),
        0,
    ),
    "clock": (reference_clock, "RETRY_S", lambda asked: ReferenceClock([asked]).keep_fresh(), 0),
    "presence": (presence, "BEAT_S", present, 1),
    "owed": (unprojected, "RETRY_S", paying, 1),
    "leases": (lease_turns, "SHORTEST", lambda asked: StewardLeases(asked, clock=lambda: 0).keep(), 1),
}
"""Where each loop is, the name of its pause, how it is begun, and how often it asks before it rests."""


@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_rests_between_two_looks(monkeypatch: pytest.MonkeyPatch, name: str):
    """What is away is asked again after a pause: else an outage would take all of the processor, and of the network."""
    module, pause, begin, times = LOOPS[name]
    monkeypatch.setattr(module, pause, 3600.0)
    asked = Asked()
    going_round = asyncio.create_task(begin(asked))
    for _ in range(200):
        await asyncio.sleep(0)
    going_round.cancel()
    await asyncio.wait([going_round])
    assert times == asked.times


class Swallowing(Asked):
    """The same, but whoever is cancelled while it asks for the first time does not hear of it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = asyncio.Event()

    async def _swallow(self, error: type[Exception]) -> None:
        if not self.is_asked.is_set():
            self.is_asked.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        raise error

    async def read(self, *_: Any) -> None:
        await self._swallow(LedgerUnavailable)

    write = read

    async def register(self, *_: Any) -> None:
        await self._swallow(IndexUnavailable)

    project = register

    async def now_us(self) -> None:
        await self._swallow(TimeoutError)


@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_ends_even_if_what_it_asks_swallows_its_cancellation(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    """`asyncio.wait_for` and redis-py do so now and then; a part that is told to end would never end."""
    module, pause, begin, _ = LOOPS[name]
    monkeypatch.setattr(module, pause, 0.001)
    asked = Swallowing()
    going_round = asyncio.create_task(begin(asked))
    await asked.is_asked.wait()
    going_round.cancel()
    done, _ = await asyncio.wait([going_round], timeout=5)
    assert {going_round} == done
