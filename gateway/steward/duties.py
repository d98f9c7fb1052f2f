"""The steward: each duty runs in its own loop, which no failure ends."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, nullcontext
from typing import Final, Protocol

from gateway.catalogue.catalogue import Catalogue
from gateway.deployment.presence import PartKind, Presence
from gateway.deployment.reference_clock import ReferenceClock
from gateway.derived.derivations import Derivations
from gateway.index.board_index import Index
from gateway.ledger import index_pages, queries
from gateway.ledger.judgement import audits, promotion_impact, reveals, sampling
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import OutboxRow
from gateway.ledger.submissions import work
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.settle import project
from gateway.shared_records import Change
from gateway.steward.dispatch import AUDITS_AT_ONCE, JobQueue, VerificationQueue, jobs_of, shared_out
from gateway.steward.failures import Failures
from gateway.steward.family_boards import BoardKeeper
from gateway.steward.fencing import FencedLedger
from gateway.steward.index.layout_upgrade import LayoutUpgrade
from gateway.steward.index_duties import IndexDuties
from gateway.steward.leases import DutyLease, StewardLeases
from gateway.steward.ledger_duties import ABSENT_MS, LedgerDuties
from gateway.steward.recordings.collecting import Collector
from gateway.steward.recordings.expiring import Expirer
from gateway.steward.recordings.reveals import Deadlines
from gateway.steward.rollups import RollupKeeper
from gateway.steward.seals.sealing import Sealer
from gateway.steward.wanted_boards import BoardOpener
from policies.errors import IndexUnavailable, LeaseLost, LedgerUnavailable, ScoregateError
from policies.loader import Board, Policies
from policies.vocabulary import State
from validators.verification_priority import HARMS, UNASSESSED, URGENT

POLL_S: Final = 0.05
"""Seconds between looks for due work in the outbox: the latency that a verdict pays for not being lost."""

COLD_S: Final = 1.0
"""Seconds between looks for idle boards, and for cold boards in demand: readers wait this long."""

ANCHOR_S: Final = 1.0
"""Seconds between looks for moves to fold into anchors."""

COLLECT_S: Final = 30.0
"""Seconds between two slices of the store of recordings, which almost never have anything to collect."""

SEAL_POLL_S: Final = 1.0
"""Seconds between looks for a due seal."""

ARCHIVE_S: Final = 5.0
"""Seconds between looks for windows that are over, and for changes in archived ones."""

EXACT_RANKS_S: Final = 1.0
"""Seconds between looks for heads that lost too many entries, and for sketches that are too old."""

ROLLUP_S: Final = 0.5
"""Seconds between looks for boards whose ranks give other points."""

BOARDS_S: Final = 1.0
"""Seconds between looks for boards of families whose time to open or to close has come."""

PLAYS_S: Final = 60.0
"""Seconds between counts of runs on boards of families: a board is updated once for all runs in between."""

UPGRADE_S: Final = 60.0
"""Seconds between looks for keys of an earlier version in Redis: one question, once none is left."""

FILTERS_S: Final = 10.0
"""Seconds between looks for families that declare other metadata to filter by."""

TOP_S: Final = 1.0
"""Seconds between looks for unverified runs at the top of a board."""

REVEALS_S: Final = 1.0
"""Seconds between looks for requested recordings that did not arrive in time."""

AUDIT_S: Final = 60.0
"""Seconds between looks for boards whose time for an audit has come."""

REPAIR_S: Final = 10.0
"""Seconds between looks for derived data that was lost with Redis."""

LONGEST_BACK_OFF_S: Final = 30.0
"""Longest pause of a duty with repeated unforeseen failures: it continues once the cause is gone."""

SLICE: Final = 256

BOARDS_AT_ONCE: Final = 8
"""Boards whose settled changes are shown at once: a board whose Redis is away delays few others."""

_log = logger()


class _Closing(Protocol):
    """A part that has something to close when the steward ends."""

    async def aclose(self) -> None:
        """Close it."""
        ...


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
        self._ledger = ledger = FencedLedger(ledger, self.leases)
        self._index = index
        self._jobs = jobs
        self._clock = clock
        # A player's deadline counts as passed only once no clock in the deployment can doubt it.
        self._earliest_clock = clock.earliest if isinstance(clock, ReferenceClock) else clock
        self._recordings = recordings
        self.catalogue = catalogue
        self._collector = Collector(ledger, recordings, grace_ms=settings.recordings_grace_h * 3_600_000)
        self._expirer = Expirer(ledger, catalogue, clock=clock)
        self._sealer = Sealer(settings, ledger, clock=clock)
        self._derivations = Derivations(
            settings,
            catalogue,
            ledger,
            index.client,
            clock=clock,
            left_ms=int(settings.steward_lease_s * 1000),
            deliveries_ledger=self._unfenced_ledger,
        )
        self._deadlines = Deadlines(ledger, index, catalogue, clock=self._earliest_clock)
        self._boards = BoardKeeper(ledger, catalogue, clock=clock)
        self._wanted = BoardOpener(ledger, catalogue, clock=clock)
        self._rollups = RollupKeeper(ledger, index, catalogue, clock=clock)
        self._layout = LayoutUpgrade(index.client, catalogue.of_files.values)
        self.failures = Failures()
        self.presence = Presence(
            index.client,
            PartKind.STEWARD,
            lambda: catalogue.policies.by_name,
            failing=self.failures.now,
            work=lambda: (len(self.leases.lanes_held()), self.leases.duties_held()),
            part_id=part_id,
        )
        self._in_ledger = LedgerDuties(
            settings, catalogue, ledger, self.failures, clock=clock, leases=self.leases
        )
        self._in_index = IndexDuties(catalogue, ledger, index, self.failures, clock=clock, leases=self.leases)

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
            group.create_task(self._for_ever(self.derive_from_log, POLL_S * 10, DutyLease.DERIVATIONS))
            group.create_task(self._for_ever(self.derive_from_changes, POLL_S * 10, DutyLease.DERIVATIONS))
            group.create_task(self._for_ever(self.deliver, POLL_S * 10, DutyLease.DELIVERIES))
            group.create_task(self._for_ever(self.repair_derived, REPAIR_S, DutyLease.DERIVATIONS))
            group.create_task(self._for_ever(self.dispatch, POLL_S, DutyLease.DISPATCH))
            group.create_task(self._for_ever(self.project, POLL_S * 10, DutyLease.PROJECTION))
            group.create_task(self._for_ever(self.reconcile, self._settings.reconcile_s))
            group.create_task(self._for_ever(self.see_to_cold, COLD_S))
            group.create_task(self._for_ever(self.anchor, ANCHOR_S))
            group.create_task(self._for_ever(self.seal, SEAL_POLL_S, DutyLease.SEALS))
            group.create_task(self._for_ever(self.collect, COLLECT_S, DutyLease.COLLECTING))
            group.create_task(self._for_ever(self.expire, COLLECT_S, DutyLease.EXPIRING))
            group.create_task(self._for_ever(self.archive, ARCHIVE_S))
            group.create_task(self._for_ever(self.keep_tails, EXACT_RANKS_S))
            group.create_task(self._for_ever(self.draw_audits, AUDIT_S))
            group.create_task(self._for_ever(self.see_to_top, TOP_S))
            group.create_task(self._for_ever(self.recall, TOP_S, DutyLease.RECALLS))
            group.create_task(self._for_ever(self.roll_up, ROLLUP_S, DutyLease.ROLLUPS))
            group.create_task(self._for_ever(self.open_boards, BOARDS_S, DutyLease.BOARDS))
            group.create_task(self._for_ever(self.close_boards, BOARDS_S, DutyLease.BOARDS))
            group.create_task(self._for_ever(self.count_plays, PLAYS_S, DutyLease.BOARDS))
            group.create_task(self._for_ever(self.fill_filters, FILTERS_S, DutyLease.BOARDS))
            group.create_task(self._for_ever(self.upgrade_index, UPGRADE_S, DutyLease.UPGRADE))
            group.create_task(self._for_ever(self.end_reveals, REVEALS_S, DutyLease.REVEALS))

    async def dispatch(self) -> int:
        """Queue waiting submissions and return how many; each comes due again until it is settled."""
        await self._assess()
        rooms = await self._jobs.rooms()
        if not any(rooms.values()):
            return 0
        due = await self._due_to_verify()
        jobs = jobs_of(due, self._settings.verify_batch, has_urgent_queue=rooms[VerificationQueue.URGENT] > 0)
        by_queue: dict[VerificationQueue, list[list[OutboxRow]]] = defaultdict(list)
        for queue, job in shared_out(jobs, rooms):
            by_queue[queue].append(job)
        return sum([await self._hand_out(queue, batches) for queue, batches in by_queue.items()])

    async def _hand_out(self, queue: VerificationQueue, jobs: Sequence[Sequence[OutboxRow]]) -> int:
        reach(Point.BEFORE_DISPATCH)
        if not await self._jobs.put(queue, jobs):
            return 0
        reach(Point.AFTER_DISPATCH)
        rows = [row for job in jobs for row in job]
        until_ms = self._clock() + int(self._settings.redispatch_s * 1000)
        await self._ledger.write(work.hand_out(rows, until_ms=until_ms))
        return len(rows)

    async def _assess(self) -> None:
        """Store how much harm each new submission could do. Later submissions do not change it."""
        rows = await self._ledger.read(work.due_to_assess(now_ms=self._clock(), count=SLICE))
        if rows:
            boards = await self.catalogue.boards({row.board for row in rows})
            rankings = {name: board.ranking for name, board in boards.items()}
            tops = {name: board.policy.verification.top for name, board in boards.items()}
            harms = await self._ledger.read(promotion_impact.harms_of(rows, rankings, tops))
            await self._ledger.write(work.prioritise(harms))

    async def project(self) -> int:
        """Show settled changes that a crash left unshown, and return how many."""
        rows = await self._due("project")
        by_board: dict[str, list[OutboxRow]] = defaultdict(list)
        for row in rows:
            by_board[row.board].append(row)
        is_full = len(rows) >= SLICE
        boards = await self.catalogue.boards(by_board)
        showing = [self._project_on(board, by_board[name], is_full=is_full) for name, board in boards.items()]
        return sum(await in_turns(showing, at_once=BOARDS_AT_ONCE))

    async def _project_on(self, board: Board, rows: Sequence[OutboxRow], *, is_full: bool) -> int:
        """Show a board's changes and return how many; put them off if they fail and filled the slice."""
        try:
            changes = [await self._change_of(row) for row in rows]
            if await project(self._ledger, self._index, board, changes):
                self.failures.clear("project", board.name)
                return len(changes)
            self.failures.note("project", board.name, IndexUnavailable())
        except (LedgerUnavailable, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001 - a board's failure must not stop the others
            self.failures.note("project", board.name, error)
        if is_full:  # otherwise the same rows would fill every slice, and other boards never have their turn
            await self._ledger.write(work.postpone(rows, until_ms=self._clock() + PROJECT_AFTER_MS))
        return 0

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
        """End recordings past their retention and return how many events were passed."""
        return await self._expirer.step()

    async def open_boards(self) -> int:
        """Open the boards that policies of families want and return how many were opened."""
        return await self._wanted.open_due()

    async def close_boards(self) -> int:
        """Close boards of families whose time is over and return how many."""
        return await self._boards.close_due()

    async def count_plays(self) -> int:
        """Count the runs of the last minute on boards of families and return how many events were passed."""
        return await self._boards.count_plays()

    async def fill_filters(self) -> int:
        """Make boards findable by the metadata that policies declare now; return how many were looked at."""
        return await self._boards.fill_filters()

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
        rows = await self._due(sampling.RECALL)
        return sum([await self._ledger.write(sampling.recall(row, now_ms=self._clock())) for row in rows])

    async def roll_up(self) -> int:
        """Bring rollups of points up to date, and return how many windows of boards were compared."""
        return await self._rollups.step()

    async def end_reveals(self) -> int:
        """Settle or extend the passed deadlines of requested recordings, and return how many."""
        harms = (UNASSESSED, *HARMS)
        due = work.due(reveals.KIND, now_ms=self._earliest_clock(), count=SLICE, harms=harms)
        return await self._deadlines.end(await self._ours(reveals.KIND, await self._ledger.read(due)))

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

    async def _due(self, kind: str, *, harm: int = 0) -> list[OutboxRow]:
        """Return a slice of the due work of our boards, and put off that of others."""
        return await self._ours(
            kind, await self._ledger.read(work.due(kind, now_ms=self._clock(), count=SLICE, harms=(harm,)))
        )

    async def _due_to_verify(self) -> list[OutboxRow]:
        rows = await self._ledger.read(work.due_to_verify(now_ms=self._clock(), count=SLICE))
        again = await self._due(sampling.KIND, harm=URGENT)
        return [*await self._ours("verify", rows), *again, *await self._due_to_audit()]

    async def _due_to_audit(self) -> list[OutboxRow]:
        """Return as many due audits as may be handed out now."""
        due = await self._due(audits.KIND)
        if not due:
            return []
        handed_out = await self._ledger.read(audits.handed_out(now_ms=self._clock()))
        return due[: max(0, AUDITS_AT_ONCE - handed_out)]

    async def _ours(self, kind: str, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        foreign = [row for row in rows if row.board not in self.catalogue]
        if foreign:
            _log.warning(
                Event.DUTY_FAILED, duty=kind, error="no policy", boards=sorted({row.board for row in foreign})
            )
            await self._ledger.write(work.postpone(foreign, until_ms=self._clock() + ABSENT_MS))
        return [row for row in rows if row.board in self.catalogue]

    async def _change_of(self, row: OutboxRow) -> Change:
        submission = await self._ledger.read(queries.submission(row.submission_id))
        now_ms = self._clock()
        standings = await self._ledger.read(index_pages.live_standings(row.board, row.player, now_ms=now_ms))
        build = submission.build if submission else ""
        baselines = await self._ledger.read(queries.baselines_of(row.board, row.player, build))
        state = submission.state if submission else State.REJECTED
        return Change(
            row.seq, row.submission_id, row.board, row.player, state, tuple(standings), tuple(baselines)
        )

    async def _for_ever(
        self, duty: Callable[[], Awaitable[int]], pause_s: float, lease: DutyLease | None = None
    ) -> None:
        """Do a duty again and again: under its lease, or under the leases of the lanes that it works on."""
        task, unexpected = asyncio.current_task(), 0
        while True:
            done = 0
            try:
                with self.leases.working(lease) if lease else nullcontext(enter_result=True) as is_ours:
                    done = await duty() if is_ours else 0
                unexpected = 0
                self.failures.clear(duty.__name__, "")
            except LeaseLost:
                pass  # it is noted, and another steward does this duty now
            except Exception as error:  # noqa: BLE001 - no failure may end a duty
                self.failures.note(duty.__name__, "", error)
                unexpected += not isinstance(error, ScoregateError)
            if task and task.cancelling():
                return  # redis-py swallows a cancellation while it connects
            await self.leases.pause(max(POLL_S if done else pause_s, back_off_s(unexpected)))


def back_off_s(failures: int) -> float:
    """Return the pause in seconds after so many unforeseen failures in a row."""
    return min(LONGEST_BACK_OFF_S, POLL_S * 2 ** min(failures, 20)) if failures else 0.0
