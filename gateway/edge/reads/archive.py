"""Reads archived windows from the ledger. Each answer comes from one whole revision, which it names."""

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
from gateway.edge.reads.distribution_reader import relative_position
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.wire import read_models
from gateway.index.board_index import Cut, Entry, Page
from gateway.index.windows.subsets import SubsetEntry, SubsetPage
from gateway.ledger.archive import reading
from gateway.ledger.archive.distribution import archived_distribution, archived_standing
from gateway.ledger.archive.reading import ArchivedEntries, ArchivedEntry
from gateway.ledger.archive.windows import ArchivedWindow, archived_window
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation
from gateway.runtime.clock import rfc3339
from gateway.shared_records import ScoreDistribution
from policies.choices import RankKind
from policies.loader import Board
from policies.ranking import BoardPlace
from policies.windows import FOREVER_MS, Window, window_named

Answer = TypeVar("Answer")

CACHE: Final = "public, max-age=60"
"""Final ranks change only with a late decision, which a reader may see a minute later."""


class Archive:
    """Reads one archived window. Every method raises `not-found` once the window is deleted."""

    def __init__(self, edge: Edge, board: Board, window: str) -> None:
        self._edge = edge
        self._board = board
        self._window = window

    async def page(self, start: Cut | int, count: int, ranks: RankKind) -> read_models.ArchivedPage:
        """Return `count` entries from a 0-based position, or behind or ahead of a place."""
        cut = start if isinstance(start, Cut) else None
        return self._page_read(await self.entries_at(start, count), ranks, cut)

    async def entries_at(self, start: Cut | int, count: int) -> ArchivedEntries:
        """Return the same entries as they are stored."""
        if isinstance(start, Cut):
            beside = reading.archived_beside(
                *self._name,
                place=start.place,
                is_behind=start.is_behind,
                is_included=start.is_included,
                count=count,
            )
            return await self._read(beside)
        return await self._read(reading.archived_page(*self._name, first=start, count=count))

    async def around(self, player: str, radius: int, ranks: RankKind) -> read_models.ArchivedPage:
        """Return a player's entry with its neighbours. Raises `not-found` if the player has none."""
        page = await self.entries_around(player, radius)
        if not page.entries:
            raise without_entry(page.window.entries)
        return self._page_read(page, ranks)

    async def entries_around(self, player: str, radius: int) -> ArchivedEntries:
        """Return the same entries as they are stored; none if the player has none."""
        return await self._read(reading.archived_around(*self._name, player, radius))

    async def entry(self, player: str, ranks: RankKind) -> tuple[read_models.EntryRead, int]:
        """Return a player's entry and the revision that it is from.

        Raises `not-found` if the player has none.
        """
        work = archived_standing(*self._name, player)
        standing = self._existing(await self._edge.ledger.read(work, ReadKind.PAGES))
        total, entry = standing.window.entries, standing.entry
        if entry is None:
            raise without_entry(total)
        position = relative_position(total, standing.better, entry.score, standing.next_score)
        return entry_read(self._entry(entry, ranks), position), standing.window.revision

    async def distribution(
        self, scores: Sequence[int], shares: Sequence[int]
    ) -> tuple[ScoreDistribution, int]:
        """Return how many entries beat each score, the score at each share, and their revision."""
        work = archived_distribution(*self._name, scores, shares)
        window, distribution = self._existing(await self._edge.ledger.read(work, ReadKind.HEAVY))
        return distribution, window.revision

    async def subset(self, players: Sequence[str]) -> tuple[SubsetPage, int]:
        """Return the entries of these players, ranked among themselves, and their revision."""
        page = await self._read(reading.archived_players(*self._name, list(dict.fromkeys(players))))
        entries = [
            SubsetEntry(replace(self._entry(entry, RankKind.UNIQUE), rank=number), entry.rank)
            for number, entry in enumerate(page.entries, start=1)
        ]
        return SubsetPage(len(entries), tuple(entries)), page.window.revision

    def index_page(self, archived_entries: ArchivedEntries, ranks: RankKind) -> Page:
        """Return entries that were read from this window as the index would have them."""
        entries = tuple(self._entry(entry, ranks) for entry in archived_entries.entries)
        ahead = archived_entries.entries[0].rank - 1 if entries else 0
        return Page(archived_entries.window.entries, entries, ahead)

    @property
    def _name(self) -> tuple[str, str]:
        return self._board.name, self._window

    async def _read(self, work: Operation[ArchivedEntries | None]) -> ArchivedEntries:
        page = await self._edge.ledger.read(work, ReadKind.PAGES)
        if page is None or not page.window.is_readable:
            raise _deleted()
        return page

    def _existing(self, answer: Answer | None) -> Answer:
        if answer is None:
            raise _deleted()
        return answer

    def _page_read(
        self, archived_entries: ArchivedEntries, ranks: RankKind, cut: Cut | None = None
    ) -> read_models.ArchivedPage:
        return self.shown(archived_entries.window, self.index_page(archived_entries, ranks), ranks, cut)

    def shown(
        self, window: ArchivedWindow, page: Page, ranks: RankKind, cut: Cut | None = None
    ) -> read_models.ArchivedPage:
        """Return a page of a revision of this window as an answer, with cursors."""
        beside = self._edge.cursors.beside(self._board, self._window, ranks, page, cut)
        fields = dict(entry_page(self._board.name, self._window, page, *beside))
        return read_models.ArchivedPage(
            **fields, revision=window.revision, frozen_at=rfc3339(window.frozen_at_ms)
        )

    def _entry(self, archived_entry: ArchivedEntry, ranks: RankKind) -> Entry:
        """Return an entry with the time that readers saw while its window was current."""
        entry = _entry(archived_entry, ranks)
        if _calendar_window(self._board, self._window) is None:
            return entry
        shown_at_ms = self._board.ranking.shown_at_ms(self._window, entry.achieved_at_ms)
        return replace(entry, achieved_at_ms=shown_at_ms)


async def archived(edge: Edge, board: Board, window: str) -> Archive | None:
    """Return the archive of a window; None while the window is current or not archived yet."""
    if not may_be_archived(edge, board, window):
        return None
    row = await edge.ledger.read(archived_window(board.name, window), ReadKind.PAGES)
    if row is None or row.is_withdrawn:
        return None
    return Archive(edge, board, window) if row.revision else None


def may_be_archived(edge: Edge, board: Board, window: str) -> bool:
    """Return whether a window is no longer current, as the `alltime` of a closed board."""
    calendar_window = _calendar_window(board, window)
    is_current = calendar_window is not None and calendar_window.end_ms > edge.clock()
    return not is_current or board.final_from_ms is not None


async def is_archived(edge: Edge, board: Board, window: str) -> bool:
    """Return whether the archive has a window, which the board's calendar may no longer know."""
    row = await edge.ledger.read(archived_window(board.name, window), ReadKind.PAGES)
    return row is not None and row.is_readable


def is_out_of_index(edge: Edge, board: Board, window: str) -> bool:
    """Return whether the index has forgotten a window."""
    calendar_window = _calendar_window(board, window)
    return calendar_window is None or (calendar_window.expires_at_ms or FOREVER_MS) <= edge.clock()


def revision_field(revision: int) -> dict[str, str]:
    """Return the header field that names an answer's revision of the archive."""
    return {"Scoregate-Revision": str(revision)}


def archive_response(
    request: web.Request, answer: BaseModel, revision: int, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an answer from the archive, or a 304 for a reader that has it."""
    response = revalidated(request, json_response(answer, headers=headers))
    response.headers.update({"Cache-Control": CACHE} | revision_field(revision))
    return response


def _calendar_window(board: Board, name: str) -> Window | None:
    with suppress(ValueError):
        return window_named(board.policy, name)
    return None


def _entry(entry: ArchivedEntry, ranks: RankKind) -> Entry:
    rank = {
        RankKind.UNIQUE: entry.rank,
        RankKind.SPARSE: entry.sparse_rank,
        RankKind.DENSE: entry.dense_rank,
    }[ranks]
    place = BoardPlace(entry.order, entry.member)
    return Entry(
        rank, entry.player, entry.name, entry.score, entry.achieved_at_ms, entry.submission_id, place
    )


def _deleted() -> Problem:
    return Problem(ProblemType.NOT_FOUND, "the window is no longer kept")


def without_entry(total: int) -> Problem:
    """Return the problem of a player without an entry in a window of so many."""
    return Problem(ProblemType.NOT_FOUND, "the player has no entry in this window", ranked=False, total=total)
