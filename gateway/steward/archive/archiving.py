"""Freezes windows that are over into the ledger's archive, and keeps what is archived equal to the ledger's fold.

A window is due once it is over for `archive_after_s` and nothing that was achieved in it is pending any more,
or at the latest when the index forgets it. What changes it later (a verdict, a moderator, a trusted server)
makes a new revision due, which is built beside the readable one. Standings of a window leave the ledger some
time after the index forgot it; a later change has them folded again from what is promoted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from gateway.ledger.archive import freezing
from gateway.ledger.archive.freezing import SliceOutcome
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
from policies.model import Policy
from policies.ranking import Ranking
from policies.windows import FOREVER_MS, Window, window_named

SLICE: Final = 2_000
"""Entries written or removed in one transaction: other writes wait for it, about a hundredth of a second."""

PLAYERS: Final = 100
"""Players folded anew in one transaction."""

ATTEMPTS: Final = 5
"""How often a build that something changed begins again, a slice at a time; then all of it is built in one transaction.

As often that is tried, which only a build of another steward voids; then the window waits for its next turn.
"""

QUIET_MS: Final = 30_000
"""How long nothing more must have changed in an archived window before its next revision is built."""

LONGEST_MS: Final = 120_000
"""How long a change waits for that at most: then the revision is built, though more may come."""

THIN_AFTER_MS: Final = 3_600_000
"""How long the standings of an archived window stay after the index forgot it: more than clocks differ."""

DAY_MS: Final = 86_400_000

_DECIDING: Final = frozenset(
    {"operator", "order", "decimals", "ranks", "tie_break", "tie_fields", "tie_resolution_ms", "joins", "score",
     "time_zone", "season", "windows"}
)  # fmt: skip
"""What of a policy decides who stands where in which window: that is kept with a window."""

_GIVEN: Final = frozenset({"board", "title", "writes", "velocity", "anomaly", "builds", "replay"})
"""What a policy has to say besides, and today's says."""

_log = logger()


class _LastChange(NamedTuple):
    """The last change of a window that its revision lacks; when that was noticed, and when the first was (Unix ms)."""

    seq: int
    last_ms: int
    first_ms: int


class Archiver:
    """Archives one board's windows. Any number may run, and be ended at any time."""

    def __init__(self, settings: Settings, ledger: Ledger, board: Board, *, clock: Clock) -> None:
        self._after_ms = int(settings.archive_after_s * 1000)
        self._keep_ms = None if settings.archive_keep_days is None else settings.archive_keep_days * DAY_MS
        self._ledger = ledger
        self._board = board
        self._clock = clock
        self._changes: dict[str, _LastChange] = {}

    async def step(self) -> int:
        """How many revisions were put in place, and slices of what is not needed any more removed."""
        frozen = await self.freeze_due()
        for found in frozen:
            _log.info(Event.WINDOW_FROZEN, board=found.board, window=found.window, revision=found.revision)
        return len(frozen) + sum([await self._tidy(found) for found in await self._known()])

    async def freeze_due(self) -> list[ArchivedWindow]:
        """Windows that got a new revision, which was due."""
        known = {each.window: each for each in await self._known()}
        frozen: list[ArchivedWindow] = []
        for window in await self._due(known):
            found = await self.freeze(window)
            self._changes.pop(window.name, None)
            if found and (window.name not in known or known[window.name].revision < found.revision):
                frozen.append(found)
        return frozen

    async def freeze(self, window: Window) -> ArchivedWindow | None:
        """The window with a new revision, or as it is if that lacks nothing; None if others build it again and again.

        What changes while it is built voids it; after some attempts it is built in one transaction.
        """
        for attempt in range(2 * ATTEMPTS):
            found = await self._ledger.write(begin(self._board.name, window, self._frozen()))
            if not found.stage.is_building:
                return found
            await self._fold(found)
            if attempt < ATTEMPTS:
                await self._copy(found)
            else:
                ranking = ranking_of(found, self._board.policy)
                await self._ledger.write(freezing.copy_whole(found, ranking, now_ms=self._clock()))
        return None

    async def freeze_now(self, name: str) -> ArchivedWindow:
        """The window of this name, frozen, though it may not be due. Raises ArchiveRefused."""
        known = {each.window: each for each in await self._known()}
        is_there = name in known or name in await self._with_standings()
        window = known[name].span if name in known else self._named(name)
        if window is None or not is_there:
            raise ArchiveRefused(f"nobody stands in a window {name!r} of the board {self._board.name}")
        if window.end_ms > self._clock():
            raise ArchiveRefused(f"{name} is not over yet")
        found = await self.freeze(window)
        if found is None:
            raise ArchiveRefused(f"{name} is being built by others all the time; try again later")
        if found.stage.is_gone:
            raise ArchiveRefused(f"{name} was kept for SCOREGATE_ARCHIVE_KEEP_DAYS, and is not any more")
        return found

    async def _due(self, known: dict[str, ArchivedWindow]) -> list[Window]:
        """Windows to be frozen now: the unfinished and the changed ones first, then those that are over, in their order."""
        begun = [each.span for each in known.values() if self._is_unfinished(each)]
        names = [name for name in await self._with_standings() if name not in known]
        over = [window for window in map(self._named, names) if window and self._is_over(window)]
        ready = [window for window in over if not await self._must_wait(window)]
        return begun + sorted(ready, key=lambda window: (window.end_ms, window.name))

    async def _known(self) -> list[ArchivedWindow]:
        return await self._ledger.read(archived_windows_of(self._board.name))

    async def _with_standings(self) -> set[str]:
        """The names of all windows that have standings, however long ago they expired."""
        return set(await self._ledger.read(live_windows(self._board.name, now_ms=0)))

    def _is_unfinished(self, found: ArchivedWindow) -> bool:
        if found.stage.is_gone or not (found.stage.is_building or found.changed_seq):
            return False
        return found.changed_seq == 0 or self._is_quiet(found)

    def _is_quiet(self, found: ArchivedWindow) -> bool:
        now_ms = self._clock()
        before = self._changes.get(found.window, _LastChange(found.changed_seq, now_ms, now_ms))
        now = (
            before
            if before.seq == found.changed_seq
            else _LastChange(found.changed_seq, now_ms, before.first_ms)
        )
        self._changes[found.window] = now
        return now_ms - now.last_ms >= QUIET_MS or now_ms - now.first_ms >= LONGEST_MS

    def _is_over(self, window: Window) -> bool:
        return window.end_ms < FOREVER_MS and window.end_ms + self._after_ms <= self._clock()

    async def _must_wait(self, window: Window) -> bool:
        is_in_index = (window.expires_at_ms or FOREVER_MS) > self._clock()
        return is_in_index and await self._ledger.read(is_waiting(self._board.name, window))

    def _named(self, name: str) -> Window | None:
        """The window that bears a name by today's calendar; a season of another calendar has none."""
        try:
            return window_named(self._board.policy, name)
        except ValueError:
            return None

    def _frozen(self) -> FrozenPolicy:
        said = self._board.policy.model_dump_json(include=set(_DECIDING))
        return FrozenPolicy(said, self._board.digest, self._board.ranking.rule)

    async def _fold(self, found: ArchivedWindow) -> None:
        """Has every player of the window stand in the ledger as the window's own policy says."""
        if found.stage is not ArchiveStage.FOLDING:
            return
        ranking = ranking_of(found, self._board.policy)
        async for players in self._to_fold(found):
            await self._ledger.write(refold(ranking, players, [found.span]))
            reach(Point.INSIDE_ARCHIVE)
        await self._ledger.write(freezing.mark_folded(found))

    async def _to_fold(self, found: ArchivedWindow) -> AsyncIterator[Sequence[str]]:
        """Players whose standing may have gone, or may be one of another policy."""
        is_of_today = found.policy == self._frozen().policy
        if found.revision and (found.is_thin or not is_of_today):
            async for players in self._archived_players(found):
                yield players
        if not is_of_today:
            async for players in self._promoted_players():
                yield players
        after, page = "", await self._ledger.read(freezing.rules_in(found, after="", count=SLICE))
        while page:
            others = [player for player, is_other in page if is_other]
            for first in range(0, len(others), PLAYERS):
                yield others[first : first + PLAYERS]
            after = page[-1][0]
            page = await self._ledger.read(freezing.rules_in(found, after=after, count=SLICE))

    async def _archived_players(self, found: ArchivedWindow) -> AsyncIterator[list[str]]:
        after = ""
        while page := await self._ledger.read(freezing.players_of(found, after=after, count=PLAYERS)):
            yield page
            after = page[-1]

    async def _promoted_players(self) -> AsyncIterator[list[str]]:
        after = ""
        while page := await self._ledger.read(promoted_players(self._board.name, after=after, count=PLAYERS)):
            yield page
            after = page[-1]

    async def _copy(self, found: ArchivedWindow) -> None:
        ranking = ranking_of(found, self._board.policy)
        how: dict[str, Any] = {"slots": ranking.orders_per_score(found.window), "digits": ranking.tie_digits}
        built = SliceOutcome.MORE
        while built is SliceOutcome.MORE:
            slice_of_it = freezing.copy_slice(found, **how, count=SLICE, now_ms=self._clock())
            built = await self._ledger.write(slice_of_it)
            reach(Point.INSIDE_ARCHIVE)

    async def _tidy(self, found: ArchivedWindow) -> bool:
        """True if there was something to remove, of which one slice has gone."""
        now_ms = self._clock()
        is_forgotten_by_index = found.expires_at_ms + THIN_AFTER_MS <= now_ms
        if is_forgotten_by_index and self._is_to_be_forgotten(found, now_ms):
            return bool(await self._ledger.write(freezing.forget_slice(found, count=SLICE)))
        if found.stage is ArchiveStage.SWEEPING:
            return bool(await self._ledger.write(freezing.sweep_slice(found, count=SLICE)))
        if is_forgotten_by_index and found.stage is ArchiveStage.FROZEN and not found.changed_seq:
            return bool(await self._ledger.write(freezing.thin_slice(found, count=SLICE)))
        return False

    def _is_to_be_forgotten(self, found: ArchivedWindow, now_ms: int) -> bool:
        if found.stage.is_gone:
            return found.stage is ArchiveStage.FORGETTING or found.changed_seq > 0
        return self._keep_ms is not None and found.end_ms + self._keep_ms <= now_ms


def ranking_of(found: ArchivedWindow, today: Policy) -> Ranking:
    """The ranking of a window, by the policy that it was frozen under."""
    given = today.model_dump(include=set(_GIVEN), mode="json")
    return Ranking(Policy.model_validate_json(orjson.dumps(given | orjson.loads(found.policy))))
