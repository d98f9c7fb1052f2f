"""The duties in the ledger that come due on single boards: archiving, audits, the top, and anchors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.ledger.archive import windows as archive
from gateway.ledger.derived import board_duties
from gateway.ledger.derived.board_duties import BoardDuty, DueDuty
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings import anchors
from gateway.runtime.clock import Clock
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.steward.agenda import Agenda
from gateway.steward.archive.archiving import DAY_MS, THIN_AFTER_MS, Archiver
from gateway.steward.audits.auditing import AuditDraw, next_audit_ms
from gateway.steward.audits.top_check import TopCheck
from gateway.steward.failures import Failures
from gateway.steward.index.anchoring import Anchoring
from gateway.steward.leases import DutyLease, StewardLeases
from gateway.steward.looks import REST_MS, Looks
from gateway.steward.rounds import Round, Step
from policies.errors import LeaseLost
from policies.loader import Board

TAKEN: Final = 64
"""Rows of one question. What does not fit is due in the next round."""

ANCHORED_AT_ONCE: Final = 8
"""Anchored windows looked at in a round, in turn, whatever events say."""

ABSENT_MS: Final = 600_000
"""How long the work of a board without a policy is put off, so that it does not block other boards' work."""

OUTDATED_MS: Final = 10_000
"""How long the top of a board is put off that is being folded by another rule."""

StepOnRows = Callable[[Board, Sequence[DueDuty]], Awaitable[int]]


class LedgerDuties:
    """The boards that are due in the ledger, on this steward's lanes. Steps raise LedgerUnavailable."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        ledger: Ledger,
        failures: Failures,
        *,
        clock: Clock,
        leases: StewardLeases,
    ) -> None:
        self._settings = settings
        self._after_ms = int(settings.archive_after_s * 1000)
        self._catalogue = catalogue
        self._ledger = ledger
        self._clock = clock
        self._leases = leases
        self._outdated = OutdatedBoards(ledger, catalogue, ReadKind.DUTIES)
        self._agenda = Agenda(ledger, catalogue, clock=clock)
        self._following = Looks(ledger.version, longest_ms=REST_MS, clock=clock)
        self._archiving = Round("archive", failures)
        self._tops = Round("see_to_top", failures)
        self._audits = Round("draw_audits", failures)
        self._anchors = Round("anchor", failures)
        self._archivers: dict[str, Archiver] = {}
        self._seen_archived = self._seen_anchored = ("", "")

    async def archive(self) -> int:
        """Freeze windows and remove what that replaces; return how many windows and slices."""
        rows = await self._due(BoardDuty.ARCHIVE, now_ms=self._clock() - self._after_ms)
        by_board = dict.fromkeys(await self._archived(), ()) | _by_board(rows)
        return await self._archiving.step(await self._steps(by_board, self._archive))

    async def see_to_top(self) -> int:
        """Queue unverified runs at the top for verification and return how many."""
        return await self._on_due(self._tops, BoardDuty.TOP, self._see_to_top)

    async def next_top(self) -> int | None:
        """Return when the next top of a board on this steward's lanes is due, None if none will be."""
        lanes = self._leases.lanes_held()
        return await self._ledger.read(board_duties.next_due(BoardDuty.TOP, lanes=lanes))

    async def draw_audits(self) -> int:
        """Draw verified runs to simulate again and return how many."""
        return await self._on_due(self._audits, BoardDuty.AUDIT, self._draw)

    async def anchor(self) -> int:
        """Tend the anchors of large windows and return the amount of work."""
        rows = await self._due(BoardDuty.ANCHOR)
        page = await self._ledger.read(anchors.anchored_after(self._seen_anchored, count=ANCHORED_AT_ONCE))
        self._seen_anchored = page[-1] if len(page) == ANCHORED_AT_ONCE else ("", "")
        noted = {(row.board, row.window) for row in rows}
        others = [
            DueDuty(BoardDuty.ANCHOR, *window, 0, 0, 0)
            for window in page
            if window not in noted and lane_of(window[0]) in self._leases.lanes_held()
        ]
        return await self._anchors.step(await self._steps(_by_board([*rows, *others]), self._tend))

    async def aclose(self) -> None:
        """Cancel unfinished boards."""
        for duty in (self._archiving, self._tops, self._audits, self._anchors):
            await duty.aclose()

    async def _on_due(self, duty_round: Round, duty: BoardDuty, step: StepOnRows) -> int:
        return await duty_round.step(await self._steps(_by_board(await self._due(duty)), step))

    async def _due(self, duty: BoardDuty, *, now_ms: int | None = None) -> list[DueDuty]:
        # Without the agenda's lease another steward follows it, and these lanes stay this one's.
        with suppress(LeaseLost), self._leases.working(DutyLease.AGENDA) as is_ours:
            if is_ours:
                await self._following.at(self._agenda.follow)
        now_ms = self._clock() if now_ms is None else now_ms
        return await self._ledger.read(
            board_duties.due(duty, now_ms=now_ms, count=TAKEN, lanes=self._leases.lanes_held())
        )

    async def _steps(self, by_board: Mapping[str, Sequence[DueDuty]], step: StepOnRows) -> dict[str, Step]:
        """Return the step of each board; put off the duties of boards without a policy."""
        boards = await self._catalogue.boards(by_board)
        absent = [row for name, rows in by_board.items() if name not in boards for row in rows]
        if absent:
            until_ms = self._clock() + ABSENT_MS
            for row in absent:
                put_off = partial(self._ledger.write, board_duties.put_off([row], until_ms=until_ms))
                await self._leases.on_lane(row.board, put_off)()
        return {
            name: self._leases.on_lane(name, partial(step, boards[name], rows))
            for name, rows in by_board.items()
            if name in boards
        }

    async def _archived(self) -> list[str]:
        """Return boards that have work on archived windows now."""
        now_ms, keep_days = self._clock(), self._settings.archive_keep_days
        at_work = await self._ledger.read(archive.windows_at_work(self._seen_archived, count=TAKEN))
        self._seen_archived = at_work[-1] if len(at_work) == TAKEN else ("", "")
        expired_ms = now_ms - THIN_AFTER_MS
        boards = [board for board, _ in at_work]
        boards += await self._ledger.read(archive.boards_to_thin(expired_ms=expired_ms, count=TAKEN))
        if keep_days is not None:
            ended_ms = now_ms - keep_days * DAY_MS
            ended = archive.boards_to_forget(ended_ms=ended_ms, expired_ms=expired_ms, count=TAKEN)
            boards += await self._ledger.read(ended)
        return [board for board in dict.fromkeys(boards) if lane_of(board) in self._leases.lanes_held()]

    async def _archive(self, board: Board, rows: Sequence[DueDuty]) -> int:
        archiver = self._archivers.pop(board.name, None)
        archiver = archiver or Archiver(self._settings, self._ledger, board, clock=self._clock)
        try:
            done = await archiver.step()
        finally:
            if archiver.is_waiting_for_quiet:
                self._archivers[board.name] = archiver
        looks = await archiver.next_looks([row.window for row in rows]) if rows else {}
        for row in rows:
            next_ms = looks[row.window]
            await self._end(row, None if next_ms is None else next_ms - self._after_ms)
        return done

    async def _see_to_top(self, board: Board, rows: Sequence[DueDuty]) -> int:
        if await self._outdated.has(board.name):  # whoever stands at its top by now may not when it is folded
            await self._ledger.write(board_duties.put_off(rows, until_ms=self._clock() + OUTDATED_MS))
            return 0
        queued = await TopCheck(self._ledger, board.policy, clock=self._clock).step()
        if not queued:
            await self._ledger.write(board_duties.strike(rows))
        return queued

    async def _draw(self, board: Board, rows: Sequence[DueDuty]) -> int:
        [row] = rows
        draw = AuditDraw(self._ledger, board.policy, clock=self._clock)
        noted = await draw.step(first_after=row.first_seq - 1)
        has_drawn = await draw.has_drawn(row.last_seq)
        await self._end(row, None if has_drawn else next_audit_ms(board.policy, self._clock()))
        return noted

    async def _tend(self, board: Board, rows: Sequence[DueDuty]) -> int:
        anchoring, done = Anchoring(self._ledger, board.ranking), 0
        for row in rows:
            tended = await anchoring.tend(row.window)
            if not tended and row.last_seq:
                await self._ledger.write(board_duties.strike([row]))
            done += tended
        return done

    async def _end(self, row: DueDuty, next_ms: int | None) -> None:
        """Strike a duty that is done, or let it come due again."""
        if next_ms is None:
            await self._ledger.write(board_duties.strike([row]))
        else:
            await self._ledger.write(board_duties.put_off([row], until_ms=next_ms))


def _by_board(rows: Sequence[DueDuty]) -> dict[str, Sequence[DueDuty]]:
    by_board: dict[str, list[DueDuty]] = defaultdict(list)
    for row in rows:
        by_board[row.board].append(row)
    return dict(by_board)
