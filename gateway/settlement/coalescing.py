"""Shows many small changes of a board at once, where its policy lets readers wait: the ledger has each before it is told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from gateway.ledger.submissions import work
from gateway.records import Change, Standing, StoredBaseline
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.settle import LedgerWrites, Projection
from policies.errors import IndexUnavailable, LedgerUnavailable

GATHERED_LIMIT: Final = 10_000
"""Changes that wait at most; one more has them shown at once. A change is under a kilobyte."""


class Coalescer:
    """Gathers durable changes for `staleness_s`, then shows the newest of each player alone.

    Fails open: what could not be shown, or was lost with the process, is in the outbox, and the steward shows it.
    """

    def __init__(self, ledger: LedgerWrites, index: Projection, *, staleness_s: float) -> None:
        self._ledger = ledger
        self._index = index
        self._staleness_s = staleness_s
        self._gathered: list[Change] = []
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def show(self, changes: Sequence[Change]) -> None:
        """Has the changes shown with the next flush; returns at once."""
        self._gathered += changes
        if len(self._gathered) >= GATHERED_LIMIT:
            self._is_due.set()
        if self._gathered and self._task is None:
            self._task = asyncio.create_task(self._flush_later(), name="coalescer")

    async def drained(self) -> None:
        """Flushes now, and returns once nothing waits."""
        while self._task is not None:
            self._is_due.set()
            await asyncio.wait([self._task])

    async def _flush_later(self) -> None:
        try:
            while self._gathered:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._staleness_s):
                        await self._is_due.wait()
                self._is_due.clear()
                changes, self._gathered = self._gathered, []
                await self._show(changes)
        finally:
            self._task = None

    async def _show(self, changes: Sequence[Change]) -> None:
        try:
            await self._index.project(newest(changes))
            await self._ledger.write(work.strike_projected([each.seq for each in changes]))
        except (IndexUnavailable, LedgerUnavailable):
            pass
        except Exception as error:  # noqa: BLE001 - what is gathered next must be shown
            report(FaultPlace.COALESCER, error)


def newest(changes: Iterable[Change]) -> list[Change]:
    """One change for each player, with the newest standing of each window and the newest baselines.

    Only for changes whose submissions never waited: of the others the index would have to hear one by one.
    """
    last: dict[str, Change] = {}
    standings: dict[str, dict[str, Standing]] = defaultdict(dict)
    baselines: dict[str, tuple[str, StoredBaseline]] = {}
    for each in sorted(changes, key=lambda change: change.seq):
        last[each.player] = each
        standings[each.player] |= {standing.window: standing for standing in each.standings}
        baselines |= {learnt.player: (each.player, learnt) for learnt in each.baselines}
    learnt_by: dict[str, list[StoredBaseline]] = defaultdict(list)
    for player, learnt in baselines.values():
        learnt_by[player].append(learnt)
    return [
        replace(each, standings=tuple(standings[player].values()), baselines=tuple(learnt_by[player]))
        for player, each in last.items()
    ]
