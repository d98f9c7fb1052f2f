"""Freezes windows that are over into the ledger's archive, and keeps the archive equal to the ledger's fold.

A window is due once it has been over for `archive_after_s` and has no pending submissions left, or at the
latest when the index forgets it. `alltime` is over once its board is closed and can get no more runs. A later
change (by a verdict, a moderator or a trusted server) makes a new revision due, which is built beside the
readable one. A window's standings leave the ledger some time after the index forgot it; a later change folds
them again from promoted submissions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, Final, NamedTuple

from gateway.ledger.archive import freezing
from gateway.ledger.archive.freezing import SliceOutcome
from gateway.ledger.archive.frozen_policies import DECIDING, DECIDING_OF_ROLLUP, ranking_of
from gateway.ledger.archive.windows import (
    ArchivedWindow,
    ArchiveStage,
    FrozenPolicy,
    archived_windows_of,
    begin,
    is_waiting,
)
from gateway.ledger.index_pages import live_windows
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.refold import promoted_players, refold
from gateway.runtime.clock import Clock
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, logger
from policies.errors import ArchiveRefused
from policies.loader import Board
from policies.windows import FOREVER_MS, Window, window_named

SLICE: Final = 2_000
"""Entries written or removed in one transaction: other writes wait for about a hundredth of a second."""

PLAYERS: Final = 100
"""Players folded in one transaction."""

ATTEMPTS: Final = 5
"""Attempts to build a revision in slices while changes void it, then as many in one transaction each.

Only another steward's build voids the latter. After all attempts, the window waits for its next turn.
"""

QUIET_MS: Final = 30_000
"""How long an archived window must stay unchanged before its next revision is built."""

LONGEST_MS: Final = 120_000
"""Longest wait of a change for such a pause; then the revision is built, though more changes may come."""

THIN_AFTER_MS: Final = 3_600_000
"""How long standings of an archived window stay after the index forgot it: longer than clocks differ."""

WAIT_MS: Final = 5_000
"""Time between two looks at a window that is over and has pending submissions."""

DAY_MS: Final = 86_400_000

_log = logger()


class _LastChange(NamedTuple):
    """The last change that a window's revision lacks, and when it and the first were noticed (Unix ms)."""

    seq: int
    last_ms: int
    first_ms: int


class Archiver:
    """Archives one board's windows. Any number may run, and may be killed at any time."""

    def __init__(self, settings: Settings, ledger: Ledger, board: Board, *, clock: Clock) -> None:
        self._after_ms = int(settings.archive_after_s * 1000)
        self._keep_ms = None if settings.archive_keep_days is None else settings.archive_keep_days * DAY_MS
        self._ledger = ledger
        self._board = board
        self._clock = clock
        self._changes: dict[str, _LastChange] = {}

    async def step(self) -> int:
        """Freeze due windows and remove what is no longer needed; return how many revisions and slices."""
        frozen = await self.freeze_due()
        for archived in frozen:
            _log.info(
                Event.WINDOW_FROZEN,
                board=archived.board,
                window=archived.window,
                revision=archived.revision,
            )
        return len(frozen) + sum([await self._tidy(archived) for archived in await self._archived()])

    @property
    def is_waiting_for_quiet(self) -> bool:
        """Whether a changed window waits for a pause; when its changes were noticed is known only here."""
        return bool(self._changes)

    async def next_looks(self, names: Collection[str]) -> dict[str, int | None]:
        """Return when each window may next be frozen for the first time (Unix ms), None for never."""
        archived = {window.window for window in await self._archived() if not window.is_withdrawn}
        standing = await self._names_with_standings()
        return {name: None if name in archived else self._next_look(name, standing) for name in names}

    def _next_look(self, name: str, standing: Collection[str]) -> int | None:
        window = self._window_named(name)
        due_ms = FOREVER_MS if window is None else self._end_of(window) + self._after_ms
        if due_ms >= FOREVER_MS:
            return None
        if name in standing:
            return max(due_ms, self._clock() + WAIT_MS)
        # Runs of a closed board may still land. What lands later makes its archive due again.
        is_awaited = window is not None and window.end_ms == FOREVER_MS and self._clock() < due_ms
        return due_ms if is_awaited else None

    def _end_of(self, window: Window) -> int:
        """Return when a window is over (Unix ms); `alltime` is when its board can get no more runs."""
        final_from_ms = self._board.final_from_ms
        if window.end_ms < FOREVER_MS or final_from_ms is None:
            return window.end_ms
        return final_from_ms

    async def freeze_due(self) -> list[ArchivedWindow]:
        """Freeze the due windows and return those with a new revision."""
        before = {archived.window: archived for archived in await self._archived()}
        frozen: list[ArchivedWindow] = []
        for window in await self._due(before):
            archived = await self.freeze(window)
            self._changes.pop(window.name, None)
            if archived and (window.name not in before or before[window.name].revision < archived.revision):
                frozen.append(archived)
        return frozen

    async def freeze(self, window: Window) -> ArchivedWindow | None:
        """Build the next revision if the window lacks changes, and return the window.

        A change during the build voids it; after some attempts, the revision is built in one transaction.
        Returns None if other stewards begin builds again and again, or if the board was reopened.
        """
        for attempt in range(2 * ATTEMPTS):
            archived = await self._ledger.write(begin(self._board.name, window, self._todays_policy()))
            if archived is None:
                return None
            if not archived.stage.is_building:
                return archived
            await self._fold(archived)
            if attempt < ATTEMPTS:
                await self._copy(archived)
            else:
                ranking = ranking_of(archived, self._board.policy)
                await self._ledger.write(freezing.copy_whole(archived, ranking, now_ms=self._clock()))
        return None

    async def freeze_now(self, name: str) -> ArchivedWindow:
        """Freeze the window of this name, even if it is not due, and return it. Raises ArchiveRefused."""
        before = {archived.window: archived for archived in await self._archived()}
        is_there = name in before or name in await self._names_with_standings()
        window = before[name].span if name in before else self._window_named(name)
        if window is None or not is_there:
            raise ArchiveRefused(f"the board {self._board.name} has no standings in a window {name!r}")
        if self._end_of(window) > self._clock():
            raise ArchiveRefused(f"{name} is not over yet")
        archived = await self.freeze(window)
        if archived is None:
            raise ArchiveRefused(f"other stewards keep building {name}; try again later")
        if archived.stage.is_gone:
            raise ArchiveRefused(f"{name} is older than SCOREGATE_ARCHIVE_KEEP_DAYS and was removed")
        return archived

    async def _due(self, archived: dict[str, ArchivedWindow]) -> list[Window]:
        """Return the windows to freeze now: unfinished and changed ones, then those that are over, by end."""
        unfinished = [window.span for window in archived.values() if self._is_unfinished(window)]
        kept = {name for name, window in archived.items() if not window.is_withdrawn}
        names = [name for name in await self._names_with_standings() if name not in kept]
        over = [window for window in map(self._window_named, names) if window and self._is_over(window)]
        ready = [window for window in over if not await self._must_wait(window)]
        return unfinished + sorted(ready, key=lambda window: (window.end_ms, window.name))

    async def _archived(self) -> list[ArchivedWindow]:
        return await self._ledger.read(archived_windows_of(self._board.name))

    async def _names_with_standings(self) -> set[str]:
        """Return the names of all windows that have standings, however long ago they expired."""
        return set(await self._ledger.read(live_windows(self._board.name, now_ms=0)))

    def _is_unfinished(self, archived: ArchivedWindow) -> bool:
        if archived.stage.is_gone or not (archived.stage.is_building or archived.changed_seq):
            return False
        return archived.changed_seq == 0 or self._is_quiet(archived)

    def _is_quiet(self, archived: ArchivedWindow) -> bool:
        now_ms = self._clock()
        before = self._changes.get(archived.window, _LastChange(archived.changed_seq, now_ms, now_ms))
        change = (
            before
            if before.seq == archived.changed_seq
            else _LastChange(archived.changed_seq, now_ms, before.first_ms)
        )
        self._changes[archived.window] = change
        return now_ms - change.last_ms >= QUIET_MS or now_ms - change.first_ms >= LONGEST_MS

    def _is_over(self, window: Window) -> bool:
        return self._end_of(window) + self._after_ms <= self._clock()

    async def _must_wait(self, window: Window) -> bool:
        is_in_index = (window.expires_at_ms or FOREVER_MS) > self._clock()
        return is_in_index and await self._ledger.read(is_waiting(self._board.name, window))

    def _window_named(self, name: str) -> Window | None:
        """Return the window of a name by today's calendar, or None, as for a season of another calendar."""
        try:
            return window_named(self._board.policy, name)
        except ValueError:
            return None

    def _todays_policy(self) -> FrozenPolicy:
        deciding = DECIDING_OF_ROLLUP if self._board.policy.rollup else DECIDING
        fields = self._board.policy.model_dump_json(include=set(deciding))
        return FrozenPolicy(fields, self._board.digest, self._board.ranking.rule)

    async def _fold(self, archived: ArchivedWindow) -> None:
        """Fold the window's standings in the ledger by the window's own policy."""
        if archived.stage is not ArchiveStage.FOLDING:
            return
        ranking = ranking_of(archived, self._board.policy)
        async for players in self._to_fold(archived):
            await self._ledger.write(refold(ranking, players, [archived.span]))
            reach(Point.INSIDE_ARCHIVE)
        await self._ledger.write(freezing.mark_folded(archived))

    async def _to_fold(self, archived: ArchivedWindow) -> AsyncIterator[Sequence[str]]:
        """Yield the players whose standing may have been removed, or may be by another policy."""
        is_of_today = archived.policy == self._todays_policy().policy
        if archived.revision and (archived.is_thin or not is_of_today):
            async for players in self._archived_players(archived):
                yield players
        if not is_of_today:
            async for players in self._promoted_players():
                yield players
        after, page = "", await self._ledger.read(freezing.rules_in(archived, after="", count=SLICE))
        while page:
            others = [player for player, is_other in page if is_other]
            for first in range(0, len(others), PLAYERS):
                yield others[first : first + PLAYERS]
            after = page[-1][0]
            page = await self._ledger.read(freezing.rules_in(archived, after=after, count=SLICE))

    async def _archived_players(self, archived: ArchivedWindow) -> AsyncIterator[list[str]]:
        after = ""
        while page := await self._ledger.read(freezing.players_of(archived, after=after, count=PLAYERS)):
            yield page
            after = page[-1]

    async def _promoted_players(self) -> AsyncIterator[list[str]]:
        after = ""
        while page := await self._ledger.read(promoted_players(self._board.name, after=after, count=PLAYERS)):
            yield page
            after = page[-1]

    async def _copy(self, archived: ArchivedWindow) -> None:
        ranking = ranking_of(archived, self._board.policy)
        layout: dict[str, Any] = {
            "orders_per_score": ranking.orders_per_score(archived.window),
            "tie_digits": ranking.tie_digits,
        }
        outcome = SliceOutcome.MORE
        while outcome is SliceOutcome.MORE:
            copying = freezing.copy_slice(archived, **layout, count=SLICE, now_ms=self._clock())
            outcome = await self._ledger.write(copying)
            reach(Point.INSIDE_ARCHIVE)

    async def _tidy(self, archived: ArchivedWindow) -> bool:
        """Remove one slice of what is no longer needed, and return whether there was any."""
        now_ms = self._clock()
        is_forgotten_by_index = archived.expires_at_ms + THIN_AFTER_MS <= now_ms
        if is_forgotten_by_index and self._is_to_be_forgotten(archived, now_ms):
            return bool(await self._ledger.write(freezing.forget_slice(archived, count=SLICE)))
        if archived.stage is ArchiveStage.SWEEPING:
            return bool(await self._ledger.write(freezing.sweep_slice(archived, count=SLICE)))
        if is_forgotten_by_index and archived.stage is ArchiveStage.FROZEN and not archived.changed_seq:
            return bool(await self._ledger.write(freezing.thin_slice(archived, count=SLICE)))
        return False

    def _is_to_be_forgotten(self, archived: ArchivedWindow, now_ms: int) -> bool:
        if archived.stage.is_gone:
            return archived.stage is ArchiveStage.FORGETTING or archived.changed_seq > 0
        return self._keep_ms is not None and archived.end_ms + self._keep_ms <= now_ms
