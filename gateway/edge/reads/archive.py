"""Reading archived windows: from the ledger alone, by index, each answer of one whole revision that it names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from aiohttp import web
from pydantic import BaseModel

from gateway.edge.context import Edge
from gateway.edge.http.responses import entry_page, entry_read, json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.reads.score_distribution import among_all
from gateway.edge.wire import read_models
from gateway.index.board_index import Cut, Entry, Page
from gateway.index.windows.subsets import SubsetEntry, SubsetPage
from gateway.ledger.archive import reading
from gateway.ledger.archive.distribution import archived_spread, archived_standing
from gateway.ledger.archive.reading import ArchivedEntries, ArchivedEntry
from gateway.ledger.archive.windows import archived_window
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.records import Spread
from gateway.runtime.clock import rfc3339
from policies.loader import Board
from policies.model import RankKind
from policies.ranking import BoardPlace
from policies.windows import FOREVER_MS, Window, window_named

Kept = TypeVar("Kept")

CACHE: Final = "public, max-age=60"
"""Final ranks change only with a decision about a window that is over: a reader may be a minute behind one."""


class Archive:
    """One archived window, to be asked as often as need be. Raises `not-found` once it is not kept any more."""

    def __init__(self, edge: Edge, board: Board, window: str) -> None:
        self._edge = edge
        self._board = board
        self._window = window

    async def page(self, start: Cut | int, count: int, ranks: RankKind) -> read_models.ArchivedPage:
        """`count` entries from a 0-based position, or behind or ahead of a place."""
        if isinstance(start, Cut):
            beside = reading.archived_beside(
                *self._name,
                place=start.place,
                is_behind=start.is_behind,
                is_included=start.is_included,
                count=count,
            )
            found = await self._read(beside)
            return self._shown(found, ranks, start)
        return self._shown(
            await self._read(reading.archived_page(*self._name, first=start, count=count)), ranks
        )

    async def around(self, player: str, radius: int, ranks: RankKind) -> read_models.ArchivedPage:
        """A player with neighbours. Raises `not-found` for a player without an entry."""
        return self._shown(await self._around(player, radius), ranks)

    async def entry(self, player: str, ranks: RankKind) -> tuple[read_models.EntryRead, int]:
        """A player's entry among all, and the revision that it is of. Raises `not-found` for a player without one."""
        found = self._kept(
            await self._edge.ledger.read(archived_standing(*self._name, player), ReadKind.PAGES)
        )
        total = found.window.entries
        if found.entry is None:
            raise _without_entry(total)
        among = among_all(total, found.better, found.entry.score, found.next_score)
        return entry_read(self._entry(found.entry, ranks), among), found.window.revision

    async def spread(self, scores: Sequence[int], shares: Sequence[int]) -> tuple[Spread, int]:
        """How many entries are better than these scores, the scores at these shares, and the revision of that."""
        found = self._kept(
            await self._edge.ledger.read(archived_spread(*self._name, scores, shares), ReadKind.HEAVY)
        )
        return found.spread, found.window.revision

    async def among(self, players: Sequence[str]) -> tuple[SubsetPage, int]:
        """Those of these players who stand there, ranked among them, and the revision that they are of."""
        found = await self._read(reading.archived_players(*self._name, list(dict.fromkeys(players))))
        shown = [
            SubsetEntry(replace(self._entry(each, RankKind.UNIQUE), rank=number), each.rank)
            for number, each in enumerate(found.entries, start=1)
        ]
        return SubsetPage(len(shown), tuple(shown)), found.window.revision

    @property
    def _name(self) -> tuple[str, str]:
        return self._board.name, self._window

    async def _around(self, player: str, radius: int) -> ArchivedEntries:
        found = await self._read(reading.archived_around(*self._name, player, radius))
        if not found.entries:
            raise _without_entry(found.window.entries)
        return found

    def _kept(self, found: Kept | None) -> Kept:
        if found is None:
            raise Problem(ProblemType.NOT_FOUND, "the window is not kept any more")
        return found

    async def _read(self, work: Operation[ArchivedEntries | None]) -> ArchivedEntries:
        found = await self._edge.ledger.read(work, ReadKind.PAGES)
        if found is None or not found.window.is_readable:
            raise Problem(ProblemType.NOT_FOUND, "the window is not kept any more")
        return found

    def _shown(
        self, found: ArchivedEntries, ranks: RankKind, cut: Cut | None = None
    ) -> read_models.ArchivedPage:
        entries = tuple(self._entry(each, ranks) for each in found.entries)
        page = Page(found.window.entries, entries, found.entries[0].rank - 1 if entries else 0)
        beside = self._edge.cursors.beside(self._board, self._window, ranks, page, cut)
        shown = entry_page(self._board.name, self._window, page, *beside)
        return read_models.ArchivedPage(
            **dict(shown), revision=found.window.revision, frozen_at=rfc3339(found.window.frozen_at_ms)
        )

    def _entry(self, found: ArchivedEntry, ranks: RankKind) -> Entry:
        """An entry with the time that it had while its window was current."""
        at_ms = found.achieved_at_ms
        if _named(self._board, self._window) is not None:
            at_ms = self._board.ranking.shown_at_ms(self._window, at_ms)
        return replace(_entry(found, ranks), achieved_at_ms=at_ms)


async def archived(edge: Edge, board: Board, window: str) -> Archive | None:
    """The archive's answers about a window; None for one that is not over, or not archived yet."""
    named = _named(board, window)
    if named is not None and named.end_ms > edge.clock():
        return None
    found = await edge.ledger.read(archived_window(board.name, window), ReadKind.PAGES)
    return Archive(edge, board, window) if found and found.revision else None


async def is_archived(edge: Edge, board: Board, window: str) -> bool:
    """True for a window that can be read though the board's calendar may not know it any more."""
    found = await edge.ledger.read(archived_window(board.name, window), ReadKind.PAGES)
    return found is not None and found.is_readable


def is_out_of_index(edge: Edge, board: Board, window: str) -> bool:
    """True for a window that the index has forgotten."""
    named = _named(board, window)
    return named is None or (named.expires_at_ms or FOREVER_MS) <= edge.clock()


def revision_field(revision: int) -> dict[str, str]:
    """The field that says of which revision of the archive an answer is."""
    return {"Scoregate-Revision": str(revision)}


def archive_response(
    request: web.Request, shown: BaseModel, revision: int, headers: dict[str, str] | None = None
) -> web.Response:
    """An answer from the archive, or a 304 for a reader that has it."""
    response = revalidated(request, json_response(shown, headers=headers))
    response.headers.update({"Cache-Control": CACHE} | revision_field(revision))
    return response


def _named(board: Board, window: str) -> Window | None:
    with suppress(ValueError):
        return window_named(board.policy, window)
    return None


def _entry(found: ArchivedEntry, ranks: RankKind) -> Entry:
    rank = {
        RankKind.UNIQUE: found.rank,
        RankKind.SPARSE: found.sparse_rank,
        RankKind.DENSE: found.dense_rank,
    }[ranks]
    place = BoardPlace(found.order, found.member)
    return Entry(
        rank, found.player, found.name, found.score, found.achieved_at_ms, found.submission_id, place
    )


def _without_entry(total: int) -> Problem:
    return Problem(ProblemType.NOT_FOUND, "the player has no entry in this window", ranked=False, total=total)
