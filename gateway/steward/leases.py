"""A steward's leases on lanes and duties: it renews them, claims what is free, and shares with newcomers."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Final

from gateway.deployment.reference_clock import ReferenceClock, steady_ms
from gateway.ledger import leases
from gateway.ledger.leases import Lease, LeaseTable, lane_lease, lane_of_lease
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.lanes import LANES, lane_of
from gateway.runtime.settings import STEWARD_LEASE_S
from gateway.runtime.telemetry import LEASES_HELD, LEASES_LOST, LEASES_TAKEN_OVER, Event, logger
from gateway.steward.fencing import working_under
from gateway.steward.rounds import Step
from policies.errors import LedgerUnavailable

RENEWALS: Final = 4
"""Renewals in the time of a lease, so that three may fail before the leases end."""

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
    REVEALS = "reveals"
    ROLLUPS = "rollups"
    BOARDS = "boards"
    UPGRADE = "upgrade"


LEASE_NAMES: Final = (*(duty.value for duty in DutyLease), *(lane_lease(lane) for lane in range(LANES)))


class StewardLeases:
    """The leases of one steward, as it may believe in them by its own steady clock."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        clock: Clock,
        lease_s: float = STEWARD_LEASE_S,
        steady: Callable[[], float] = steady_ms,
        names: Sequence[str] = LEASE_NAMES,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        # A clock in doubt takes no lease away; then only a row that nobody renews does.
        self._earliest_clock = clock.earliest if isinstance(clock, ReferenceClock) else clock
        self._steady = steady
        self._lease_ms = lease_s * 1000
        self._names = names
        self._held: dict[str, Lease] = {}
        self._trusted_until_ms = float("-inf")
        self._seen: dict[str, tuple[int, float]] = {}
        self._expires_at_ms = 0
        self._in_use: Counter[str] = Counter()
        self._leaving: set[str] = set()
        self._gained = asyncio.Event()
        self.steward = ""
        self.is_kept = False

    def held(self, name: str) -> Lease | None:
        """Return the lease of this name if this steward has it for sure, and does not give it away."""
        if self._steady() >= self._trusted_until_ms or name in self._leaving:
            return None
        return self._held.get(name)

    def lanes_held(self) -> frozenset[int]:
        """Return the lanes that this steward works on: all of them unless its leases are kept."""
        if not self.is_kept:
            return frozenset(range(LANES))
        names = (name for name, lease in self._held.items() if lease.is_of_lane and self.held(name))
        return frozenset(map(lane_of_lease, names))

    def duties_held(self) -> tuple[str, ...]:
        """Return the names of the duties that this steward has."""
        return tuple(sorted(n for n, lease in self._held.items() if not lease.is_of_lane and self.held(n)))

    @contextmanager
    def working(self, name: str) -> Iterator[bool]:
        """Work under a lease, which is not given away meanwhile; yield whether this steward has it.

        Duties that are called by themselves, while the leases are not kept, need none.
        """
        if not self.is_kept:
            yield True
            return
        lease = self.held(name)
        if lease is None:
            yield False
            return
        self._in_use[name] += 1
        try:
            with working_under(lease):
                yield True
        finally:
            self._in_use[name] -= 1

    def on_lane(self, board: str, step: Step) -> Step:
        """Return a board's step, which now does nothing unless this steward has the board's lane."""

        async def step_under_lease() -> int:
            with self.working(lane_lease(lane_of(board))) as is_ours:
                return await step() if is_ours else 0

        return step_under_lease

    def lose(self, lease: Lease) -> None:
        """Note that a write under the lease was refused, because another steward has it."""
        if self._held.get(lease.name) == lease:
            del self._held[lease.name]
        self._note_lost([lease.name], steward=lease.owner, epoch=lease.epoch)

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than until this steward gains leases."""
        gained = self._gained
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await gained.wait()

    async def keep(self) -> None:
        """Keep the leases until cancelled."""
        while True:
            try:
                await self.turn()
            except LedgerUnavailable as error:
                _log.warning(Event.LEDGER_DOWN, part="leases", error=str(error))
            except Exception as error:  # noqa: BLE001 - without this loop the steward would do nothing any more
                _log.warning(Event.DUTY_FAILED, duty="leases", error=f"{type(error).__name__}: {error}")
            self._show()
            await asyncio.sleep(self._lease_ms / 1000 / RENEWALS)

    async def give_up(self) -> None:
        """Give back everything at once, when the work has ended."""
        self._held, self._trusted_until_ms = {}, float("-inf")
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
        await self._renew()
        table = await self._ledger.read(leases.lease_table)
        dead = self._dead(table, trusts_clock=trusts_clock)
        if await self._claim(table, dead):
            table = await self._ledger.read(leases.lease_table)
        self._believe(table, began_ms)
        await self._give_away(len(table.stewards.keys() - dead.keys()))

    async def _renew(self) -> None:
        expires_at_ms = self._clock() + int(self._lease_ms)
        # Others also watch whether the row changes, so it must, even if the clock was put back.
        self._expires_at_ms = expires_at_ms + (expires_at_ms == self._expires_at_ms)
        renewal = leases.renew(self.steward, expires_at_ms=self._expires_at_ms)
        is_renewed = bool(self.steward) and await self._ledger.write(renewal)
        if is_renewed:
            return
        # Whoever lost its row is another steward from now on: nothing that it had may become good again.
        self._trusted_until_ms = float("-inf")
        steward = secrets.token_hex(8)
        await self._ledger.write(
            leases.register(steward, expires_at_ms=self._expires_at_ms, names=self._names)
        )
        self.steward = steward

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
        mine = Counter(_kind(name) for name in self._names if table.leases[name].owner == self.steward)
        lanes = self._share("lane", len(live)) - mine["lane"]
        lanes = min(lanes, sum(_kind(name) == "lane" for name in free))
        duties = [name for name in free if _kind(name) == "duty"]
        duties = duties[: max(0, self._share("duty", len(live)) - mine["duty"])]
        if not dead and not duties and lanes <= 0:
            return False
        operation = leases.claim(self.steward, dead=dead, lanes=lanes, duties=duties)
        for steward in await self._ledger.write(operation):
            taken = [name for name in free if table.leases[name].owner == steward]
            LEASES_TAKEN_OVER.inc(len(taken))
            _log.warning(Event.STEWARD_DEAD, steward=steward, leases=len(taken))
        return True

    def _believe(self, table: LeaseTable, began_ms: float) -> None:
        held = {name: lease for name, lease in table.leases.items() if lease.owner == self.steward}
        is_gain = any(self._held.get(name) != lease for name, lease in held.items())
        if lost := sorted(self._held.keys() - held.keys()):
            self._note_lost(lost, steward=self.steward)
        self._held, self._trusted_until_ms = held, began_ms + self._lease_ms * (1 - MARGIN)
        if is_gain:
            self._gained.set()
            self._gained = asyncio.Event()

    async def _give_away(self, live: int) -> None:
        """Give away some of what is beyond a fair share. What is in use is given away once that has ended."""
        self._leaving = set()
        for kind in ("lane", "duty"):
            names = [name for name in self._held if _kind(name) == kind]
            surplus = max(0, len(names) - self._share(kind, live))
            names.sort(key=lambda name: self._in_use[name] > 0)
            self._leaving.update(names[: min(surplus, HANDED_OVER)])
        given_up = [self._held[name] for name in self._leaving if not self._in_use[name]]
        if given_up:
            for lease in given_up:
                del self._held[lease.name]
            await self._ledger.write(leases.release(given_up))

    def _note_lost(self, names: Sequence[str], **facts: object) -> None:
        for name in names:
            LEASES_LOST.labels(_kind(name)).inc()
        _log.warning(Event.LEASES_LOST, leases=len(names), first=names[0], **facts)

    def _share(self, kind: str, live: int) -> int:
        count = sum(_kind(name) == kind for name in self._names)
        return -(-count // max(1, live))

    def _show(self) -> None:
        LEASES_HELD.labels("lane").set(len(self.lanes_held()) if self.is_kept else 0)
        LEASES_HELD.labels("duty").set(len(self.duties_held()))


def _kind(name: str) -> str:
    """Return `lane` or `duty`."""
    return "lane" if name.startswith(leases.LANE_PREFIX) else "duty"
