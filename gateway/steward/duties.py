"""The steward's rounds: each duty in a loop of its own, none of which a failure ends."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Final, NamedTuple

from gateway.deployment.presence import PartKind, Presence
from gateway.deployment.reference_clock import ReferenceClock
from gateway.derived.derivations import Derivations
from gateway.index.board_index import Index
from gateway.ledger import index_pages, queries
from gateway.ledger.judgement import audits, prospects, reveals, sampling
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import OutboxRow
from gateway.ledger.submissions import work
from gateway.recordings.recordings import Recordings
from gateway.records import Change
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, logger
from gateway.settlement.settle import PROJECT_AFTER_MS, project
from gateway.steward.archive.archiving import Archiver
from gateway.steward.audits.auditing import AuditDraw
from gateway.steward.audits.top_check import TopCheck
from gateway.steward.dispatch import AUDITS_AT_ONCE, JobQueue, Lane, jobs_of, shared_out
from gateway.steward.failures import Failures
from gateway.steward.index.anchoring import Anchoring
from gateway.steward.index.cold import ColdBoards
from gateway.steward.index.exact_ranks import ExactRankKeeper
from gateway.steward.index.reconcile import Reconciler
from gateway.steward.recordings.collecting import Collector
from gateway.steward.recordings.expiring import Expirer
from gateway.steward.recordings.reveals import Deadlines
from gateway.steward.rounds import Round, Step
from gateway.steward.seals.sealing import Sealer
from policies.errors import IndexUnavailable, LedgerUnavailable, ScoregateError
from policies.loader import Board
from policies.vocabulary import State
from validators.verification_priority import HARMS, UNASSESSED, URGENT

POLL_S: Final = 0.05
"""How often the outbox is asked for due work: the latency that a verdict pays for not being lost."""

COLD_S: Final = 1.0
"""How often it is looked whether a board has gone cold, or is asked for: for so long readers wait for the index."""

ANCHOR_S: Final = 1.0
"""How often it is looked whether moves have to be folded into anchors."""

COLLECT_S: Final = 30.0
"""Pause between two slices of the store of recordings, in which there is all but always nothing to collect."""

SEAL_POLL_S: Final = 1.0
"""How often it is looked whether a seal is due."""

ARCHIVE_S: Final = 5.0
"""How often it is looked whether a window is over, or an archived one was changed."""

EXACT_RANKS_S: Final = 1.0
"""How often it is looked whether the head of a window lost too many entries, or its sketch is too old."""

TOP_S: Final = 1.0
"""How often it is looked whether something is in the top of a board without having been verified."""

REVEALS_S: Final = 1.0
"""How often it is looked whether a recording that was asked for did not come in time."""

AUDIT_S: Final = 60.0
"""How often it is looked whether a board's time for an audit has come."""

REPAIR_S: Final = 10.0
"""How often it is looked whether something that is derived was lost with Redis."""

LONGEST_BACK_OFF_S: Final = 30.0
"""Longest pause of a duty that fails again and again as nobody foresaw: it goes on once the cause is gone."""

SLICE: Final = 256

BOARDS_AT_ONCE: Final = 8
"""Boards whose settled changes are shown at once: one whose Redis is away keeps few of the others waiting."""

ABSENT_MS: Final = 600_000
"""How long work waits that belongs to a board without a policy, so that it is not in the way of other boards' work."""

_log = logger()


class _Rounds(NamedTuple):
    """What is seen to on each board by itself."""

    reconcile: Round
    archive: Round
    keep_tails: Round
    see_to_top: Round
    draw_audits: Round
    see_to_cold: Round


class Steward:
    """Dispatches, projects what a crash left unprojected, and reconciles."""

    def __init__(
        self,
        settings: Settings,
        boards: Mapping[str, Board],
        ledger: Ledger,
        index: Index,
        jobs: JobQueue,
        *,
        recordings: Recordings,
        clock: Clock = wall_clock,
        part_id: str | None = None,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._index = index
        self._jobs = jobs
        self._clock = clock
        self._certain = clock.earliest if isinstance(clock, ReferenceClock) else clock
        self._rankings = {name: board.ranking for name, board in boards.items()}
        self._tops = {name: board.policy.verification.top for name, board in boards.items()}
        self._recordings = recordings
        self.boards = boards
        self._collector = Collector(ledger, recordings, grace_ms=settings.recordings_grace_h * 3_600_000)
        self._expirer = Expirer(ledger, boards, clock=clock)
        self._anchoring = Anchoring(ledger, [each.ranking for each in boards.values()])
        self._sealer = Sealer(settings, ledger, clock=clock)
        self._derivations = Derivations(settings, boards, ledger, index.client, clock=clock)
        self._deadlines = Deadlines(ledger, index, boards, clock=self._certain)
        self._cold = ColdBoards(ledger, index.boards, clock=clock)
        self.failures = Failures()
        self.presence = Presence(
            index.client, PartKind.STEWARD, lambda: self.boards, failing=self.failures.now, part_id=part_id
        )
        self._rounds = self._rounds_of(boards)

    def _rounds_of(self, boards: Mapping[str, Board]) -> _Rounds:
        ledger, clock = self._ledger, self._clock
        reconciling: dict[str, Step] = {}
        archiving: dict[str, Step] = {}
        tails: dict[str, Step] = {}
        tops: dict[str, Step] = {}
        audits: dict[str, Step] = {}
        for name, board in boards.items():
            index, policy = self._index.boards[name], board.policy
            reconciling[name] = Reconciler(ledger, index, policy, clock=clock).step
            archiving[name] = Archiver(self._settings, ledger, board, clock=clock).step
            tops[name] = TopCheck(ledger, policy, clock=clock).step
            audits[name] = AuditDraw(ledger, policy, clock=clock).step
            if policy.exact_ranks:
                tails[name] = ExactRankKeeper(ledger, index, policy, clock=clock).step
        made = (reconciling, archiving, tails, tops, audits, self._cold.steps())
        named = zip(_Rounds._fields, made, strict=True)
        return _Rounds(*(Round(duty, steps, self.failures) for duty, steps in named))

    def under(self, boards: Mapping[str, Board]) -> Steward:
        """The same steward under other policies, of boards that the index has. Its rounds begin when those of this one have ended."""
        return Steward(
            self._settings,
            boards,
            self._ledger,
            self._index,
            self._jobs,
            recordings=self._recordings,
            clock=self._clock,
            part_id=self.presence.part_id,
        )

    @property
    def index(self) -> Index:
        """The index that it keeps."""
        return self._index

    async def run(self) -> None:
        """Does its rounds until it is cancelled."""
        async with AsyncExitStack() as stack:
            for each in (self._derivations, *self._rounds):
                await stack.enter_async_context(aclosing(each))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(self.presence.keep())
            group.create_task(self._for_ever(self.derive_from_log, POLL_S * 10))
            group.create_task(self._for_ever(self.derive_from_changes, POLL_S * 10))
            group.create_task(self._for_ever(self.deliver, POLL_S * 10))
            group.create_task(self._for_ever(self.repair_derived, REPAIR_S))
            group.create_task(self._for_ever(self.dispatch, POLL_S))
            group.create_task(self._for_ever(self.project, POLL_S * 10))
            group.create_task(self._for_ever(self.reconcile, self._settings.reconcile_s))
            group.create_task(self._for_ever(self.see_to_cold, COLD_S))
            group.create_task(self._for_ever(self.anchor, ANCHOR_S))
            group.create_task(self._for_ever(self.seal, SEAL_POLL_S))
            group.create_task(self._for_ever(self.collect, COLLECT_S))
            group.create_task(self._for_ever(self.expire, COLLECT_S))
            group.create_task(self._for_ever(self.archive, ARCHIVE_S))
            group.create_task(self._for_ever(self.keep_tails, EXACT_RANKS_S))
            group.create_task(self._for_ever(self.draw_audits, AUDIT_S))
            group.create_task(self._for_ever(self.see_to_top, TOP_S))
            group.create_task(self._for_ever(self.recall, TOP_S))
            group.create_task(self._for_ever(self.end_reveals, REVEALS_S))

    async def dispatch(self) -> int:
        """How many waiting submissions were handed to the queue; each comes back until it is settled."""
        await self._assess()
        rooms = await self._jobs.rooms()
        if not any(rooms.values()):
            return 0
        due = await self._due_to_verify()
        jobs = jobs_of(due, self._settings.verify_batch, has_urgent_lane=rooms[Lane.URGENT] > 0)
        by_lane: dict[Lane, list[list[OutboxRow]]] = defaultdict(list)
        for lane, job in shared_out(jobs, rooms):
            by_lane[lane].append(job)
        return sum([await self._hand_out(lane, some) for lane, some in by_lane.items()])

    async def _hand_out(self, lane: Lane, jobs: Sequence[Sequence[OutboxRow]]) -> int:
        reach(Point.BEFORE_DISPATCH)
        if not await self._jobs.put(lane, jobs):
            return 0
        reach(Point.AFTER_DISPATCH)
        handed = [row for job in jobs for row in job]
        until_ms = self._clock() + int(self._settings.redispatch_s * 1000)
        await self._ledger.write(work.hand_out(handed, until_ms=until_ms))
        return len(handed)

    async def _assess(self) -> None:
        """Looks at what has come: how much harm each would do. What comes meanwhile does not change it any more."""
        rows = await self._ledger.read(work.due_to_assess(now_ms=self._clock(), count=SLICE))
        if rows:
            harms = await self._ledger.read(prospects.harms_of(rows, self._rankings, self._tops))
            await self._ledger.write(work.prioritise(harms))

    async def project(self) -> int:
        """How many settled changes were shown that their own settlement did not live to show."""
        rows = await self._due("project")
        by_board: dict[str, list[OutboxRow]] = defaultdict(list)
        for row in rows:
            by_board[row.board].append(row)
        is_full = len(rows) >= SLICE
        showing = [self._project_on(board, some, is_full=is_full) for board, some in by_board.items()]
        return sum(await in_turns(showing, at_once=BOARDS_AT_ONCE))

    async def _project_on(self, board: str, rows: Sequence[OutboxRow], *, is_full: bool) -> int:
        """How many of a board's changes were shown; it makes room for other boards where they filled a slice in vain."""
        try:
            changes = [await self._change_of(row) for row in rows]
            if await project(self._ledger, self._index, changes):
                self.failures.clear("project", board)
                return len(changes)
            self.failures.note("project", board, IndexUnavailable())
        except LedgerUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - no board's failure is another's
            self.failures.note("project", board, error)
        if is_full:
            await self._ledger.write(work.postpone(rows, until_ms=self._clock() + PROJECT_AFTER_MS))
        return 0

    async def reconcile(self) -> int:
        """How much of the index was repaired in one slice of every board."""
        return await self._rounds.reconcile.step()

    async def see_to_cold(self) -> int:
        """How many boards were taken out of Redis, or put there again."""
        return await self._rounds.see_to_cold.step()

    async def anchor(self) -> int:
        """How much was done for the anchors of large windows."""
        return await self._anchoring.step()

    async def collect(self) -> int:
        """How much of one slice of the store of recordings was collected."""
        return await self._collector.step()

    async def expire(self) -> int:
        """How many events were passed whose recordings need not be kept any longer."""
        return await self._expirer.step()

    async def seal(self) -> int:
        """How many events were put under a seal."""
        return await self._sealer.step()

    async def archive(self) -> int:
        """How many windows were frozen, and slices of what that leaves behind removed."""
        return await self._rounds.archive.step()

    async def keep_tails(self) -> int:
        """How much was done for boards with `exact_ranks`: entries that came into heads or went, slices of sketches."""
        return await self._rounds.keep_tails.step()

    async def see_to_top(self) -> int:
        """How many submissions that are in a top unverified were put up for verification."""
        return await self._rounds.see_to_top.step()

    async def recall(self) -> int:
        """How many unverified runs of convicted players were put up that their convictions left for later."""
        found = await self._due(sampling.RECALL)
        return sum([await self._ledger.write(sampling.recall(row, now_ms=self._clock())) for row in found])

    async def end_reveals(self) -> int:
        """How many recordings that were asked for in vain had a consequence, or a new deadline."""
        harms = (UNASSESSED, *HARMS)
        due = work.due(reveals.KIND, now_ms=self._certain(), count=SLICE, harms=harms)
        return await self._deadlines.end(await self._ours(reveals.KIND, await self._ledger.read(due)))

    async def draw_audits(self) -> int:
        """How many verified runs were drawn to be simulated again."""
        return await self._rounds.draw_audits.step()

    async def derive_from_log(self) -> int:
        """How many events of the log had their effect on what is derived."""
        return await self._derivations.follow_log()

    async def derive_from_changes(self) -> int:
        """How many changes of standings had theirs."""
        return await self._derivations.follow_changes()

    async def deliver(self) -> int:
        """For how many webhooks delivering has begun."""
        return await self._derivations.sender.step()

    async def repair_derived(self) -> int:
        """How much was lost with Redis, and is there again."""
        return await self._derivations.repair()

    async def _due(self, kind: str, *, harm: int = 0) -> list[OutboxRow]:
        """Work whose time has come, a slice of it. What belongs to no board of ours is put off."""
        return await self._ours(
            kind, await self._ledger.read(work.due(kind, now_ms=self._clock(), count=SLICE, harms=(harm,)))
        )

    async def _due_to_verify(self) -> list[OutboxRow]:
        rows = await self._ledger.read(work.due_to_verify(now_ms=self._clock(), count=SLICE))
        again = await self._due(sampling.KIND, harm=URGENT)
        return [*await self._ours("verify", rows), *again, *await self._due_to_audit()]

    async def _due_to_audit(self) -> list[OutboxRow]:
        """As many audits as may be handed out now: what is handed out is due again later, or done."""
        due = await self._due(audits.KIND)
        if not due:
            return []
        handed_out = await self._ledger.read(audits.handed_out(now_ms=self._clock()))
        return due[: max(0, AUDITS_AT_ONCE - handed_out)]

    async def _ours(self, kind: str, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        strange = [row for row in rows if row.board not in self._index.boards]
        if strange:
            _log.warning(
                Event.DUTY_FAILED, duty=kind, error="no policy", boards=sorted({row.board for row in strange})
            )
            await self._ledger.write(work.postpone(strange, until_ms=self._clock() + ABSENT_MS))
        return [row for row in rows if row.board in self._index.boards]

    async def _change_of(self, row: OutboxRow) -> Change:
        found = await self._ledger.read(queries.submission(row.submission_id))
        now_ms = self._clock()
        live = await self._ledger.read(index_pages.live_standings(row.board, row.player, now_ms=now_ms))
        build = found.build if found else ""
        learnt = await self._ledger.read(queries.baselines_of(row.board, row.player, build))
        state = found.state if found else State.REJECTED
        return Change(row.seq, row.submission_id, row.board, row.player, state, tuple(live), tuple(learnt))

    async def _for_ever(self, duty: Callable[[], Awaitable[int]], pause_s: float) -> None:
        task, unexpected = asyncio.current_task(), 0
        while True:
            done = 0
            try:
                done = await duty()
                unexpected = 0
                self.failures.clear(duty.__name__, "")
            except Exception as error:  # noqa: BLE001 - no failure ends a duty
                self.failures.note(duty.__name__, "", error)
                unexpected += not isinstance(error, ScoregateError)
            if task and task.cancelling():
                return  # redis-py swallows a cancellation while it connects
            await asyncio.sleep(max(POLL_S if done else pause_s, back_off_s(unexpected)))


def back_off_s(failures: int) -> float:
    """How long to leave alone what failed so often in a row for a reason that nobody foresaw."""
    return min(LONGEST_BACK_OFF_S, POLL_S * 2 ** min(failures, 20)) if failures else 0.0
