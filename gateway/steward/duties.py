"""The steward: each duty runs in its own loop, which no failure ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, nullcontext
from functools import partial
from typing import NamedTuple, Protocol

from gateway.catalogue.catalogue import Catalogue
from gateway.deployment.presence import PartKind, Presence
from gateway.derived.derivations import Derivations
from gateway.index.board_indexes import Index
from gateway.ledger.ledger import Ledger
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.settings import Settings
from gateway.steward.ban_keeping import BanKeeper
from gateway.steward.batch_keeping import BatchKeeper
from gateway.steward.case_duties import CaseKeeper
from gateway.steward.check_keeping import CheckKeeper
from gateway.steward.dispatch import JobQueue
from gateway.steward.dispatcher import Dispatcher
from gateway.steward.failures import Failures
from gateway.steward.family_boards import BoardKeeper
from gateway.steward.fencing import FencedLedger
from gateway.steward.forgetting import AddressForgetter
from gateway.steward.index.layout_upgrade import LayoutUpgrade
from gateway.steward.index_duties import IndexDuties
from gateway.steward.leases import DutyLease, StewardLeases
from gateway.steward.ledger_duties import LedgerDuties
from gateway.steward.looks import LOOK_MS, REST_MS, Looks
from gateway.steward.outbox_duties import OutboxDuties
from gateway.steward.pauses import (
    ADDRESSES_S,
    AGAIN_S,
    ANCHOR_S,
    ARCHIVE_S,
    AUDIT_S,
    BANS_S,
    BATCHES_S,
    BOARDS_S,
    BUSY_S,
    CASES_S,
    CHECKS_S,
    COLD_S,
    COLLECT_S,
    EXACT_RANKS_S,
    FILTERS_S,
    PLAYERS_S,
    PLAYS_S,
    POLL_S,
    REPAIR_S,
    REVEALS_S,
    ROLLUP_S,
    RULES_S,
    SEAL_POLL_S,
    SOON_S,
    TARGETS_S,
    TOP_S,
    UPGRADE_S,
    back_off_s,
)
from gateway.steward.player_keeping import PlayerKeeper
from gateway.steward.recordings.collecting import Collector
from gateway.steward.recordings.expiring import Expirer
from gateway.steward.rollups import RollupKeeper
from gateway.steward.rule_changes import RuleKeeper
from gateway.steward.seals.sealing import Sealer
from gateway.steward.target_keeping import TargetKeeper
from gateway.steward.wanted_boards import BoardOpener
from policies.errors import LeaseLost, ScoregateError
from policies.loader import Policies


class _Closing(Protocol):
    """A part that has something to close when the steward ends."""

    async def aclose(self) -> None:
        """Close it."""
        ...


class _Duty(NamedTuple):
    """A duty with its pauses, as `Steward._for_ever` takes it."""

    work: Callable[[], Awaitable[int]]
    pause_s: float
    lease: DutyLease | None = None
    rest_ms: int = 0
    next_due: Callable[[], Awaitable[int | None]] | None = None
    busy_s: float = 0.0


class Steward:
    """The background duties of a deployment. Any number of stewards share them by leases."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        ledger: Ledger,
        index: Index,
        jobs: JobQueue,
        *,
        recordings: Recordings,
        clock: Clock = wall_clock,
        part_id: str | None = None,
        leases: StewardLeases | None = None,
    ) -> None:
        self._settings = settings
        self.leases = leases or StewardLeases(ledger, clock=clock, lease_s=settings.steward_lease_s)
        self._unfenced_ledger = ledger
        self._index = index
        self._jobs = jobs
        self._clock = clock
        self._recordings = recordings
        self.catalogue = catalogue
        self.failures = Failures()
        self.presence = Presence(
            index.client,
            PartKind.STEWARD,
            lambda: catalogue.policies.by_name,
            failing=self.failures.now,
            work=lambda: (len(self.leases.lanes_held()), self.leases.duties_held()),
            part_id=part_id,
        )
        self._ledger = FencedLedger(ledger, self.leases)
        self._assign(self._ledger)

    def _assign(self, ledger: Ledger) -> None:
        """Give each duty what it works with. They write to a fenced ledger."""
        settings, catalogue, index, clock = self._settings, self.catalogue, self._index, self._clock
        failures, leases = self.failures, self.leases
        self._dispatcher = Dispatcher(settings, catalogue, ledger, self._jobs, clock=clock)
        self._in_outbox = OutboxDuties(catalogue, ledger, index, failures, clock=clock)
        self._in_ledger = LedgerDuties(settings, catalogue, ledger, failures, clock=clock, leases=leases)
        self._in_index = IndexDuties(catalogue, ledger, index, failures, clock=clock, leases=leases)
        grace_ms = settings.recordings_grace_h * 3_600_000
        self._collector = Collector(ledger, self._recordings, grace_ms=grace_ms)
        self._expirer = Expirer(ledger, catalogue, clock=clock)
        self._forgetter = AddressForgetter(ledger, days=settings.address_days, clock=clock)
        self._sealer = Sealer(settings, ledger, clock=clock)
        self._boards = BoardKeeper(ledger, catalogue, clock=clock)
        self._cases = CaseKeeper(ledger, catalogue, failures, clock=clock)
        self._targets = TargetKeeper(ledger, clock=clock)
        self._checks = CheckKeeper(ledger, catalogue, clock=clock)
        self._wanted = BoardOpener(ledger, catalogue, clock=clock)
        self._bans = BanKeeper(ledger, index, catalogue, failures, clock=clock)
        self._players = PlayerKeeper(ledger, index, catalogue, failures, clock=clock)
        self._batches = BatchKeeper(ledger, index, catalogue, failures, clock=clock)
        self._rollups = RollupKeeper(ledger, index, catalogue, failures, clock=clock)
        self._rules = RuleKeeper(ledger, index, catalogue, clock=clock)
        self._layout = LayoutUpgrade(index.client, catalogue.of_files.values)
        self._derivations = Derivations(
            settings,
            catalogue,
            ledger,
            index.client,
            clock=clock,
            left_ms=int(settings.steward_lease_s * 1000),
            deliveries_ledger=self._unfenced_ledger,
        )

    def under(self, policies: Policies) -> Steward:
        """Return this steward under other policies of the same boards, to run once this one has ended."""
        self.catalogue.replace(policies)
        return Steward(
            self._settings,
            self.catalogue,
            self._unfenced_ledger,
            self._index,
            self._jobs,
            recordings=self._recordings,
            clock=self._clock,
            part_id=self.presence.part_id,
            leases=self.leases,
        )

    @property
    def index(self) -> Index:
        """The index that the steward keeps."""
        return self._index

    @property
    def _closing(self) -> Sequence[_Closing]:
        return (self._derivations, self._in_ledger, self._in_index)

    async def run(self) -> None:
        """Run the duties of the leases that this steward has, until cancelled. It keeps the leases then."""
        self.leases.is_kept = True
        async with AsyncExitStack() as stack:
            for closing in self._closing:
                await stack.enter_async_context(aclosing(closing))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(self.leases.keep())
            group.create_task(self.presence.keep())
            for duty in self._duties():
                group.create_task(self._for_ever(*duty))

    def _duties(self) -> Sequence[_Duty]:
        """Return the duties; those without a lease of their own go by the leases of lanes."""
        return (
            _Duty(self.derive_from_log, POLL_S * 10, DutyLease.DERIVATIONS, REST_MS),
            _Duty(self.derive_from_changes, POLL_S * 10, DutyLease.DERIVATIONS, LOOK_MS),
            _Duty(
                self.deliver, POLL_S * 10, DutyLease.DELIVERIES, LOOK_MS, self._derivations.sender.next_due
            ),
            _Duty(self.repair_derived, REPAIR_S, DutyLease.DERIVATIONS),
            _Duty(self.dispatch, POLL_S, DutyLease.DISPATCH, busy_s=BUSY_S),
            _Duty(self.project, POLL_S * 10, DutyLease.PROJECTION, LOOK_MS, self._in_outbox.next_projection),
            _Duty(self.reconcile, self._settings.reconcile_s),
            _Duty(self.see_to_cold, COLD_S),
            _Duty(self.anchor, ANCHOR_S),
            _Duty(self.seal, SEAL_POLL_S, DutyLease.SEALS),
            _Duty(self.collect, COLLECT_S, DutyLease.COLLECTING),
            _Duty(self.expire, COLLECT_S, DutyLease.EXPIRING),
            _Duty(self.forget_addresses, ADDRESSES_S, DutyLease.EXPIRING),
            _Duty(self.archive, ARCHIVE_S),
            _Duty(self.keep_tails, EXACT_RANKS_S),
            _Duty(self.draw_audits, AUDIT_S),
            _Duty(self.see_to_top, TOP_S, None, REST_MS, self._in_ledger.next_top),
            _Duty(self.recall, TOP_S, DutyLease.RECALLS, REST_MS, self._in_outbox.next_recall),
            _Duty(self.keep_bans, BANS_S, DutyLease.BANS, REST_MS, self._bans.next_due),
            _Duty(self.keep_players, PLAYERS_S, DutyLease.PLAYERS),
            _Duty(self.keep_batches, BATCHES_S, DutyLease.BATCHES, REST_MS, self._batches.next_due),
            _Duty(self.roll_up, ROLLUP_S, DutyLease.ROLLUPS, REST_MS, self._rollups.next_due),
            _Duty(self.follow_rules, RULES_S, DutyLease.ROLLUPS),
            _Duty(self.open_boards, BOARDS_S, DutyLease.BOARDS),
            _Duty(self.close_boards, BOARDS_S, DutyLease.BOARDS),
            _Duty(self.count_plays, PLAYS_S, DutyLease.BOARDS),
            _Duty(self.fill_filters, FILTERS_S, DutyLease.BOARDS),
            _Duty(self.assess_cases, CASES_S, DutyLease.CASES, REST_MS, self._cases.next_due),
            _Duty(self.keep_targets, TARGETS_S, DutyLease.CASES, REST_MS, self._targets.next_due),
            _Duty(self.keep_checks, CHECKS_S, DutyLease.CASES),
            _Duty(self.upgrade_index, UPGRADE_S, DutyLease.UPGRADE),
            _Duty(self.end_reveals, REVEALS_S, DutyLease.REVEALS),
        )

    async def dispatch(self) -> int:
        """Queue waiting submissions and return how many; each comes due again until it is settled."""
        return await self._dispatcher.dispatch()

    async def project(self) -> int:
        """Show settled changes that a crash left unshown, and return how many."""
        return await self._in_outbox.project()

    async def reconcile(self) -> int:
        """Repair slices of some boards' index, and return the number of differences."""
        return await self._in_index.reconcile()

    async def see_to_cold(self) -> int:
        """Evict idle boards from Redis, build wanted ones, and return how many."""
        return await self._in_index.see_to_cold()

    async def upgrade_index(self) -> int:
        """Remove keys that an earlier version left in Redis; return how many, 0 once none is left."""
        return await self._layout.step()

    async def anchor(self) -> int:
        """Tend the anchors of large windows and return the amount of work."""
        return await self._in_ledger.anchor()

    async def collect(self) -> int:
        """Collect one slice of the store of recordings and return how many blobs changed."""
        return await self._collector.step()

    async def expire(self) -> int:
        """End recordings past their retention; return the events passed, 0 if none are left."""
        return await self._expirer.step()

    async def forget_addresses(self) -> int:
        """Delete hashed addresses of players whose time is over, and return how many."""
        return await self._forgetter.step()

    async def open_boards(self) -> int:
        """Open the boards that policies of families want and return how many were opened."""
        return await self._wanted.open_due()

    async def close_boards(self) -> int:
        """Close boards of families whose time is over and return how many."""
        return await self._boards.close_due()

    async def count_plays(self) -> int:
        """Count the runs of the last minute on boards; return the events passed, 0 if none are left."""
        return await self._boards.count_plays()

    async def fill_filters(self) -> int:
        """Make boards findable by the metadata that policies declare now; return how many were looked at."""
        return await self._boards.fill_filters()

    async def assess_cases(self) -> int:
        """Assess how much harm new cases could do and return how many."""
        return await self._cases.assess()

    async def keep_targets(self) -> int:
        """Note which queues are late by their boards' targets, and return how many deadlines have passed."""
        return await self._targets.step()

    async def keep_checks(self) -> int:
        """Draw checks, end those that nobody takes, and return how many decisions were looked at."""
        return await self._checks.step()

    async def seal(self) -> int:
        """Seal events if a seal is due and return how many."""
        return await self._sealer.step()

    async def archive(self) -> int:
        """Freeze windows and remove what that replaces; return how many windows and slices."""
        return await self._in_ledger.archive()

    async def keep_tails(self) -> int:
        """Keep heads and sketches of boards with `exact_ranks`; return how many entries and slices moved."""
        return await self._in_index.keep_tails()

    async def see_to_top(self) -> int:
        """Queue unverified runs at the top for verification and return how many."""
        return await self._in_ledger.see_to_top()

    async def recall(self) -> int:
        """Queue the unverified runs that players' convictions left for later, and return how many."""
        return await self._in_outbox.recall()

    async def keep_bans(self) -> int:
        """Lift bans whose time is over, go on with those that have work, and return how many."""
        return await self._bans.step()

    async def keep_players(self) -> int:
        """Go on with merges and erasures of players that have work, and return with how many."""
        return await self._players.step()

    async def keep_batches(self) -> int:
        """Go on with batches that have work, let expired previews go, and return with how many."""
        return await self._batches.step()

    async def roll_up(self) -> int:
        """Bring rollups up to date and return how many windows of boards were compared with points."""
        return await self._rollups.step()

    async def follow_rules(self) -> int:
        """Fold the next board or family whose policy ranks by another rule, and return how many."""
        return await self._rules.step()

    async def end_reveals(self) -> int:
        """Settle or extend the passed deadlines of requested recordings, and return how many."""
        return await self._in_outbox.end_reveals()

    async def draw_audits(self) -> int:
        """Draw verified runs to simulate again and return how many."""
        return await self._in_ledger.draw_audits()

    async def derive_from_log(self) -> int:
        """Derive from a slice of the log and return how many events it had."""
        return await self._derivations.follow_log()

    async def derive_from_changes(self) -> int:
        """Derive from a slice of the changes of standings and return how many it had."""
        return await self._derivations.follow_changes()

    async def deliver(self) -> int:
        """Begin deliveries to webhooks and return to how many."""
        return await self._derivations.sender.step()

    async def repair_derived(self) -> int:
        """Restore derived data that was lost with Redis, and return how much."""
        return await self._derivations.repair()

    async def _version(self) -> object:
        """Return what looks depend on: what is committed, and the lanes that this steward works on."""
        return await self._ledger.recent_version(), self.leases.lanes_held()

    async def _for_ever(
        self,
        duty: Callable[[], Awaitable[int]],
        pause_s: float,
        lease: DutyLease | None = None,
        rest_ms: int = 0,
        next_due: Callable[[], Awaitable[int | None]] | None = None,
        busy_s: float = 0.0,
    ) -> None:
        """Do a duty again and again: under its lease, or under the leases of the lanes that it works on.

        After it found nothing, it rests for `rest_ms`, until `next_due`, or until anything is committed
        or it works on other lanes. After it found something, it looks more often for `busy_s`.
        """
        unexpected, busy_until_s = 0, 0.0
        looks = Looks(self._version, longest_ms=rest_ms, clock=self._clock, next_due=next_due)
        step = partial(looks.at, duty) if rest_ms else duty
        while True:
            done, again_s = 0, pause_s
            try:
                with self.leases.working(lease) if lease else nullcontext(enter_result=True) as is_ours:
                    done = await step() if is_ours else 0
                unexpected = 0
                self.failures.clear(duty.__name__, "")
            except LeaseLost:
                pass  # it is noted, and another steward does this duty now
            except Exception as error:  # noqa: BLE001 - no failure may end a duty
                self.failures.note(duty.__name__, "", error)
                again_s = min(pause_s, AGAIN_S)
                unexpected += not isinstance(error, ScoregateError)
            if done:
                busy_until_s = time.monotonic() + busy_s
            is_busy = time.monotonic() < busy_until_s
            usual_s = SOON_S if is_busy else POLL_S if done else again_s
            await self.leases.pause(max(usual_s, back_off_s(unexpected)))
