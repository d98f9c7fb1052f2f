"""The duties in the outbox besides dispatching: changes to show, runs to recall, deadlines that passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.deployment.reference_clock import ReferenceClock
from gateway.index.board_indexes import Index
from gateway.ledger import index_pages, queries
from gateway.ledger.judgement import reveals, sampling
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import OutboxRow
from gateway.ledger.submissions import work
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from gateway.runtime.concurrency import in_turns
from gateway.settlement.settle import project
from gateway.shared_records import Change
from gateway.steward.due_work import SLICE, DueWork
from gateway.steward.failures import Failures
from gateway.steward.recordings.reveals import Deadlines
from policies.errors import IndexUnavailable, LeaseLost, LedgerUnavailable
from policies.loader import Board
from policies.vocabulary import State
from validators.verification_priority import HARMS, UNASSESSED

BOARDS_AT_ONCE: Final = 8
"""Boards whose settled changes are shown at once: a board whose Redis is away delays few others."""

CHANGES_AT_ONCE: Final = 32
"""Changes of a board that are shown and struck together, so that one late answer undoes no more."""


class OutboxDuties:
    """Work in the outbox that a steward does itself. Its methods raise LedgerUnavailable."""

    def __init__(
        self, catalogue: Catalogue, ledger: Ledger, index: Index, failures: Failures, *, clock: Clock
    ) -> None:
        self._catalogue = catalogue
        self._ledger = ledger
        self._index = index
        self._failures = failures
        self._clock = clock
        # A player's deadline counts as passed only once no clock in the deployment can doubt it.
        self._earliest_clock = clock.earliest if isinstance(clock, ReferenceClock) else clock
        self._deadlines = Deadlines(ledger, index, catalogue, clock=self._earliest_clock)
        self._due = DueWork(ledger, catalogue, clock=clock)

    async def project(self) -> int:
        """Show settled changes that a crash left unshown, and return how many."""
        rows = await self._due.of_kind("project")
        by_board: dict[str, list[OutboxRow]] = defaultdict(list)
        for row in rows:
            by_board[row.board].append(row)
        is_full = len(rows) >= SLICE
        boards = await self._catalogue.boards(by_board)
        showing = [self._project_on(board, by_board[name], is_full=is_full) for name, board in boards.items()]
        return sum(await in_turns(showing, at_once=BOARDS_AT_ONCE))

    async def recall(self) -> int:
        """Queue the unverified runs that players' convictions left for later, and return how many."""
        rows = await self._due.of_kind(sampling.RECALL)
        return sum([await self._ledger.write(sampling.recall(row, now_ms=self._clock())) for row in rows])

    async def next_projection(self) -> int | None:
        """Return when the next change is to be shown, None if all are."""
        return await self._ledger.read(work.next_due("project"))

    async def next_recall(self) -> int | None:
        """Return when the next recall is due, None if there is none."""
        return await self._ledger.read(work.next_due(sampling.RECALL))

    async def end_reveals(self) -> int:
        """Settle or extend the passed deadlines of requested recordings, and return how many."""
        harms = (UNASSESSED, *HARMS)
        due = work.due(reveals.KIND, now_ms=self._earliest_clock(), count=SLICE, harms=harms)
        rows = await self._due.with_policies(reveals.KIND, await self._ledger.read(due))
        return await self._deadlines.end(rows)

    async def _project_on(self, board: Board, rows: Sequence[OutboxRow], *, is_full: bool) -> int:
        """Show a board's changes and return how many; put them off if they fail and filled the slice."""
        shown = 0
        try:
            for at in range(0, len(rows), CHANGES_AT_ONCE):
                changes = await self._ledger.read(self._changes_of(rows[at : at + CHANGES_AT_ONCE]))
                if not await project(self._ledger, self._index, board, changes):
                    self._failures.note("project", board.name, IndexUnavailable())
                    break
                shown += len(changes)
            else:
                self._failures.clear("project", board.name)
                return shown
        except (LedgerUnavailable, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001 - a board's failure must not stop the others
            self._failures.note("project", board.name, error)
        if is_full:  # otherwise the same rows would fill every slice, and other boards never have their turn
            await self._ledger.write(work.postpone(rows, until_ms=self._clock() + PROJECT_AFTER_MS))
        return shown

    def _changes_of(self, rows: Sequence[OutboxRow]) -> Operation[list[Change]]:
        """Return each row's player and submission as they are now, in one read."""
        now_ms = self._clock()

        async def work(tx: Transaction) -> list[Change]:
            return [await _change_of(tx, row, now_ms=now_ms) for row in rows]

        return work


async def _change_of(tx: Transaction, row: OutboxRow, *, now_ms: int) -> Change:
    submission = await queries.load_submission(tx, row.submission_id)
    live = await index_pages.live_standings(row.board, row.player, now_ms=now_ms)(tx)
    # Older ones were shown before. Where their slots have gone, they would be told again as new.
    standings = [standing for standing in live if standing.seq >= row.seq]
    build = submission.build if submission else ""
    baselines = await queries.baselines_of(row.board, row.player, build)(tx)
    state = submission.state if submission else State.REJECTED
    return Change(
        row.seq, row.submission_id, row.board, row.player, state, tuple(standings), tuple(baselines)
    )
