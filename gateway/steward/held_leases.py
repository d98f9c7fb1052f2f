"""The leases that a steward believes in, as its duties ask for them. They are kept on another thread."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from gateway.deployment.reference_clock import steady_ms
from gateway.ledger.leases import LANE_PREFIX, Lease, lane_lease, lane_of_lease
from gateway.runtime.background import end_if_cancelled
from gateway.runtime.lanes import ALL_LANES, lane_of
from gateway.runtime.telemetry import LEASES_LOST, Event, logger
from gateway.steward.fencing import working_under
from gateway.steward.rounds import Step

_log = logger()


class _Usable(NamedTuple):
    """The leases under which work may begin, and their lanes and duties. It is replaced as a whole."""

    leases: Mapping[str, Lease]
    lanes: frozenset[int]
    duties: tuple[str, ...]


_NOTHING: Final = _Usable({}, frozenset(), ())


class HeldLeases:
    """The leases of one steward, as it may believe in them by its own steady clock.

    Duties ask for them on the event loop, while another thread renews, gains and loses them.
    """

    def __init__(self, *, steady: Callable[[], float] = steady_ms) -> None:
        self._steady = steady
        self._lock = threading.Lock()
        self._held: dict[str, Lease] = {}
        self._leaving: set[str] = set()
        self._in_use: Counter[str] = Counter()
        self._usable = _NOTHING
        self._trusted_until_ms = float("-inf")
        self._gained = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_kept = False

    def held(self, name: str) -> Lease | None:
        """Return the lease of this name if this steward has it for sure, and does not give it away."""
        return self._believed().leases.get(name)

    def lanes_held(self) -> frozenset[int]:
        """Return the lanes that this steward works on: all of them unless its leases are kept."""
        return self._believed().lanes if self.is_kept else ALL_LANES

    def duties_held(self) -> tuple[str, ...]:
        """Return the names of the duties that this steward has."""
        return self._believed().duties

    @contextmanager
    def working(self, name: str) -> Iterator[bool]:
        """Work under a lease, which is not given away meanwhile; yield whether this steward has it.

        Duties that are called by themselves, while the leases are not kept, need none.
        """
        if not self.is_kept:
            yield True
            return
        with self._lock:  # or it could be given away between the question and the note that it is in use
            lease = self.held(name)
            self._in_use[name] += lease is not None
        if lease is None:
            yield False
            return
        try:
            with working_under(lease):
                yield True
        finally:
            with self._lock:
                self._in_use[name] -= 1

    def on_lane(self, board: str, step: Step) -> Step:
        """Return a board's step, which now does nothing unless this steward has the board's lane."""

        async def step_under_lease() -> int:
            with self.working(lane_lease(lane_of(board))) as is_ours:
                return await step() if is_ours else 0

        return step_under_lease

    def lose(self, lease: Lease) -> None:
        """Note that a write under the lease was refused, because another steward has it."""
        with self._lock:
            if self._held.get(lease.name) == lease:
                del self._held[lease.name]
                self._put_in_use()
        note_lost([lease.name], steward=lease.owner, epoch=lease.epoch)

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than until this steward gains leases. Raises CancelledError as `rest` does."""
        end_if_cancelled()
        self._loop = asyncio.get_running_loop()
        gained = self._gained
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await gained.wait()

    def _believed(self) -> _Usable:
        return self._usable if self._steady() < self._trusted_until_ms else _NOTHING

    def _hold(self, held: Mapping[str, Lease]) -> None:
        """Replace the leases of this steward, note which are lost, and wake the duties for new ones."""
        with self._lock:
            before, self._held = self._held, dict(held)
            self._put_in_use()
        if lost := sorted(before.keys() - held.keys()):
            note_lost(lost, steward=before[lost[0]].owner)
        if any(before.get(name) != lease for name, lease in held.items()):
            self._wake()

    def _leave(self, names: Collection[str]) -> list[Lease]:
        """Begin no new work under these leases, and return those that are not in use, which are gone now."""
        with self._lock:
            self._leaving = set(names)
            given_up = [self._held.pop(name) for name in names if not self._in_use[name]]
            self._put_in_use()
        return given_up

    def _put_in_use(self) -> None:
        """Let duties begin work under what this steward has now."""
        usable = {name: lease for name, lease in self._held.items() if name not in self._leaving}
        lanes = frozenset(lane_of_lease(name) for name, lease in usable.items() if lease.is_of_lane)
        duties = tuple(sorted(name for name, lease in usable.items() if not lease.is_of_lane))
        self._usable = _Usable(usable, lanes, duties)

    def _wake(self) -> None:
        if self._loop is None:
            return  # no duty waits yet
        with suppress(RuntimeError):  # the loop is closed, and its duties have ended
            self._loop.call_soon_threadsafe(self._tell_gain)

    def _tell_gain(self) -> None:
        self._gained.set()
        self._gained = asyncio.Event()


def note_lost(names: list[str], **facts: object) -> None:
    """Count and log leases that this steward has no more."""
    for name in names:
        LEASES_LOST.labels(kind_of(name)).inc()
    _log.warning(Event.LEASES_LOST, leases=len(names), first=names[0], **facts)


def kind_of(name: str) -> str:
    """Return `lane` or `duty`."""
    return "lane" if name.startswith(LANE_PREFIX) else "duty"
