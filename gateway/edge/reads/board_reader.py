"""The one way in which entries of a board are read: from the index, and from the ledger where the index has them not.

The index has them not while Redis is away, after it was emptied until the board is rebuilt, and while the board is
cold. The ledger gives the same entries with the same ranks, for more of its time, so that no more than so many
reads wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

from gateway.index.board_index import BoardIndex, Cut, Page
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings import ranks
from gateway.ledger.transaction import Operation
from gateway.runtime.telemetry import LEDGER_PAGES, Event, logger
from policies.errors import IndexNotWhole, IndexUnavailable
from policies.model import RankKind

T = TypeVar("T")

SOURCE: Final = {"Scoregate-Source": "ledger"}
"""Said with what was not read from the index."""

IS_AWAY: Final[ContextVar[bool]] = ContextVar("is_away", default=False)
"""True once the index did not answer this request: it is not asked again, so that a read waits for one time-out."""

_log = logger()


def note_away(error: IndexUnavailable) -> None:
    """Have this request ask the index no more, and say in the log that it did not answer."""
    IS_AWAY.set(True)
    _log.warning(Event.INDEX_DOWN, error=str(error))


class Found(NamedTuple):
    """A page, and whether it is from the index."""

    page: Page
    is_of_index: bool

    @property
    def headers(self) -> dict[str, str]:
        """What is said of where it is from."""
        return {} if self.is_of_index else SOURCE


@dataclass(frozen=True, slots=True)
class BoardReader:
    """The entries of one board. Every method raises LedgerUnavailable."""

    index: BoardIndex
    ledger: Ledger

    async def page(self, window: str, start: Cut | int, count: int, kind: RankKind) -> Found:
        """At most `count` entries from a 0-based position, or next to a place."""
        if isinstance(start, Cut):
            asked = self.index.seek(window, start, count, kind)
            return await self._found(window, kind, asked, self._beside(window, start, count, kind))
        asked = self.index.page(window, start, count, kind)
        otherwise = ranks.page_of(self.index.ranking, window, start, count, kind)
        return await self._found(window, kind, asked, otherwise)

    async def around(self, window: str, player: str, radius: int, kind: RankKind) -> Found:
        """A player's entry with `radius` neighbours on each side; no entries for a player without a standing."""
        otherwise = ranks.around_of(self.index.ranking, window, player, radius, kind)
        return await self._found(window, kind, self._around(window, player, radius, kind), otherwise)

    async def _around(self, window: str, player: str, radius: int, kind: RankKind) -> Page:
        page = await self.index.around(window, player, radius, kind)
        return page or replace(await self.index.page(window, 0, 1, kind), entries=())

    def _beside(self, window: str, cut: Cut, count: int, kind: RankKind) -> Operation[ranks.Slice]:
        # Behind with the entry there, and ahead without it, are cut right ahead of the place.
        at = cut.place if cut.is_behind == cut.is_included else ranks.just_behind(cut.place)
        read = ranks.behind_of if cut.is_behind else ranks.before_of
        return read(self.index.ranking, window, at, count, kind)

    async def _found(
        self, window: str, kind: RankKind, asked: Awaitable[Page], otherwise: Operation[ranks.Slice]
    ) -> Found:
        page, is_of_index = await self.either(asked, otherwise)
        return Found(page if is_of_index else self.index.page_of(window, kind, page), is_of_index)

    async def indexed(self, asked: Awaitable[T]) -> T:
        """What the index alone can answer. Raises IndexNotWhole while it has not all of the board, and has it brought back."""
        residency = self.index.residency
        try:
            found = await asked
        except IndexNotWhole:
            await residency.note_use(is_missed=True)
            raise
        await residency.note_use()
        return found

    async def either(
        self, asked: Awaitable[Any], otherwise: Operation[Any], kind: ReadKind = ReadKind.PAGES
    ) -> tuple[Any, bool]:
        """What the index answers, and True; or, if it has it not, what the ledger answers, and False."""
        try:
            if not IS_AWAY.get():
                return await asked, True
            if isinstance(asked, Coroutine):
                asked.close()
        except IndexNotWhole:
            with suppress(IndexUnavailable):
                await self.index.residency.note_use(is_missed=True)
        except IndexUnavailable as error:
            note_away(error)
        LEDGER_PAGES.labels(self.index.board).inc()
        return await self.ledger.read(otherwise, kind), False
