"""Makes the index equal to the ledger: adds what is missing, takes out what the ledger does not know, in slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.boards.index import BoardIndex, Pend
from gateway.boards.inspection import Inspection, Seen
from gateway.clock import Clock
from gateway.ledger import queries
from gateway.ledger.sqlite import SqliteLedger
from gateway.records import Standing
from gateway.telemetry import Event, logger
from policies.model import Policy
from policies.windows import window_at

SLICE: Final = 500
"""Rows looked at in one step; bounds the memory, and for how long Redis and the ledger are asked."""

_log = logger()


@dataclass(frozen=True, slots=True)
class Look:
    """What one slice gave: how much was repaired, and whether it was the last slice of its kind."""

    repaired: int
    is_last: bool


class Reconciler:
    """Compares one board's index with the ledger, for ever, a slice at a time. What it repairs it reports."""

    def __init__(
        self, ledger: SqliteLedger, index: BoardIndex, inspection: Inspection, policy: Policy, *, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._inspection = inspection
        self._policy = policy
        self._clock = clock
        self._standing_after = ("", "")
        self._baseline_after: str | None = None
        self._pending_after = 0
        self._pending_rank = 0
        self._member_rank = 0
        self._window_turn = 0

    async def step(self) -> int:
        """How much was repaired in one slice of everything, or in all of it if Redis was emptied."""
        if not await self._inspection.is_whole():
            return await self.rebuild()
        looks = [
            await look()
            for look in (self._standings, self._baselines, self._pending, self._pending_ghosts, self._members)
        ]
        return self._report(sum(look.repaired for look in looks))

    async def rebuild(self) -> int:
        """How much was missing of what the ledger has; all of it is there on return."""
        self._standing_after, self._baseline_after, self._pending_after = ("", ""), None, 0
        restored = 0
        for look_on in (self._standings, self._baselines, self._pending):
            is_last = False
            while not is_last:
                look = await look_on()
                restored, is_last = restored + look.repaired, look.is_last
        await self._inspection.mark_whole()
        _log.info(Event.REBUILT, board=self._policy.board, restored=restored)
        return restored

    def _report(self, repaired: int) -> int:
        if repaired:
            _log.warning(Event.REPAIRED, board=self._policy.board, repaired=repaired)
        return repaired

    async def _standings(self) -> Look:
        """Shows standings that the index lacks or has otherwise."""
        after = self._standing_after
        page = await self._ledger.read(queries.standings_page(self._policy.board, after=after, count=SLICE))
        now_ms = self._clock()
        kept = [each for each in page if each.expires_at_ms > now_ms]
        missing = await self._inspection.missing(kept) if kept else []
        await self._show(missing)
        is_last = len(page) < SLICE
        self._standing_after = ("", "") if is_last else (page[-1].window, page[-1].player)
        return Look(len(missing), is_last)

    async def _show(self, standings: Sequence[Standing]) -> None:
        """Shows these standings whatever stands in their place; newer ones, settled meanwhile, stay."""
        fresh = await self._still_true(standings)
        if not fresh:
            return
        await self._inspection.forget(fresh, [])
        for each in fresh:
            await self._index.restore(each.player, [each], [])

    async def _still_true(self, standings: Sequence[Standing]) -> list[Standing]:
        """The same slots, read from the ledger again."""
        if not standings:
            return []
        wanted = {(each.window, each.player) for each in standings}
        players = sorted({each.player for each in standings})
        found = await self._ledger.read(queries.slots(self._policy.board, players))
        return [each for each in found if (each.window, each.player) in wanted]

    async def _baselines(self) -> Look:
        """Shows baselines that the index lacks or has otherwise."""
        board, after = self._policy.board, self._baseline_after
        page = await self._ledger.read(queries.baselines_page(board, after=after, count=SLICE))
        missing = await self._inspection.missing_baselines(page)
        if missing:
            await self._inspection.forget([], missing)
            await self._index.restore("", [], missing)
        is_last = len(page) < SLICE
        self._baseline_after = None if is_last else page[-1].player
        return Look(len(missing), is_last)

    async def _pending(self) -> Look:
        """Puts on the pending set what the ledger has pending."""
        rows = await self._ledger.read(
            queries.pending(self._policy.board, after=self._pending_after, count=SLICE)
        )
        pends = [
            Pend(submission_id, player, received_at_ms) for _, submission_id, player, received_at_ms in rows
        ]
        added = await self._index.pend_all(pends) if pends else 0
        is_last = len(rows) < SLICE
        self._pending_after = 0 if is_last else rows[-1][0]
        return Look(added, is_last)

    async def _pending_ghosts(self) -> Look:
        """Takes off the pending set what the ledger does not have pending."""
        ids = await self._inspection.pending(self._pending_rank, SLICE)
        ghosts = await self._ledger.read(queries.not_pending(ids)) if ids else []
        await self._inspection.drop_pending(ghosts)
        is_last = len(ids) < SLICE
        self._pending_rank = 0 if is_last else self._pending_rank + SLICE - len(ghosts)
        return Look(len(ghosts), is_last)

    async def _members(self) -> Look:
        """Takes out of a window what the ledger does not know, one window at a time."""
        windows = self._readable_windows()
        window = windows[self._window_turn % len(windows)]
        seen = await self._inspection.members(window, self._member_rank, SLICE)
        forged = await self._unknown(window, seen)
        removed = await self._inspection.prune(window, forged)
        await self._show(await self._true_of(window, forged))
        is_last = len(seen) < SLICE
        self._member_rank = 0 if is_last else self._member_rank + SLICE - removed
        self._window_turn += is_last
        return Look(removed, is_last)

    def _readable_windows(self) -> list[str]:
        """The current window of every kind and, since that is still read, the one before it."""
        now_ms = self._clock()
        current = [window_at(kind, now_ms) for kind in self._policy.windows]
        before = [window_at(each.kind, each.begin_ms - 1) for each in current if each.expires_at_ms]
        return [window.name for window in (*current, *before)]

    async def _unknown(self, window: str, seen: Sequence[Seen]) -> list[Seen]:
        """Members that the ledger does not have so. Read after the index: what was settled between is the newer one."""
        stands = {each.player: each for each in await self._true_of(window, seen)}
        return [
            each
            for each in seen
            if each.player not in stands or not self._inspection.agrees(each, stands[each.player])
        ]

    async def _true_of(self, window: str, seen: Sequence[Seen]) -> list[Standing]:
        players = sorted({each.player for each in seen})
        found = await self._ledger.read(queries.slots(self._policy.board, players)) if players else []
        return [each for each in found if each.window == window]
