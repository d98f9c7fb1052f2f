"""Reads a board's entries from the index, or from the ledger while the index does not have them.

The index lacks a board while Redis is away, after Redis was emptied until the board is rebuilt, and while the
board is cold. The ledger gives the same entries with the same ranks but takes longer, so the ledger bounds
how many reads wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

from gateway.index.board_index import BoardIndex, Cut, Page
from gateway.ledger import index_pages
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings import ranks
from gateway.ledger.transaction import Operation
from gateway.runtime.telemetry import LEDGER_PAGES, Event, label_of, logger
from policies.choices import RankKind
from policies.errors import IndexNotWhole, IndexUnavailable

T = TypeVar("T")

SOURCE: Final = {"Scoregate-Source": "ledger"}
"""The header field of an answer that was not read from the index."""

IS_AWAY: Final[ContextVar[bool]] = ContextVar("is_away", default=False)
"""True once the index failed to answer this request.

It is not asked again, so a read waits for one time-out at most.
"""

_log = logger()


def note_away(error: IndexUnavailable) -> None:
    """Stop this request from asking the index again, and log that it did not answer."""
    IS_AWAY.set(True)
    log_fault(error)


def log_fault(error: IndexUnavailable) -> None:
    """Log that the index did not answer, or not readably."""
    _log.warning(Event.INDEX_DOWN, error=str(error))


class SourcedPage(NamedTuple):
    """A page of entries, and whether the index gave it."""

    page: Page
    is_from_index: bool

    @property
    def headers(self) -> dict[str, str]:
        """Return the header fields that name the source."""
        return {} if self.is_from_index else SOURCE


@dataclass(frozen=True, slots=True)
class BoardReader:
    """Reads the entries of one board. Every method raises LedgerUnavailable."""

    index: BoardIndex
    ledger: Ledger

    async def page(self, window: str, start: Cut | int, count: int, kind: RankKind) -> SourcedPage:
        """Return at most `count` entries from a 0-based position, or behind or ahead of a place."""
        if isinstance(start, Cut):
            indexed = self.index.seek(window, start, count, kind)
            from_ledger = self._beside(window, start, count, kind)
        else:
            indexed = self.index.page(window, start, count, kind)
            from_ledger = ranks.page_of(self.index.ranking, window, start, count, kind)
        return await self._page(window, kind, indexed, from_ledger)

    async def around(self, window: str, player: str, radius: int, kind: RankKind) -> SourcedPage:
        """Return a player's entry with `radius` neighbours on each side; nothing if the player has none."""
        from_ledger = ranks.around_of(self.index.ranking, window, player, radius, kind)
        return await self._page(window, kind, self._around(window, player, radius, kind), from_ledger)

    async def indexed(self, work: Awaitable[T], *, if_unplayed: T) -> T:
        """Return an answer that only the index can give, or `if_unplayed` if nobody ever had an entry.

        Raises IndexNotWhole, and has the board rebuilt, while the index lacks part of it.
        """
        residency = self.index.residency
        try:
            answer = await work
        except IndexNotWhole:
            await residency.note_use(is_missed=True)
            # Nothing is ever built of a board without entries, so it would be missing for ever.
            if await self.ledger.read(index_pages.has_standings(self.index.board), ReadKind.PAGES):
                raise
            return if_unplayed
        await residency.note_use()
        return answer

    async def either(
        self, indexed: Awaitable[Any], from_ledger: Operation[Any], kind: ReadKind = ReadKind.PAGES
    ) -> tuple[Any, bool]:
        """Return the index's answer and True, or the ledger's and False if the index cannot answer."""
        try:
            if not IS_AWAY.get():
                return await indexed, True
            if isinstance(indexed, Coroutine):
                indexed.close()  # or Python warns that it was never awaited
        except IndexNotWhole:
            with suppress(IndexUnavailable):
                await self.index.residency.note_use(is_missed=True)
        except IndexUnavailable as error:
            note_away(error)
        LEDGER_PAGES.labels(label_of(self.index.board)).inc()
        return await self.ledger.read(from_ledger, kind), False

    async def _around(self, window: str, player: str, radius: int, kind: RankKind) -> Page:
        page = await self.index.around(window, player, radius, kind)
        # Without an entry only the total is of use; any page has it.
        return page or replace(await self.index.page(window, 0, 1, kind), entries=())

    def _beside(self, window: str, cut: Cut, count: int, kind: RankKind) -> Operation[ranks.Slice]:
        # Behind with the entry there, and ahead without it, are cut right ahead of the place.
        at = cut.place if cut.is_behind == cut.is_included else ranks.just_behind(cut.place)
        read = ranks.behind_of if cut.is_behind else ranks.before_of
        return read(self.index.ranking, window, at, count, kind)

    async def _page(
        self, window: str, kind: RankKind, indexed: Awaitable[Page], from_ledger: Operation[ranks.Slice]
    ) -> SourcedPage:
        page, is_from_index = await self.either(indexed, from_ledger)
        return SourcedPage(page if is_from_index else self.index.page_of(window, kind, page), is_from_index)
