"""A steward's leases on lanes and duties: it renews them, claims what is free, and shares with newcomers."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final

from gateway.deployment.reference_clock import ReferenceClock, steady_ms
from gateway.ledger import leases
from gateway.ledger.leases import LeaseTable, lane_lease
from gateway.ledger.ledger import Ledger
from gateway.runtime.background import rest
from gateway.runtime.clock import Clock
from gateway.runtime.lanes import LANES
from gateway.runtime.settings import STEWARD_LEASE_S
from gateway.runtime.telemetry import LEASES_HELD, LEASES_TAKEN_OVER, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from gateway.steward.held_leases import HeldLeases, kind_of
from policies.errors import LedgerUnavailable

RENEWALS: Final = 4
"""Renewals in the time of a lease, so that three may fail before the leases end."""

SHORTEST: Final = 20
"""The part of a lease's time that passes between two turns at least, however long a turn takes."""

MARGIN: Final = 1 / 6
"""The part of a lease's time by which a steward stops believing in it earlier than anybody else."""

HANDED_OVER: Final = 32
"""Most lanes, and most duties, that a steward gives away in one turn: few stand still at a time."""

_log = logger()


class DutyLease(StrEnum):
    """The leases of the duties that one steward has for the whole deployment."""

    SEALS = "seals"
    DISPATCH = "dispatch"
    PROJECTION = "projection"
    DERIVATIONS = "derivations"
    DELIVERIES = "deliveries"
    AGENDA = "agenda"
    COLLECTING = "collecting"
    EXPIRING = "expiring"
    RECALLS = "recalls"
    BANS = "bans"
    BATCHES = "batches"
    PLAYERS = "players"
    REVEALS = "reveals"
    ROLLUPS = "rollups"
    BOARDS = "boards"
    CASES = "cases"
    UPGRADE = "upgrade"


LEASE_NAMES: Final = (*(duty.value for duty in DutyLease), *(lane_lease(lane) for lane in range(LANES)))


class StewardLeases(HeldLeases):
    """The leases of one steward, and the turns in which it keeps them."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        clock: Clock,
        lease_s: float = STEWARD_LEASE_S,
        steady: Callable[[], float] = steady_ms,
        names: Sequence[str] = LEASE_NAMES,
    ) -> None:
        super().__init__(steady=steady)
        self._ledger = ledger
        self._clock = clock
        # A clock in doubt takes no lease away; then only a row that nobody renews does.
        self._earliest_clock = clock.earliest if isinstance(clock, ReferenceClock) else clock
        self._lease_ms = lease_s * 1000
        self._names = names
        self._seen: dict[str, tuple[int, float]] = {}
        self._expires_at_ms = 0
        self.steward = ""

    async def keep(self) -> None:
        """Keep the leases until cancelled."""
        while True:
            began_ms = self._steady()
            try:
                await self.turn()
            except LedgerUnavailable as error:
                _log.warning(Event.LEDGER_DOWN, part="leases", error=str(error))
            except Exception as error:  # noqa: BLE001 - without this loop the steward would do nothing any more
                report(FaultPlace.DUTY, error, duty="leases")
            self._show()
            # A slow turn shortens the pause after it, or a busy database would make renewals rarer.
            next_ms = max(began_ms + self._lease_ms / RENEWALS, self._steady() + self._lease_ms / SHORTEST)
            await rest((next_ms - self._steady()) / 1000)

    async def give_up(self) -> None:
        """Give back everything at once, when the work has ended."""
        self._trusted_until_ms = float("-inf")
        self._leave(list(self._held))
        self._show()
        if self.steward:
            with suppress(LedgerUnavailable):  # then the others wait until the row expires
                await self._ledger.write(leases.leave(self.steward))
            self.steward = ""

    async def turn(self) -> None:
        """Renew once, claim what is free up to a fair share, and give away what is beyond it.

        Raises LedgerUnavailable.
        """
        began_ms = self._steady()
        trusts_clock = not self.steward or began_ms - self._trusted_until_ms < self._lease_ms * MARGIN
        trusted_until_ms = began_ms + self._lease_ms * (1 - MARGIN)
        if await self._renew():
            # Its row was never gone, so what it has is its own, however long the rest of the turn takes.
            self._trusted_until_ms = trusted_until_ms
        table = await self._ledger.read(leases.lease_table)
        dead = self._dead(table, trusts_clock=trusts_clock)
        if await self._claim(table, dead):
            table = await self._ledger.read(leases.lease_table)
        self._trusted_until_ms = trusted_until_ms
        self._hold({name: lease for name, lease in table.leases.items() if lease.owner == self.steward})
        await self._give_away(len(table.stewards.keys() - dead.keys()))

    async def _renew(self) -> bool:
        """Renew the row and return True; if there is none, begin as another steward and return False."""
        expires_at_ms = self._clock() + int(self._lease_ms)
        # Others also watch whether the row changes, so it must, even if the clock was put back.
        self._expires_at_ms = expires_at_ms + (expires_at_ms == self._expires_at_ms)
        renewal = leases.renew(self.steward, expires_at_ms=self._expires_at_ms)
        is_renewed = bool(self.steward) and await self._ledger.write(renewal)
        if is_renewed:
            return True
        # Whoever lost its row is another steward from now on: nothing that it had may become good again.
        self._trusted_until_ms = float("-inf")
        self._hold({})
        steward = secrets.token_hex(8)
        await self._ledger.write(
            leases.register(steward, expires_at_ms=self._expires_at_ms, names=self._names)
        )
        self.steward = steward
        return False

    def _dead(self, table: LeaseTable, *, trusts_clock: bool) -> dict[str, int]:
        """Return the stewards whose rows have expired, or were watched for a lease's time and not renewed."""
        now_ms = self._steady()
        others = {who: at for who, at in table.stewards.items() if who != self.steward}
        since = {who: since_ms for who, (at, since_ms) in self._seen.items() if others.get(who) == at}
        self._seen = {who: (at, since.get(who, now_ms)) for who, at in others.items()}
        shared_ms = self._earliest_clock()
        return {
            who: at
            for who, at in others.items()
            if now_ms - self._seen[who][1] >= self._lease_ms or (trusts_clock and shared_ms >= at)
        }

    async def _claim(self, table: LeaseTable, dead: Mapping[str, int]) -> bool:
        """Claim leases without an owner up to a fair share, and return whether there may be new ones."""
        live = table.stewards.keys() - dead.keys()
        free = [name for name in self._names if table.leases[name].owner not in live]
        mine = Counter(kind_of(name) for name in self._names if table.leases[name].owner == self.steward)
        lanes = self._share("lane", len(live)) - mine["lane"]
        lanes = min(lanes, sum(kind_of(name) == "lane" for name in free))
        duties = [name for name in free if kind_of(name) == "duty"]
        duties = duties[: max(0, self._share("duty", len(live)) - mine["duty"])]
        if not dead and not duties and lanes <= 0:
            return False
        operation = leases.claim(self.steward, dead=dead, lanes=lanes, duties=duties)
        for steward in await self._ledger.write(operation):
            taken = [name for name in free if table.leases[name].owner == steward]
            LEASES_TAKEN_OVER.inc(len(taken))
            _log.warning(Event.STEWARD_DEAD, steward=steward, leases=len(taken))
        return True

    async def _give_away(self, live: int) -> None:
        """Give away some of what is beyond a fair share. What is in use is given away once that has ended."""
        leaving: list[str] = []
        for kind in ("lane", "duty"):
            names = [name for name in self._held if kind_of(name) == kind]
            surplus = max(0, len(names) - self._share(kind, live))
            names.sort(key=lambda name: self._in_use[name] > 0)
            leaving += names[: min(surplus, HANDED_OVER)]
        if given_up := self._leave(leaving):
            await self._ledger.write(leases.release(given_up))

    def _share(self, kind: str, live: int) -> int:
        count = sum(kind_of(name) == kind for name in self._names)
        return -(-count // max(1, live))

    def _show(self) -> None:
        LEASES_HELD.labels("lane").set(len(self.lanes_held()) if self.is_kept else 0)
        LEASES_HELD.labels("duty").set(len(self.duties_held()))
